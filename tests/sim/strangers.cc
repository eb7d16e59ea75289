#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "common/contract/environment/topology.h"
#include "operator/kubeclient/kube/capacity_kinds.h"
#include "tests/sim/selector.h"
#include "tests/sim/simulation.h"

// What the adversary does to names, namespaces, caches and clocks.
namespace lockstep::control::sim {
// Somebody makes a service or a pod under a name that a job will want.
void Simulation::TakeName() {
  const ObjectPtr object = RandomJob();
  if (object == nullptr) {
    return;
  }
  const TrainingJob& job = checks_.JobOf(object);
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

// Another comes up at once, or after a while.
void Simulation::CrashAutoscaler() {
  const auto away = std::chrono::seconds(context_.autoscaler_prng.Below(60));
  autoscaler_.Crash(context_.now + away);
}

// Somebody makes an object under a name that a job's next ask will want, with its label.
void Simulation::TakeNameOfAsk() {
  const ObjectPtr job = RandomJob();
  if (job == nullptr) {
    return;
  }
  const Json provisioning =
      job->value("status", Json::object()).value("provisioning", Json::object());
  const int64_t next = provisioning.value("count", int64_t{0}) + 1;
  std::string name =
      TextAt(*job, "metadata.name") + "-" + UidOf(*job).substr(0, 8) + "-" + std::to_string(next);
  Json body = {{"metadata", {{"labels", {{"lockstep.dev/job", TextAt(*job, "metadata.name")}}}}}};
  kube::ResourceType type = kube::kProvisioningRequests;
  if (context_.autoscaler_prng.Below(2) == 0) {
    type = kube::kPodTemplates;
    name += "-worker";
    body["template"] = {{"spec", {{"containers", Json::array({{{"name", "main"}}})}}}};
  } else {
    body["spec"] = {{"provisioningClassName", "check-capacity.autoscaling.x-k8s.io"},
                    {"podSets", Json::array()}};
  }
  body["metadata"]["name"] = name;
  if (server_.Handle(kube::Create(type, kNamespace, DumpJson(body)), context_.ServerTime())
          .is_success()) {
    context_.Count("a name of a request that somebody else takes");
    context_.Tell("user: takes the name " + name + " for one of " + std::string(type.plural));
    taken_names_.emplace_back(type, name);
  }
}

// Somebody removes a request, or a template.
void Simulation::RemoveAsked() {
  const kube::ResourceType type =
      context_.autoscaler_prng.Below(2) == 0 ? kube::kPodTemplates : kube::kProvisioningRequests;
  const auto& objects = server_.store().Of(type).objects;
  if (objects.empty()) {
    return;
  }
  const auto chosen = std::next(
      objects.begin(), static_cast<std::ptrdiff_t>(context_.autoscaler_prng.Below(objects.size())));
  const std::string name = chosen->first.name;
  context_.Count("a request or a template that somebody removes");
  context_.Tell("user: removes " + name + " of " + std::string(type.plural));
  checks_.capacity()->NoteRemoved();
  server_.Handle(kube::Delete(type, kNamespace, name, {}), context_.ServerTime());
}

// Somebody has a request, or its template, ask for less.
void Simulation::EditAsked() {
  const bool is_request = context_.autoscaler_prng.Below(2) == 0;
  const kube::ResourceType type = is_request ? kube::kProvisioningRequests : kube::kPodTemplates;
  const auto& objects = server_.store().Of(type).objects;
  if (objects.empty()) {
    return;
  }
  const auto chosen = std::next(
      objects.begin(), static_cast<std::ptrdiff_t>(context_.autoscaler_prng.Below(objects.size())));
  const kube::ObjectKey key = chosen->first;
  checks_.capacity()->NoteEdited(UidOf(*chosen->second));
  context_.Count("a request or a template that somebody edits");
  context_.Tell("user: edits " + key.name + " of " + std::string(type.plural));
  server_.Edit(type, key, [is_request](Json* one) {
    if (is_request) {
      for (Json& set : (*one)["spec"]["podSets"]) {
        set["count"] = 1;
      }
      (*one)["spec"]["edited"] = true;
    } else {
      (*one)["template"]["spec"]["nodeSelector"] = {{"kubernetes.io/hostname", "mine"}};
    }
    (*one)["metadata"]["generation"] = (*one)["metadata"]["generation"].get<int64_t>() + 1;
  });
}

}  // namespace lockstep::control::sim
