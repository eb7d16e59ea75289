#include "operator/reconcile/recovery/relaunch_cause.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/base/name_list.h"
#include "common/base/whole_milliseconds.h"
#include "common/contract/status/exit_code.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/failure/echo.h"
#include "operator/reconcile/failure/failure.h"
#include "operator/reconcile/failure/first_end.h"
#include "operator/reconcile/recovery/gang_restart.h"

namespace lockstep::control {
namespace {

// Pods of several hosts have no clock in common: an end is as long ago as its pod says, from when
// the answer came. Choice: well above what an answer takes on its way, and below what people take
// for one after the other.
constexpr Duration kAnswerDoubt = std::chrono::milliseconds(250);

// Kubelets tell when a container ended by whole seconds.
constexpr Duration kKubeletDoubt = std::chrono::seconds(1);

constexpr const char* kFirstToEnd = "FirstToEnd";  // the event's reason

struct HeldFailure {
  Failure failure;
  ProgramEnd end;
};

ExitCause KilledOrNot(const Failure& failure) {
  return failure.cause == ExitCauseName(ExitCause::kKilled) ? ExitCause::kKilled
                                                            : ExitCause::kUnknown;
}

std::optional<TimePoint> EndTimeOf(const Failure& failure) {
  if (!failure.ended_at.has_value()) {
    return std::nullopt;
  }
  return TimePoint(std::chrono::duration_cast<Duration>(failure.ended_at->time_since_epoch()));
}

// The ends that the relaunch under way answers, in task order; programs that were only halted have
// none. Without those that another one's end explains.
std::vector<HeldFailure> HeldFailures(const GangView& view, const DecisionBuilder& builder) {
  const int64_t count = builder.status().relaunch.count;
  std::vector<HeldFailure> held;
  std::vector<Failure> failures;
  for (const Member& member : view.members) {
    const bool is_held = member.rank.has_value() && member.pod != nullptr &&
                         member.report != nullptr && member.report->document.held.has_value() &&
                         member.report->document.held->exit_code != 0 &&
                         RelaunchesOf(member) + 1 == count;
    if (!is_held) {
      continue;
    }
    Member ended = member;
    ended.state = MemberState::kHeld;  // it was, until this relaunch began
    HeldFailure one{EndedFailure(builder, ended), {}};
    one.end.cause = KilledOrNot(one.failure);
    const HeldEnd& end = *member.report->document.held;
    if (builder.observed().is_one_machine) {
      one.end.at = end.monotonic_ns.has_value()
                       ? std::optional(TimePoint(Duration(*end.monotonic_ns)))
                       : std::nullopt;
    } else {
      one.end.at = EndTimeOf(one.failure);
    }
    failures.push_back(one.failure);
    held.push_back(std::move(one));
  }
  const std::vector<bool> is_echo = FindExplained(failures);
  std::vector<HeldFailure> own;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (!is_echo[i]) {
      own.push_back(held[i]);
    }
  }
  return own.empty() ? held : own;
}

std::string SentenceOf(const Failure& failure) {
  return failure.sentence + ", cause " + failure.cause;
}

// "a, b and c", or as a list of names where there are more: a gang has up to 4,096 pods.
std::string Listed(std::vector<std::string> sentences) {
  if (sentences.size() < 2 || sentences.size() > kNamesToldMax) {
    return NameList(sentences);
  }
  const std::string last = std::move(sentences.back());
  sentences.pop_back();
  return NameList(sentences) + " and " + last;
}

std::string OneOf(const std::vector<const Failure*>& first) {
  std::vector<std::string> sentences;
  for (const Failure* const one : first) {
    sentences.push_back("(" + SentenceOf(*one) + ")");
  }
  return "one of these programs ended first: " + Listed(std::move(sentences));
}

// Whoever killed one has killed the others: none is another's echo.
std::string AllOf(const std::vector<const Failure*>& killed, const std::string& within) {
  std::vector<std::string> sentences;
  for (const Failure* const one : killed) {
    sentences.push_back(one->sentence);
  }
  return Listed(std::move(sentences)) + ", within " + within + " of each other";
}

// Of stamps so far apart: each was cut to a whole second, and is of some time within that.
std::string BetweenStamps(Duration apart) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(apart + kKubeletDoubt);
  return std::to_string(seconds.count()) + " s";
}

// Restarts and the incident are counted under the new cause.
void MoveCount(const std::string& from, const Failure& to, DecisionBuilder* builder) {
  FailureStatus* const failures = builder->mutable_failures();
  failures->restarts = WithRestartMoved(std::move(failures->restarts), from, to.cause);
  const auto incident = std::find_if(failures->incidents.rbegin(),
                                     failures->incidents.rend(),
                                     [&](const Incident& one) { return one.cause == from; });
  if (incident != failures->incidents.rend() && incident->is_free == IsFree(to)) {
    incident->cause = to.cause;
  }
}

}  // namespace

Failure WithAllKilled(const Failure& origin,
                      const std::vector<Failure>& failures,
                      bool is_one_machine) {
  std::vector<ProgramEnd> ends;
  for (const Failure& failure : failures) {
    ends.push_back({KilledOrNot(failure), EndTimeOf(failure)});
  }
  const FirstEnded found = FirstEnds(ends, is_one_machine ? kEndDoubt : kKubeletDoubt);
  std::vector<const Failure*> killed;
  bool is_among = false;
  for (const std::size_t index : found.indexes) {
    killed.push_back(&failures[index]);
    is_among = is_among || failures[index].pod_name == origin.pod_name;
  }
  Failure all = origin;
  if (found.all_within && is_among) {
    all.sentence = AllOf(
        killed,
        is_one_machine ? WholeMilliseconds(*found.all_within) : BetweenStamps(*found.all_within));
  }
  return all;
}

void NameFirstEnd(const GangView& view, DecisionBuilder* builder) {
  const std::vector<HeldFailure> held = HeldFailures(view, *builder);
  const Condition* const told = FindCondition(builder->status(), ConditionType::kRestarting);
  const std::optional<LastFailure>& last = builder->status().last_failure;
  if (held.empty() || told == nullptr || !told->is_true || !last.has_value()) {
    return;  // somebody has wiped the status
  }
  std::vector<ProgramEnd> ends;
  for (const HeldFailure& one : held) {
    ends.push_back(one.end);
  }
  const bool is_one_clock = builder->observed().is_one_machine;
  const Duration doubt = is_one_clock ? kEndDoubt : kAnswerDoubt;
  const FirstEnded found = FirstEnds(ends, doubt);
  std::vector<const Failure*> first;
  for (const std::size_t index : found.indexes) {
    first.push_back(&held[index].failure);
  }
  // "SENTENCE, cause CAUSE; what it costs; what is done": the rest is true of any cause.
  const std::string begin = last->message + ", cause ";
  const std::size_t rest = told->message.find("; ", begin.size());
  const Duration within = is_one_clock ? found.all_within.value_or(doubt) : doubt;
  const std::string sentence =
      found.all_within ? AllOf(first, WholeMilliseconds(within)) + ", cause " + first.front()->cause
      : first.size() > 1 ? OneOf(first)
                         : SentenceOf(*first.front());
  if (!told->message.starts_with(begin) || rest == std::string::npos ||
      told->message.substr(0, rest) == sentence) {
    return;
  }
  const std::string told_cause = told->message.substr(begin.size(), rest - begin.size());
  const std::string message = sentence + told->message.substr(rest);
  const bool is_among = std::any_of(
      first.begin(), first.end(), [&](const Failure* one) { return one->pod_name == last->pod; });
  if (!is_among) {
    const Failure& origin = *first.front();
    builder->mutable_failures()->last_failure = {
        origin.pod_name, last->at, origin.sentence, origin.tail};
    MoveCount(told_cause, origin, builder);
  }
  const std::string reason = told->reason;
  builder->SetQuietly({ConditionType::kRestarting, true, reason, message});
  builder->Say(EventType::kWarning,
               kFirstToEnd,
               first.size() == 1
                   ? "this program ended first, according to the operator's clock: " + sentence
                   : sentence);
}

}  // namespace lockstep::control
