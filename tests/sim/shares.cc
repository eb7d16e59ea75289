#include <string>
#include <utility>

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

}  // namespace lockstep::control::sim
