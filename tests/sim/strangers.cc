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

void Simulation::StepClock() {
  if (keeps_time_) {
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
