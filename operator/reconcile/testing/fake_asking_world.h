#pragma once

#include <string>
#include <utility>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {

// A job of two workers that asks autoscalers for room by ProvisioningRequests.
TrainingJob AskingJob();

// The conditions of a request that has one.
Json ConditionOf(const std::string& type,
                 bool is_true,
                 const std::string& reason = "Reason",
                 const std::string& message = "");

// For tests: AskingJob's world, which has no node, and a server that keeps what autoscalers look
// at. The test is the autoscaler.
class FakeAskingWorld {
 public:
  FakeAskingWorld() { Begin(); }

  // All from the start.
  void Begin();

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

  // The names of all that is there.
  std::string Objects();

  static std::vector<WriteObject> WritesOf(const Decision& decision);

  ProvisioningSight& sight() { return world_.observed.provisioning; }

  const CapacityAsk& ask() { return *world_.job.status.provisioning; }

  // What the condition Scheduled says.
  std::string Why() { return MessageOf(world_.job.status, ConditionType::kScheduled); }

  bool Says(const std::string& words) { return Why().find(words) != std::string::npos; }

 protected:
  TestWorld world_{AskingJob()};

 private:
  int next_uid_ = 1;
};

}  // namespace lockstep::control
