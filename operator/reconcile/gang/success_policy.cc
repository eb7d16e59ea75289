#include "operator/reconcile/gang/success_policy.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/name_list.h"
#include "common/contract/status/termination_message.h"

namespace lockstep::control {

namespace {

// Only a rank that trained to the end counts its samples; one that came too late does not.
bool HasTrainedToTheEnd(const Member& member) {
  if (!member.rank.has_value() || member.state != MemberState::kSucceeded ||
      member.pod == nullptr || !member.pod->status.termination.has_value()) {
    return false;
  }
  const auto words = DecodeTerminationMessage(member.pod->status.termination->message);
  return words.ok() && words->outcome == Outcome::kSuccess && words->samples.has_value();
}

// One that took part from the start goes by itself in a moment.
bool IsStillLeaving(const Member& member) {
  return member.rank.has_value() && member.number.incarnation == Incarnation() &&
         (member.state == MemberState::kRunning || member.state == MemberState::kLeaving);
}

}  // namespace

std::optional<TaskId> DecidingTask(const JobTopology& topology) {
  const std::optional<RankPlace> first = PlaceOfRank(topology, 0);
  return first.has_value() ? std::optional<TaskId>(first->task) : std::nullopt;
}

bool HasSucceeded(SuccessPolicy policy, const JobTopology& topology, const GangView& view) {
  const std::optional<TaskId> deciding = DecidingTask(topology);
  bool has_rank = false;
  for (const Member& member : view.members) {
    if (!member.rank.has_value()) {
      continue;
    }
    has_rank = true;
    const bool counts = policy == SuccessPolicy::kAllWorkers || member.task == deciding;
    if (counts && member.state != MemberState::kSucceeded) {
      return false;
    }
  }
  return has_rank;
}

std::string DescribeSuccess(SuccessPolicy policy,
                            const JobTopology& topology,
                            const GangView& view) {
  if (policy == SuccessPolicy::kAllWorkers) {
    return "all ranks have finished";
  }
  std::vector<std::string> failed;
  for (const Member& member : view.members) {
    if (member.rank.has_value() && member.state == MemberState::kFailed) {
      failed.push_back(TaskName(member.task));
    }
  }
  const std::string finished = TaskName(*DecidingTask(topology)) + " has finished";
  return failed.empty() ? finished
                        : finished + "; " + NameList(failed) +
                              " had failed, which successPolicy ChiefOrWorker0 accepts";
}

const Member* FinishedBefore(const GangView& view) {
  const auto finished = std::find_if(view.members.begin(), view.members.end(), HasTrainedToTheEnd);
  const bool is_over = finished != view.members.end() &&
                       std::none_of(view.members.begin(), view.members.end(), IsStillLeaving);
  return is_over ? &*finished : nullptr;
}

}  // namespace lockstep::control
