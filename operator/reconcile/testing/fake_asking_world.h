#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/prng.h"
#include "operator/api/job/training_job.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {

// A job of two workers that asks autoscalers for room by ProvisioningRequests.
TrainingJob AskingJob();

// The conditions of a request that has one.
Json ConditionOf(const std::string& type,
                 bool is_true,
                 const std::string& reason = "Reason",
                 const std::string& message = "");

// For tests: the world of a job that asks autoscalers for room, without a node, and a server that
// keeps what it asks with. The test is the autoscaler.
class FakeAskingWorld {
 public:
  // What may happen in a story beside what happens in all of them.
  using Move = std::function<void(Prng&)>;

  explicit FakeAskingWorld(TrainingJob job = AskingJob()) { Begin(std::move(job)); }

  // All from the start; the operator follows what the job asks with, and nothing else.
  void Begin(TrainingJob job = AskingJob());

  // What the server makes of it, and the watch shows.
  void Carry(const WriteObject& write);

  // A turn, all of whose writes are carried out; their descriptions.
  std::string Step();

  // Turns until the request is there.
  void Ask();

  // Of the request that is there first.
  void Answer(Json conditions) { sight().requests.at(0).conditions = std::move(conditions); }

  // Asks, and the check comes to nothing.
  void FindNothing();

  // A random story of 60 turns in which writes are under way for a while, arrive in any order, or
  // are lost with an operator; then the job has ended or goes, and what was under way arrives.
  // Returns the most objects that there were at a time.
  std::size_t TellStory(uint64_t seed, const Move& move);

  // The names of all that is there: templates, requests, placeholders.
  std::string Objects();

  static std::vector<WriteObject> WritesOf(const Decision& decision);

  ProvisioningSight& sight() { return world_.observed.provisioning; }

  CapacityAsk& ask() { return *world_.job.status.provisioning; }

  // What the condition Scheduled says.
  std::string Why() { return MessageOf(world_.job.status, ConditionType::kScheduled); }

  bool Says(const std::string& words) { return Why().find(words) != std::string::npos; }

 protected:
  TestWorld world_{AskingJob()};

 private:
  // One of the things that happen in every story, or `move`.
  void MoveOn(const Move& move, Prng& prng, std::vector<WriteObject>* under_way);

  std::vector<CapacityObject>& ListOf(const WriteObject& write);

  int next_uid_ = 1;
};

}  // namespace lockstep::control
