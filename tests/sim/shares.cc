#include <string>
#include <utility>

#include "operator/api/status/conditions.h"
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

// Choice: no less than the largest minRuntimeSeconds; some jobs are done by then, and some are not.
int64_t RandomLimit(Prng* prng) {
  return 40 + static_cast<int64_t>(prng->Below(80));
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

// In every other of these runs, in which calendars go on evenly, queues say how long their jobs may
// run; above one of them is one that has nothing else to say.
void Simulation::LimitRunTimes() {
  Prng* const prng = &context_.limits_prng;
  context_.has_limits = prng->Below(2) == 0;
  if (!context_.has_limits) {
    return;
  }
  Json object = NamedObject("visitors");
  object["spec"] = Json::object();
  server_.mutable_store()->Put(
      &server_.mutable_store()->Of(kube::kTrainingQueues), {"", "visitors"}, std::move(object));
  server_.Edit(kube::kTrainingQueues, {"", "guest"}, [](Json* one) {
    (*one)["spec"]["parent"] = "visitors";
  });
  for (const char* const queue : {"owner", "visitors", "guest"}) {
    if (prng->Below(3) != 0) {
      server_.Edit(kube::kTrainingQueues, {"", queue}, [prng](Json* one) {
        (*one)["spec"]["maxRuntimeSeconds"] = RandomLimit(prng);
      });
    }
  }
}

// In one of three runs without shares the queue that all jobs are in says how long they may run.
void Simulation::LimitDefaultQueue() {
  Prng* const prng = &context_.regulars_prng;
  if (context_.has_shares || prng->Below(3) != 0) {
    return;
  }
  Json object = NamedObject("default");
  object["spec"] = {{"maxRuntimeSeconds", 100 + static_cast<int64_t>(prng->Below(200))}};
  context_.Count("a queue with a limit where run times are learnt");
  server_.mutable_store()->Put(
      &server_.mutable_store()->Of(kube::kTrainingQueues), {"", "default"}, std::move(object));
}

// It counts for those that run, too.
void Simulation::EditLimit() {
  Prng* const prng = &context_.limits_prng;
  const std::string queue = PickOne({"owner", "visitors", "guest"}, prng);
  const bool is_lifted = prng->Below(4) == 0;
  context_.Tell("administrator: " + std::string(is_lifted ? "lifts" : "changes") +
                " the limit of time of queue " + queue);
  context_.Count("a limit of a queue that is edited");
  server_.Edit(kube::kTrainingQueues, {"", queue}, [&](Json* one) {
    if (is_lifted) {
      (*one)["spec"].erase("maxRuntimeSeconds");
    } else {
      (*one)["spec"]["maxRuntimeSeconds"] = RandomLimit(prng);
    }
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
  TrainingJob edited = checks_.JobOf(job);
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
