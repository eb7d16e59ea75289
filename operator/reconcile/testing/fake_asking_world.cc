#include "operator/reconcile/testing/fake_asking_world.h"

#include <algorithm>
#include <variant>

#include "operator/kube/capacity_kinds.h"
#include "operator/reconcile/build/capacity_request.h"

namespace lockstep::control {

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

void FakeAskingWorld::Begin() {
  world_ = TestWorld(AskingJob());
  world_.nodes().clear();
  sight().is_followed = true;
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

void FakeAskingWorld::Carry(const WriteObject& write) {
  const bool is_template = write.resource == kube::kPodTemplates;
  std::vector<CapacityObject>& objects = is_template ? sight().templates : sight().requests;
  const auto found = std::find_if(
      objects.begin(), objects.end(), [&](const auto& one) { return one.name == write.name; });
  if (write.kind == WriteObject::Kind::kDelete) {
    if (found != objects.end() && found->uid == write.uid) {
      objects.erase(found);
    }
  } else if (found == objects.end()) {
    const Json body = *ParseJson(write.body);
    objects.push_back({write.name,
                       "object-" + std::to_string(next_uid_++),
                       body["metadata"]["annotations"][kCapacityRevision],
                       true,
                       false,
                       Json(),
                       "",
                       body[is_template ? "template" : "spec"],
                       1});
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
  for (const auto* const objects : {&sight().templates, &sight().requests}) {
    for (const CapacityObject& object : *objects) {
      text += (text.empty() ? "" : " ") + object.name;
    }
  }
  return text;
}

}  // namespace lockstep::control
