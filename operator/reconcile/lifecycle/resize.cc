#include "operator/reconcile/lifecycle/resize.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <variant>

#include "operator/api/job/job_topology.h"
#include "operator/api/rules/gang_spread.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/gang_size.h"
#include "operator/reconcile/pods/lasting_checkpoints.h"
#include "operator/reconcile/recovery/gang_restart.h"
#include "operator/scheduler/nodes/node_topology.h"

namespace lockstep::control {
namespace {

// The step that the gang has reached, as far as anybody has told.
int64_t StepReached(const TrainingJob& job, const Observed& observed) {
  int64_t step = job.status.progress.has_value() ? job.status.progress->step : 0;
  for (const auto& [pod, report] : observed.reports) {
    if (report.document.attempt == job.status.attempt) {
      step = std::max(step, report.document.step.value());
    }
  }
  return step;
}

// The annotation's value; empty without one.
std::string ConsentOf(const Metadata& metadata) {
  const auto found = metadata.annotations.find(std::string(kConsentAnnotation));
  return found == metadata.annotations.end() ? "" : found->second;
}

std::string ConsentCommand(const Metadata& metadata) {
  return "kubectl annotate trainingjob " + metadata.name + " --namespace " +
         metadata.namespace_name + " --overwrite " + std::string(kConsentAnnotation) + "=" +
         std::to_string(metadata.generation);
}

// All that is said but the step: it stays the same while training goes on.
std::string DescribeChoice(const TrainingJob& job, const std::string& why) {
  const Metadata& metadata = job.metadata;
  const std::string kept = DescribeSize(AsPlaced(job));
  const std::string consent = ConsentOf(metadata);
  const std::string generation = std::to_string(metadata.generation);
  const std::string stale = consent.empty() ? ""
                                            : "the annotation's value \"" + consent +
                                                  "\" is not the generation of this change, " +
                                                  generation + "; ";
  return " would be lost: " + why + ", so a gang of " + DescribeSize(job) +
         " would start at step 0. The gang of " + kept + " continues; " + stale + "ask for " +
         kept + " again, or accept that the progress is lost: " + ConsentCommand(metadata);
}

// How often it is asked anew whether another size fits by now. Choice: nothing else tells this job
// of new nodes, as it waits for none.
constexpr std::chrono::seconds kFitInterval{30};

// Whether a gang that has run could be kept at its size, which is another than the manifest asks
// for, and nobody has said that it need not.
bool MayKeepSize(const TrainingJob& job) {
  return !job.status.placement.empty() && !HasAskedSize(job) && !HasEnded(job.status) &&
         !job.spec.run_policy.suspend && job.status.has_run &&
         ConsentOf(job.metadata) != std::to_string(job.metadata.generation) &&
         HasAskedSize(AsPlaced(job));
}

// Pods that must stand apart, and fewer domains of that label than there are pods.
std::string WhyNotApart(const std::string& label, const Gang& gang, const Snapshot& snapshot) {
  if (label.empty()) {
    return "";
  }
  std::set<std::string> domains;
  for (const SnapshotNode& node : snapshot.nodes) {
    if (const auto found = node.labels.find(label); found != node.labels.end()) {
      domains.insert(found->second);
    } else if (label == kHostLevel) {
      domains.insert(node.name);
    }
  }
  std::size_t pods = 0;
  for (const PodClass& pod_class : gang.classes) {
    pods += pod_class.pods.size();
  }
  return pods <= domains.size()
             ? ""
             : "needs " + std::to_string(pods) + " domains of " + label +
                   ", one for each pod, but there are " + std::to_string(domains.size());
}

}  // namespace

bool AwaitsConsent(const TrainingJob& job, const Observed& observed) {
  return MayKeepSize(job) && StepReached(job, observed) > 0 &&
         !WhyCheckpointsGo(job, observed).empty();
}

std::string WhySizeNeverFits(const TrainingJob& job, const Observed& observed) {
  const JobTopology topology = TopologyOf(job, observed.settings.addressing);
  if (observed.is_one_machine || !MayKeepSize(job) || !CheckTopology(topology).empty()) {
    return "";
  }
  const Snapshot snapshot = SnapshotWithoutJobs(observed);
  const Gang gang = GangOf(job, topology);
  if (std::string why = WhyNotApart(FindGangSpread(job).apart, gang, snapshot); !why.empty()) {
    return why;
  }
  const PlanResult result = PlanGang(snapshot, gang);
  const auto* const refusal = std::get_if<Unschedulable>(&result);
  return refusal == nullptr || refusal->constraint == Constraint::kSearchLimit ? ""
                                                                               : refusal->shortfall;
}

void RefuseSize(const TrainingJob& job, const std::string& why, DecisionBuilder* builder) {
  if (builder->status().placement.empty()) {
    return;  // its end came first
  }
  builder->WakeAt(builder->now() + kFitInterval);
  const std::string kept = DescribeSize(AsPlaced(job));
  builder->Set(
      {ConditionType::kResized,
       false,
       "WouldNotFit",
       "a gang of " + DescribeSize(job) + " would not fit even if no other job ran: " + why +
           ". The gang of " + kept +
           " continues until the new size would fit. Ask for a size that " +
           "fits, or end this gang now and let the job wait: " + ConsentCommand(job.metadata)},
      EventType::kWarning);
}

void AskForConsent(const TrainingJob& job, DecisionBuilder* builder) {
  if (builder->status().placement.empty()) {
    return;  // its end came first
  }
  const std::string choice = DescribeChoice(job, WhyCheckpointsGo(job, builder->observed()));
  const Condition* const said = FindCondition(builder->status(), ConditionType::kResized);
  if (said != nullptr && !said->is_true && said->message.ends_with(choice)) {
    return;  // with the step it had then: a status that only counts steps is not written each time
  }
  builder->Set({ConditionType::kResized,
                false,
                "ProgressWouldBeLost",
                "step " + std::to_string(StepReached(job, builder->observed())) + choice},
               EventType::kWarning);
}

void NoteSizeIsHeeded(DecisionBuilder* builder) {
  const Condition* const said = FindCondition(builder->status(), ConditionType::kResized);
  if (said != nullptr && !said->is_true) {
    builder->Set({ConditionType::kResized,
                  true,
                  "SizeIsHeeded",
                  "the gang has the size that the manifest asks for, or can get it"});
  }
}

}  // namespace lockstep::control
