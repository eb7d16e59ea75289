#include "trainer-runtime/supervisor/pod_verdict.h"

#include <algorithm>
#include <utility>

#include "common/base/io/file.h"
#include "common/base/whole_milliseconds.h"
#include "common/contract/status/exit_code.h"
#include "common/contract/status/lost_peer.h"

namespace lockstep::runtime {

void AddLateLeaver(int rank, std::optional<PodFailure>* failure) {
  if (!failure->has_value() || (*failure)->reason.find(kLostBySilence) != std::string::npos) {
    return;
  }
  const std::vector<int> lost = ParseLostPeers((*failure)->reason);
  if (std::find(lost.begin(), lost.end(), rank) != lost.end()) {
    (*failure)->left_ranks.push_back(rank);
  }
}

int ExitCodeOf(const Error& start_error) {
  switch (start_error.code()) {
    case ErrorCode::kNotFound:
      return kExitNotFound;
    case ErrorCode::kResourceExhausted:
      return kExitRetryable;
    default:
      return kExitCannotExecute;
  }
}

bool AddKilled(const KilledProcess& later, PodFailure* failure) {
  std::vector<KilledProcess>& killed = failure->killed;
  const bool is_with = !killed.empty() && later.how == killed.front().how &&
                       later.at - killed.front().at <= kKilledTogether;
  if (!is_with) {
    return false;
  }
  killed.push_back(later);
  std::vector<KilledProcess> by_rank = killed;  // who is seen first, of those, says nothing
  std::sort(by_rank.begin(), by_rank.end(), [](const auto& one, const auto& other) {
    return std::pair(one.name.size(), one.name) < std::pair(other.name.size(), other.name);
  });
  std::string names;
  for (const KilledProcess& one : by_rank) {
    const bool is_last = &one == &by_rank.back();
    names += (names.empty() ? ""
              : is_last     ? " and "
                            : ", ") +
             one.name + " (pid " + std::to_string(one.pid) + ")";
  }
  failure->reason =
      names + " were " + later.how + ", within " + WholeMilliseconds(later.at - killed.front().at);
  return true;
}

TerminationMessage LastWordsOfPod(const std::optional<PodFailure>& failure, bool was_asked_to_end) {
  TerminationMessage message;
  message.outcome = Outcome::kSuccess;
  message.reason = "all processes completed";
  if (failure.has_value()) {
    const ExitVerdict verdict = ClassifyExit(failure->exit_code, failure->signal, "");
    message.outcome = VerdictUnasked(verdict, "").outcome;
    message.reason = failure->reason;
    message.culprit_rank = failure->culprit_rank;
    message.left_ranks = failure->left_ranks;
    message.tail = failure->tail;
  }
  if (was_asked_to_end) {  // whatever the codes are: programs end with 0, 1 or 143 then
    message.outcome = Outcome::kPreempted;
    message.reason = failure.has_value() ? failure->reason : "all processes ended when asked to";
  }
  return message;
}

bool IsHoldable(const PodFailure& failure) {
  switch (failure.exit_code) {
    case kExitSuperseded:
    case kExitPortTaken:
    case kExitCannotExecute:
    case kExitNotFound:
      return false;
    default:
      return true;
  }
}

PodFailure HaltedInVain() {
  PodFailure failure;
  failure.exit_code = kExitRetryable;
  failure.reason = "was stopped for a relaunch of the gang, but no relaunch came";
  return failure;
}

void ForgetWords(const std::string& path) {
  if (!WordsOfProgram(path).empty()) {
    [[maybe_unused]] const Status forgotten = WriteFileInPlace(path, "");
  }
}

std::string WordsOfProgram(const std::string& path) {
  const Result<std::string> words = path.empty() ? Result<std::string>(std::string())
                                                 : ReadFile(path, kTerminationMessageBytesMax);
  return words.ok() ? *words : std::string();
}

Status LeaveLastWords(const std::string& path, const TerminationMessage& message) {
  if (path.empty()) {
    return OkStatus();
  }
  const Result<std::string> present = ReadFile(path, kTerminationMessageBytesMax);
  if (present.ok() ? !present->empty() : present.error().code() == ErrorCode::kResourceExhausted) {
    return OkStatus();
  }
  // In place: in a container the file is a mount of its own, which nothing can be renamed over.
  return WriteFileInPlace(path, EncodeTerminationMessage(message));
}

}  // namespace lockstep::runtime
