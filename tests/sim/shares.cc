#include <string>
#include <utility>

#include "operator/api/conditions.h"
#include "tests/sim/simulation.h"

// Queues that share the cluster, and priorities.
namespace lockstep::control::sim {
namespace {

// Of the largest job: it fits its queue.
constexpr int64_t kGpusOfLargestJob = 8;

// What may not be taken back, in one run of three.
constexpr int64_t kGpusOfGuest = 4;

Json NamedObject(const std::string& name) {
  return {{"metadata", {{"name", name}, {"uid", "uid-" + name}}}};
}

std::string PickOne(const std::vector<std::string>& words, Prng* prng) {
  return words[prng->Below(words.size())];
}

}  // namespace

// Two queues, of which one has what the other borrows, and may take it back.
void Simulation::CreateShares() {
  const auto add = [this](const kube::ResourceType& type, const std::string& name, Json fields) {
    Json object = NamedObject(name);
    object.update(fields);
    server_.mutable_store()->Put(&server_.mutable_store()->Of(type), {"", name}, std::move(object));
  };
  add(kube::kTrainingQueues,
      "owner",
      {{"spec",
        {{"nominal", {{"nvidia.com/gpu", kGpusOfLargestJob}}},
         {"ordering", "Priority"},
         {"preemption", {{"withinQueue", "LowerPriority"}, {"acrossQueues", "Borrowed"}}}}}});
  const auto kind = static_cast<int64_t>(context_.shares_prng.Below(3));
  add(kube::kTrainingQueues,
      "guest",
      {{"spec",
        {{"nominal", {{"nvidia.com/gpu", kind == 1 ? kGpusOfGuest : 0}}},
         {"minRuntimeSeconds", kind * 20}}}});
  add(kube::kPriorityClasses, "urgent", {{"value", 1000}});
  add(kube::kPriorityClasses, "patient", {{"value", 500}, {"preemptionPolicy", "Never"}});
  add(kube::kPriorityClasses, "low", {{"value", -10}});
  Json kept = {{"value", 100}};
  add(kube::kPriorityClasses, "kept", std::move(kept));
  server_.Edit(kube::kPriorityClasses, {"", "kept"}, [](Json* one) {
    (*one)["metadata"]["labels"]["lockstep.dev/preemptible"] = "false";
  });
}

void Simulation::GiveShare(TrainingJob* job) {
  Prng* const prng = &context_.shares_prng;
  job->spec.scheduling.queue = PickOne({"", "owner", "owner", "guest"}, prng);
  job->spec.scheduling.priority_class_name =
      PickOne({"", "urgent", "urgent", "patient", "low", "kept"}, prng);
  job->spec.scheduling.timeout.reset();  // how long one waits is for others to say
}

// Its gang, if it runs, stays where it is: the edit is for the next one.
void Simulation::MoveToOtherShare(const ObjectPtr& job) {
  TrainingJob edited = jobs_.Of(job);
  GiveShare(&edited);
  const SchedulingSpec& scheduling = edited.spec.scheduling;
  context_.Tell("user: moves " + edited.metadata.name + " to queue \"" + scheduling.queue +
                "\" with priority class \"" + scheduling.priority_class_name + "\"");
  if (!edited.status.placement.empty() && !HasEnded(edited.status)) {
    context_.Count("a gang whose job was moved to another queue");
  }
  const kube::ObjectKey key{edited.metadata.namespace_name, edited.metadata.name};
  server_.Edit(kube::kTrainingJobs, key, [&](Json* one) {
    Json& fields = (*one)["spec"]["scheduling"];
    fields["queue"] = scheduling.queue;
    fields["priorityClassName"] = scheduling.priority_class_name;
    for (const char* const field : {"queue", "priorityClassName"}) {
      if (fields[field] == "") {
        fields.erase(field);
      }
    }
    (*one)["metadata"]["generation"] = (*one)["metadata"]["generation"].get<int64_t>() + 1;
  });
}

}  // namespace lockstep::control::sim
