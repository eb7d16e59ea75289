#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/contract/topology.h"
#include "tests/sim/selector.h"
#include "tests/sim/simulation.h"

// What the adversary does to names, namespaces, caches and clocks.
namespace lockstep::control::sim {
namespace {

constexpr const char* kNamespace = "team";

}  // namespace

// Somebody makes a service or a pod under a name that a job will want.
void Simulation::TakeName() {
  const ObjectPtr object = RandomJob();
  if (object == nullptr) {
    return;
  }
  const TrainingJob& job = jobs_.Of(object);
  Json body = {{"metadata", {{"name", job.metadata.name}}}, {"spec", {{"clusterIP", "None"}}}};
  kube::ResourceType type = kube::kServices;
  if (context_.Happens(2)) {
    type = kube::kPods;
    const Attempt attempt(job.status.attempt.value() + static_cast<int64_t>(context_.Happens(2)));
    body["metadata"]["name"] =
        PodName(job.metadata.name, {Role::kWorker, 0}, {attempt, Incarnation(0)});
    body["spec"] = {{"containers", Json::array({{{"name", "main"}}})}};
  }
  const std::string name = TextAt(body, "metadata.name");
  const kube::Reply reply =
      server_.Handle(kube::Create(type, kNamespace, DumpJson(body)), context_.ServerTime());
  if (reply.is_success()) {
    context_.Tell("user: takes the name " + name + " for one of " + std::string(type.plural));
    taken_names_.emplace_back(type, name);
  }
}

void Simulation::FreeNames() {
  for (const auto& [type, name] : std::exchange(taken_names_, {})) {
    const ObjectPtr object = server_.store().Get(type, {kNamespace, name});
    if (object != nullptr && !object->at("metadata").contains("ownerReferences")) {
      context_.Tell("user: frees the name " + name);
      server_.Handle(kube::Delete(type, kNamespace, name, {}), context_.ServerTime());
    }
  }
}

// Lists that take what the server's cache has get what was true a while ago, but never what was
// before the nodes were there: an operator takes a node that is not listed for one that has gone.
void Simulation::LagBehind() {
  const auto lag_max = static_cast<uint64_t>(server_.store().version() - first_version_);
  server_.cache_lag =
      static_cast<int64_t>(context_.prng.Below(std::min<uint64_t>(lag_max, 100) + 1));
  server_.cache_lag = context_.Happens(2) ? 0 : server_.cache_lag;
}

// kubectl debug --copy-to --keep-labels: all of a pod but its owner.
void Simulation::ClonePod() {
  const ObjectPtr pod = RandomPod(true);
  if (pod == nullptr) {
    return;
  }
  Json clone = {{"metadata",
                 {{"name", "debug" + std::to_string(next_name_++)},
                  {"labels", pod->at("metadata").value("labels", Json::object())}}},
                {"spec", pod->at("spec")}};
  if (context_.Happens(2)) {
    clone["spec"].erase("nodeName");
  }
  if (server_.Handle(kube::Create(kube::kPods, kNamespace, DumpJson(clone)), context_.ServerTime())
          .is_success()) {
    context_.Count("a clone with our labels");
    context_.Tell("user: clones " + TextAt(*pod, "metadata.name"));
  }
}

// A newer version has led for a while.
void Simulation::WriteFutureStatus() {
  const ObjectPtr job = RandomJob();
  if (job == nullptr || !job->contains("status") || !job->at("status").contains("conditions")) {
    return;
  }
  context_.Count("a status with fields from the future");
  server_.Edit(kube::kTrainingJobs, {kNamespace, TextAt(*job, "metadata.name")}, [&](Json* one) {
    Json& status = (*one)["status"];
    status["fromTheFuture"] = {{"since", next_edition_++}};
    for (Json& placement : status["placement"]) {
      placement["fromTheFuture"] = true;
    }
    for (const Json& condition : status["conditions"]) {
      if (TextAt(condition, "type") == "FromTheFuture") {
        return;
      }
    }
    status["conditions"].push_back({{"type", "FromTheFuture"},
                                    {"status", "True"},
                                    {"reason", "Planned"},
                                    {"message", "of a later version"},
                                    {"lastTransitionTime", "2027-01-15T08:00:00Z"}});
  });
}

void Simulation::StepClock() {
  if (keeps_time_ || context_.has_limits) {
    return;
  }
  for (auto& [number, one] : operators_) {
    one->StepClock(context_.Between(std::chrono::minutes(0), std::chrono::minutes(20)) -
                   std::chrono::minutes(10));
  }
}

// All that is in it goes, and nothing new comes until it has gone; then the user starts again.
void Simulation::DeleteNamespace() {
  context_.Tell("user: deletes the namespace");
  server_.terminating.insert(kNamespace);
}

}  // namespace lockstep::control::sim
