#include "operator/reconcile/failure/failure.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "common/base/check.h"
#include "common/contract/status/exit_code.h"
#include "common/contract/status/lost_peer.h"
#include "common/contract/status/termination_message.h"
#include "common/contract/text/last_line.h"
#include "common/contract/text/text.h"
#include "operator/api/job/placement.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/failure/hung_rank.h"
#include "operator/reconcile/failure/judged_hang.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/pods/lasting_checkpoints.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

// Last words longer than this are cut where people read them; the pod's log has them whole.
constexpr std::size_t kLastWordsBytesMax = 200;

// Choice: what fits into a status without making it the largest part of the object.
constexpr std::size_t kTailBytesMax = 1024;

// What a process said about its end: the reason of our runtime's message, or the last line of free
// text. That of a process killed from outside is the end of its log and no reason.
struct LastWords {
  std::string reason;
  std::optional<int> rank;  // of the process of a command's pod that failed
  std::vector<int> lost_ranks;
  std::vector<int> left_ranks;
  std::optional<int64_t> relaunches;  // of the process's pod before that
  std::string tail;
};

std::string TailOf(const std::string& text) {
  return text.size() > kTailBytesMax ? text.substr(text.size() - kTailBytesMax) : text;
}

LastWords ReadLastWords(const std::string& message, bool was_killed) {
  LastWords words;
  if (const auto decoded = DecodeTerminationMessage(message); decoded.ok()) {
    words.reason = CutText(decoded->reason, kLastWordsBytesMax);
    words.lost_ranks = ParseLostPeers(decoded->reason);
    words.left_ranks = decoded->left_ranks;
    words.relaunches = decoded->relaunches;
    words.rank = decoded->culprit_rank;
    words.tail = TailOf(decoded->tail.value_or(""));
    return words;
  }
  words.tail = TailOf(message);
  if (!was_killed) {
    const std::string line = LastLine(message);
    words.reason = CutText(line, kLastWordsBytesMax);
    words.lost_ranks = ParseLostPeers(line);
  }
  return words;
}

// "pod mnist-worker-1 (rank 3)", with the rank of the process that failed where the pod has
// several, and its container where that has a name of its own.
std::string DescribeCulprit(const DecisionBuilder& builder,
                            const Member& member,
                            const LastWords& words,
                            const std::string& container) {
  const RoleSpec* const role = builder.job().FindRole(member.task.role);
  const bool is_own = !builder.is_training() && member.rank.has_value() && words.rank.has_value() &&
                      *words.rank > *member.rank && role != nullptr &&
                      *words.rank < *member.rank + role->processes;
  Member culprit = member;
  culprit.rank = is_own ? words.rank : member.rank;
  const bool is_named = !container.empty() && container != kTrainerContainer;
  return DescribeMember(culprit) + (is_named ? " container " + container : "");
}

// The kernel says of a program whose loader is missing that the program is.
std::string HintOn(const std::string& words) {
  const bool lacks_loader = words.find("lockstep-runtime: no such file or directory") != words.npos;
  return lacks_loader ? " (the image needs glibc 2.34 or newer)" : "";
}

// Reasons with which a node takes a pod back because somebody asked the node for it.
constexpr std::array<std::string_view, 4> kAskedByNode = {
    "NodeShutdown", "Shutdown", "Terminated", "Preempting"};

bool IsAskedByNode(const std::string& reason) {
  return std::find(kAskedByNode.begin(), kAskedByNode.end(), reason) != kAskedByNode.end();
}

// "was asked to end (EvictionByEvictionAPI) and ended after saving a checkpoint (exit code 42)";
// says where that checkpoint is gone with its pod. What a command keeps is its own.
std::string DescribeDeparture(const DecisionBuilder& builder, const kube::Pod& pod) {
  const std::string& who = pod.status.disruption;
  std::string text = "was asked to end" + (who.empty() ? "" : " (" + who + ")");
  if (!pod.status.termination.has_value()) {
    return text;
  }
  const int code = pod.status.termination->exit_code;
  const std::string exit = "exit code " + std::to_string(code);
  if (code != kExitPreempted || !builder.is_training()) {
    return text + " and ended with " + exit;
  }
  text += " and ended after saving a checkpoint (" + exit + ")";
  const std::string why = WhyCheckpointsGo(builder.job(), builder.observed());
  return why.empty() ? text : text + ", which is deleted with its pod: " + why;
}

const RoleSpec& RoleOf(const DecisionBuilder& builder, const Member& member) {
  const RoleSpec* const role = builder.job().FindRole(member.task.role);
  LOCKSTEP_CHECK(role != nullptr, "the job has no role for task " + TaskName(member.task));
  return *role;
}

Failure MakeFailure(const DecisionBuilder& builder, const Member& member) {
  Failure failure;
  failure.task = member.task;
  failure.rank = member.rank;
  failure.process_count = RoleOf(builder, member).processes;
  failure.pod_name = member.pod_name;
  failure.pod = member.pod;
  failure.is_voluntary = member.pod != nullptr && WasAskedToGo(*member.pod);
  return failure;
}

// A failure that no exit code tells: the process did nothing wrong that we know of.
Failure OutsideFailure(const DecisionBuilder& builder,
                       const Member& member,
                       std::string_view cause,
                       const std::string& what) {
  Failure failure = MakeFailure(builder, member);
  failure.cause = cause;
  failure.response = ResponseTo(
      RoleOf(builder, member).restart_policy, Outcome::kRetryable, member.rank.has_value());
  failure.sentence = DescribeMember(member) + " " + what;
  return failure;
}

Failure StartFailure(const DecisionBuilder& builder,
                     const Member& member,
                     const PodPlacement& placement) {
  const auto waited =
      std::chrono::duration_cast<std::chrono::seconds>(builder.now() - placement.since).count();
  return OutsideFailure(
      builder, member, kCauseStartTimeout, "did not start within " + std::to_string(waited) + " s");
}

// Kubernetes says why it takes a pod away; nobody says it of one that somebody deletes.
void NameEviction(const std::string& disruption, Failure* failure) {
  if (failure->is_voluntary && !disruption.empty()) {
    failure->cause = kCauseEvicted;
  }
}

// How a pod went whose node is there and reports.
std::string HowRemoved(const DecisionBuilder& builder,
                       const Member& member,
                       const std::string& disruption) {
  const auto& pods = builder.observed().pods;
  const bool is_disowned = std::any_of(pods.begin(), pods.end(), [&](const kube::Pod& pod) {
    return pod.name == member.pod_name && IsDisowned(pod, builder.job().metadata);
  });
  if (is_disowned) {
    return "no longer belongs to the job: somebody removed its ownerReference; it may still run";
  }
  return disruption.empty() ? "is gone: it was deleted or evicted"
                            : "is gone: it was evicted (" + disruption + ")";
}

Failure VanishedFailure(const DecisionBuilder& builder,
                        const Member& member,
                        const PodPlacement& placement) {
  const bool is_there = FindNode(builder.observed(), member.node) != nullptr;
  const bool is_ready = IsNodeReady(builder.observed(), member.node);
  const bool is_removed = is_ready && member.pod == nullptr;
  const std::string disruption =
      placement.awaits_verdict ? std::string() : placement.disruption;  // else its predecessor's
  Failure failure = OutsideFailure(builder,
                                   member,
                                   is_removed ? kCauseDeleted : ExitCauseName(ExitCause::kNodeLost),
                                   is_removed ? HowRemoved(builder, member, disruption)
                                   : is_ready ? "is gone"
                                   : is_there ? "is lost: node " + member.node + " does not report"
                                              : "is lost: node " + member.node + " was removed");
  failure.is_node_at_fault = !is_ready;
  // Somebody removed the pod or its node. What a node that does not report takes along is a loss.
  failure.is_voluntary = is_ready || !is_there;
  NameEviction(disruption, &failure);
  return failure;
}

// Ranks that somebody should hear, and nobody does.
struct Silence {
  HangVerdict hang;  // of a command
  std::set<int> ended;
  std::set<int> hanging;
  std::set<int> absent;
  std::set<int> lost;
};

Silence FindSilence(const DecisionBuilder& builder, const GangView& view) {
  if (!builder.is_training()) {
    return {HangAmong(builder, view), {}, {}, {}, {}};  // a command's runtime knows no peers
  }
  const auto silent_after = builder.spec().recovery.silent_after;
  return {
      {},
      HasFinishedRank(view) ? std::set<int>{} : EndedRanks(view, builder.observed().closed_pods),
      HangingRanks(view, silent_after),
      AbsentRanks(builder, view),
      // One machine's own processes end before its eyes: who has not is only slow to meet again.
      builder.observed().is_one_machine ? std::set<int>{} : LostRanks(view, silent_after)};
}

// An end of which only the others know. Where not even the mildest end is forgiven there is nothing
// to gain by haste: the kubelet's word decides. So it is once a rank has finished: nobody could
// meet a successor, and the end may well be a success.
std::optional<Failure> UntoldFailure(const DecisionBuilder& builder,
                                     const Member& member,
                                     const std::set<int>& ended) {
  if (!member.rank.has_value() || ended.count(*member.rank) == 0) {
    return std::nullopt;
  }
  Failure failure =
      OutsideFailure(builder,
                     member,
                     kCauseEnded,
                     "has ended: its peers have lost the connection to it, and its port is closed");
  return failure.response == FailureResponse::kRestart ? std::optional(std::move(failure))
                                                       : std::nullopt;
}

std::optional<Failure> SilenceFailure(const DecisionBuilder& builder,
                                      const Member& member,
                                      const Silence& silence) {
  std::optional<Failure> failure;
  if (builder.observed().mute_pods.count(member.pod_name) > 0) {
    return OutsideFailure(builder,
                          member,
                          kCauseHang,
                          member.report != nullptr ? "hangs: it does not answer any more"
                                                   : "hangs: it has never answered");
  }
  if (!member.rank.has_value()) {
    return failure;
  }
  if (Hangs(silence.hang, member)) {
    Failure hang = OutsideFailure(builder, member, kCauseHang, "");
    // Which of the pod's ranks it is says the sentence.
    hang.sentence = "pod " + member.pod_name + " hangs: " + silence.hang.sentence;
    return hang;
  }
  if (silence.hanging.count(*member.rank) > 0) {
    failure = OutsideFailure(builder, member, kCauseHang, "hangs: its peers hear nothing from it");
  } else if (silence.absent.count(*member.rank) > 0) {
    failure = OutsideFailure(builder,
                             member,
                             kCauseHang,
                             "hangs: it does not join the rendezvous in which its peers wait");
  } else if (silence.lost.count(*member.rank) > 0) {
    failure = OutsideFailure(builder,
                             member,
                             ExitCauseName(ExitCause::kNodeLost),
                             "has lost its peers, and no kubelet reports how its program ended");
  }
  if (failure.has_value()) {
    failure->is_node_at_fault = true;
  }
  return failure;
}

// A node that does not end a pod is given the same chance as one that does not report: none.
std::optional<Failure> StuckFailure(const DecisionBuilder& builder, const Member& member) {
  if (member.state != MemberState::kLeaving || !IsOverdue(*member.pod, builder.now())) {
    return std::nullopt;
  }
  Failure failure = OutsideFailure(builder,
                                   member,
                                   kCauseStuck,
                                   "was asked to end and has not ended on node " + member.node +
                                       " although its grace period is over");
  failure.is_node_at_fault = true;
  return failure;
}

bool IsLate(const DecisionBuilder& builder, const Member& member, const PodPlacement& placement) {
  // One that the API server refuses is asked for again for as long as it takes.
  const bool is_refused = member.state == MemberState::kNotSeen &&
                          builder.observed().refused_pods.count(member.pod_name) > 0;
  return IsStarting(member) && !is_refused &&
         StartDeadline(builder.job(), placement, member, builder.now()) <= builder.now();
}

// Whether the relaunch under way has taken too long, and the member is among those waited for.
bool IsLateForRelaunch(const DecisionBuilder& builder, const Member& member) {
  const Relaunch& relaunch = builder.status().relaunch;
  if (!relaunch.since.has_value() || !member.rank.has_value() ||
      member.state == MemberState::kSucceeded) {
    return false;
  }
  // A leader that has just begun knows nothing of pods that it has not asked yet.
  const Duration patience = member.report != nullptr ? kRelaunchPatience : 2 * kRelaunchPatience;
  return *relaunch.since + patience <= builder.now() && RelaunchesOf(member) < relaunch.count;
}

// One that was done when the relaunch under way reached it: the others would wait for it. Once all
// have been halted only who was started anew can succeed, and may be done before anybody asks.
bool MissesRelaunch(const DecisionBuilder& builder, const Member& member) {
  const Relaunch& relaunch = builder.status().relaunch;
  return relaunch.since.has_value() && !relaunch.is_halted && member.rank.has_value() &&
         member.state == MemberState::kSucceeded && RelaunchesOf(member) < relaunch.count;
}

// One that ends before the relaunch under way has started its programs: the end that the relaunch
// answers has been counted. Once all have been halted only the pod's last words say whether its
// programs had been started.
bool EndsUnderRelaunch(const DecisionBuilder& builder,
                       const Member& member,
                       const LastWords& words) {
  const Relaunch& relaunch = builder.status().relaunch;
  return relaunch.since.has_value() && member.rank.has_value() &&
         member.state == MemberState::kFailed &&
         (!relaunch.is_halted || words.relaunches.value_or(relaunch.count) < relaunch.count);
}

bool IsAmong(const std::vector<StartProblem>& problems, const Member& member) {
  return std::any_of(problems.begin(), problems.end(), [&](const StartProblem& problem) {
    return problem.task == member.task;
  });
}

std::string DescribeEnd(const kube::ContainerTermination& end, const std::string& reason) {
  const std::string how = DescribeExit(end.exit_code, end.signal, reason);
  const std::size_t code = how.find("exit code");
  return code == 0                   ? "ended with " + how
         : code != std::string::npos ? how
                                     : how + " (exit code " + std::to_string(end.exit_code) + ")";
}

// ", memory limit 16Gi": what the kernel, or the node, ended it for: its container's, or the pod's;
// empty where there is none, or only of another container.
std::string LimitText(const RoleSpec& role, const kube::ContainerTermination& end) {
  const bool is_trainers = end.container.empty() || end.container == role.pod.trainer_name;
  const int64_t own = is_trainers ? role.pod.limits.memory_bytes : 0;
  const int64_t limit = own != 0 ? own : role.pod.pod_limits.memory_bytes;
  return limit == 0 ? ""
                    : std::string(own != 0 ? ", memory limit " : ", memory limit of the pod ") +
                          QuantityText({std::string(kMemoryResource), limit});
}

// How the pod ended; of one that waits for its relaunch, how it would have.
kube::PodStatus StatusAtEnd(const DecisionBuilder& builder, const Member& member) {
  kube::PodStatus status = member.pod->status;
  if (member.state == MemberState::kHeld) {
    const HeldEnd& held = *member.report->document.held;
    const auto age = member.report->age + std::chrono::duration_cast<Duration>(
                                              std::chrono::duration<double>(held.seconds_ago));
    status.phase = kube::PodPhase::kFailed;
    status.termination.emplace();
    status.termination->exit_code = held.exit_code;
    status.termination->signal = held.signal;
    status.termination->message = held.message;
    status.termination->finished_at =
        builder.now() - std::chrono::duration_cast<WallTime::duration>(age);
  }
  return status;
}

}  // namespace

bool IsTrainersPs(const DecisionBuilder& builder, const Member& member) {
  return builder.is_training() && member.task.role == Role::kPs;
}

Failure EndedFailure(const DecisionBuilder& builder, const Member& member) {
  const kube::PodStatus status = StatusAtEnd(builder, member);
  const kube::ContainerTermination end = status.termination.value_or(kube::ContainerTermination{});
  // A pod's own word, such as Evicted, says more than its container's.
  const std::string& reason = status.reason.empty() ? end.reason : status.reason;
  Failure failure = MakeFailure(builder, member);
  failure.ended_at = end.finished_at;
  ExitVerdict verdict = ClassifyExit(end.exit_code, end.signal, reason);
  const bool was_taken_back = verdict.cause == ExitCause::kNodeLost;
  const bool has_obeyed = WasAskedToGo(*member.pod) && !was_taken_back &&
                          !HasDoneItsWork(*member.pod) && !HasFailedForGood(*member.pod);
  if (has_obeyed) {
    verdict = {Outcome::kPreempted, ExitCause::kPreempted};
  } else if (end.exit_code == kExitPreempted) {
    verdict = VerdictUnasked(verdict, end.message);
  } else if (status.phase == kube::PodPhase::kSucceeded && SaysItObeyed(*member.pod)) {
    verdict = {Outcome::kPreempted, ExitCause::kPreempted};  // who asked is not known
  } else if (status.phase == kube::PodPhase::kFailed && verdict.outcome == Outcome::kSuccess) {
    verdict = {Outcome::kRetryable, ExitCause::kUnknown};  // the phase knows better than no code
  }
  const bool is_to_go_on =
      IsTrainersPs(builder, member) ||
      (builder.is_training() && member.rank.has_value() && member.state != MemberState::kSucceeded);
  const bool is_early = is_to_go_on && verdict.outcome == Outcome::kSuccess;
  if (is_early) {
    verdict = {Outcome::kRetryable, ExitCause::kUnknown};  // a trainer ends so after its last step
  }
  failure.cause = ExitCauseName(verdict.cause);
  failure.is_node_at_fault = was_taken_back;
  const bool was_killed = verdict.cause == ExitCause::kKilled || verdict.cause == ExitCause::kOom;
  LastWords words = ReadLastWords(end.message, was_killed);
  // A node that evicts for want of memory or disk has its reason in what runs there.
  failure.is_voluntary =
      has_obeyed || IsAskedByNode(reason) || EndsUnderRelaunch(builder, member, words) ||
      (builder.observed().is_one_machine && verdict.cause == ExitCause::kPortTaken);
  NameEviction(status.disruption, &failure);
  failure.response =
      ResponseTo(RoleOf(builder, member).restart_policy, verdict.outcome, member.rank.has_value());
  const bool is_unasked =
      end.exit_code == kExitPreempted && verdict.cause == ExitCause::kProgramExit;
  const std::string how = is_early ? "ended with exit code 0 before the end of training"
                          : is_unasked
                              ? "ended with exit code 42, although nobody had asked it to end"
                          : verdict.cause == ExitCause::kOom
                              ? DescribeEnd(end, reason) + LimitText(RoleOf(builder, member), end)
                          : status.termination.has_value() ? DescribeEnd(end, reason)
                          : reason.empty()                 ? "failed, and Kubernetes gave no reason"
                                                           : "failed: " + reason;
  failure.tail = words.tail;
  if (has_obeyed) {
    failure.sentence = DescribeMember(member) + " " + DescribeDeparture(builder, *member.pod);
    return failure;
  }
  failure.sentence = DescribeCulprit(builder, member, words, end.container) + " " + how;
  if (words.reason.empty()) {
    words.reason = ReadLastWords(status.message, /*was_killed=*/false).reason;
  }
  if (!builder.is_training() && verdict.cause == ExitCause::kUnreachable) {
    failure.lost_ranks = words.lost_ranks;
    failure.left_ranks = words.left_ranks;
  }
  const bool is_repeated =
      how.starts_with(words.reason) || words.reason == DescribeExit(end.exit_code, end.signal, "");
  if (!words.reason.empty() && !is_repeated) {
    failure.sentence += ": " + words.reason + HintOn(words.reason);
  }
  return failure;
}

std::vector<Failure> FindFailures(const DecisionBuilder& builder,
                                  const GangView& view,
                                  const std::vector<StartProblem>& problems) {
  const Silence silence = FindSilence(builder, view);
  // Others are still to come, such as one whose image takes long.
  const bool is_coming = !builder.status().has_run &&
                         std::any_of(view.members.begin(), view.members.end(), IsStarting);
  std::vector<Failure> failures;
  for (const Member& member : view.members) {
    if (IsAmong(problems, member)) {
      continue;
    }
    const PodPlacement& placement = *FindPlacement(builder.status(), member.task);
    if (member.state == MemberState::kFailed || member.state == MemberState::kHeld) {
      failures.push_back(EndedFailure(builder, member));
      if (is_coming && failures.back().cause == ExitCauseName(ExitCause::kUnreachable)) {
        failures.back().cause = kCauseNotStarted;  // it waited for them, and did nothing wrong
      }
    } else if (member.state == MemberState::kSucceeded && member.pod != nullptr &&
               !placement.is_completed) {
      Failure restart = EndedFailure(builder, member);
      if (restart.response != FailureResponse::kNone) {
        failures.push_back(std::move(restart));
      }
    } else if (member.state == MemberState::kVanished) {
      failures.push_back(VanishedFailure(builder, member, placement));
    } else if (auto ended = UntoldFailure(builder, member, silence.ended)) {
      failures.push_back(*std::move(ended));
    } else if (auto silent = SilenceFailure(builder, member, silence)) {
      failures.push_back(*std::move(silent));
    } else if (auto stuck = StuckFailure(builder, member)) {
      failures.push_back(*std::move(stuck));
    } else if (IsLate(builder, member, placement)) {
      failures.push_back(StartFailure(builder, member, placement));
    } else if (MissesRelaunch(builder, member)) {
      failures.push_back(OutsideFailure(builder,
                                        member,
                                        ExitCauseName(ExitCause::kCompleted),
                                        "finished its work before the gang's programs restarted"));
    } else if (IsLateForRelaunch(builder, member)) {
      failures.push_back(OutsideFailure(builder,
                                        member,
                                        kCauseStartTimeout,
                                        "did not restart its programs within " +
                                            std::to_string(kRelaunchPatience.count()) + " s"));
    }
  }
  return failures;
}

}  // namespace lockstep::control
