#include "operator/reconcile/testing/fake_asking_world.h"

#include <algorithm>
#include <variant>

#include "operator/api/status/conditions.h"
#include "operator/capacity/capacity_request.h"
#include "operator/kubeclient/kube/capacity_kinds.h"

namespace lockstep::control {
namespace {

constexpr int kTurns = 60;

}  // namespace

TrainingJob AskingJob() {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].gpus = 4;
  job.spec.scheduling.provisioning = Provisioning::kProvisioningRequest;
  return job;
}

Json ConditionOf(const std::string& type,
                 bool is_true,
                 const std::string& reason,
                 const std::string& message) {
  return Json::array({{{"type", type},
                       {"status", is_true ? "True" : "False"},
                       {"reason", reason},
                       {"message", message}}});
}

void FakeAskingWorld::Begin(TrainingJob job) {
  const Provisioning way = job.spec.scheduling.provisioning;
  world_ = TestWorld(std::move(job));
  world_.nodes().clear();
  sight().is_followed = way == Provisioning::kProvisioningRequest;
  sight().are_placeholders_followed = way == Provisioning::kPods;
}

std::vector<WriteObject> FakeAskingWorld::WritesOf(const Decision& decision) {
  std::vector<WriteObject> writes;
  for (const Effect& effect : decision.effects) {
    if (const auto* const write = std::get_if<WriteObject>(&effect)) {
      writes.push_back(*write);
    }
  }
  return writes;
}

std::vector<CapacityObject>& FakeAskingWorld::ListOf(const WriteObject& write) {
  return write.resource == kube::kPods           ? sight().placeholders
         : write.resource == kube::kPodTemplates ? sight().templates
                                                 : sight().requests;
}

void FakeAskingWorld::Carry(const WriteObject& write) {
  std::vector<CapacityObject>& objects = ListOf(write);
  const auto found = std::find_if(
      objects.begin(), objects.end(), [&](const auto& one) { return one.name == write.name; });
  const bool is_there = found != objects.end();
  const Json body = write.body.empty() ? Json() : *ParseJson(write.body);
  if (write.kind == WriteObject::Kind::kCreate && !is_there) {
    objects.push_back({write.name,
                       "object-" + std::to_string(next_uid_++),
                       body["metadata"]["annotations"][kCapacityRevision],
                       true,
                       false,
                       Json(),
                       "",
                       body[write.resource == kube::kPodTemplates ? "template" : "spec"],
                       1});
  } else if (write.kind == WriteObject::Kind::kDelete && is_there && found->uid == write.uid) {
    objects.erase(found);
  } else if (write.kind == WriteObject::Kind::kPatch && is_there &&
             body["metadata"]["uid"] == found->uid) {
    found->conditions = body["status"]["conditions"];
  }
}

std::string FakeAskingWorld::Step() {
  std::string text;
  for (const WriteObject& write : WritesOf(world_.Step())) {
    Carry(write);
    text += (text.empty() ? "" : ", ") + DescribeEffect(write);
  }
  return text;
}

void FakeAskingWorld::Ask() {
  Step();
  Step();
}

void FakeAskingWorld::FindNothing() {
  Ask();
  Answer(ConditionOf("Failed", true, "CapacityIsNotFound", "CA could not find it"));
  Step();
}

std::string FakeAskingWorld::Objects() {
  std::string text;
  for (const auto* const objects : {&sight().templates, &sight().requests, &sight().placeholders}) {
    for (const CapacityObject& object : *objects) {
      text += (text.empty() ? "" : " ") + object.name;
    }
  }
  return text;
}

std::size_t FakeAskingWorld::TellStory(uint64_t seed, const Move& move) {
  Prng prng(seed);
  std::vector<WriteObject> under_way;  // what this leader or one before has sent
  std::size_t most_objects = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    MoveOn(move, prng, &under_way);
    for (WriteObject& write : WritesOf(world_.Step())) {
      under_way.push_back(std::move(write));
    }
    while (!under_way.empty() && prng.Below(3) > 0) {
      const std::size_t which = prng.Below(under_way.size());
      Carry(under_way[which]);
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
    }
    most_objects =
        std::max(most_objects,
                 sight().templates.size() + sight().requests.size() + sight().placeholders.size());
  }
  // The last part of a long story: the job has ended or is being deleted, and what was under way
  // arrives.
  if (prng.Below(2) == 0) {
    SetCondition(&world_.job.status, {ConditionType::kFailed, true, "A", "b"}, world_.now);
  } else {
    world_.observed.is_job_deleting = true;
  }
  world_.Step();
  for (const WriteObject& write : under_way) {
    Carry(write);
    Step();  // the watch shows it, which gives the job a turn
  }
  Step();
  return most_objects;
}

void FakeAskingWorld::MoveOn(const Move& move, Prng& prng, std::vector<WriteObject>* under_way) {
  switch (prng.Below(10)) {
    case 0:
      world_.job.spec.run_policy.suspend = !world_.job.spec.run_policy.suspend;
      ++world_.job.metadata.generation;
      break;
    case 1:
      world_.job.spec.roles[0].gpus = 1 + static_cast<int>(prng.Below(8));
      ++world_.job.metadata.generation;
      break;
    case 2:
      world_.observed.round = Unschedulable{
          prng.Below(2) == 0 ? Constraint::kQueue : Constraint::kGpu, "needs 8 GPUs, 0 free"};
      break;
    case 3:
      world_.Advance(std::chrono::seconds(1 << prng.Below(10)));
      break;
    case 4:  // an operator that restarts sends nothing of what it decided last
      under_way->clear();
      break;
    case 5:
    case 6:
      move(prng);
      break;
    default:
      break;
  }
}

}  // namespace lockstep::control
