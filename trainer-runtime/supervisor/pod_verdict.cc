#include "trainer-runtime/supervisor/pod_verdict.h"

#include "common/base/file.h"
#include "common/contract/exit_code.h"

namespace lockstep::runtime {

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

TerminationMessage LastWordsOfPod(const std::optional<PodFailure>& failure, bool was_asked_to_end) {
  TerminationMessage message;
  message.outcome = Outcome::kSuccess;
  message.reason = "all processes completed";
  if (failure.has_value()) {
    const ExitVerdict verdict = ClassifyExit(failure->exit_code, failure->signal, "");
    message.outcome = VerdictUnasked(verdict, "").outcome;
    message.reason = failure->reason;
    message.culprit_rank = failure->culprit_rank;
    message.tail = failure->tail;
  }
  if (was_asked_to_end) {  // whatever the codes are: programs end with 0, 1 or 143 then
    message.outcome = Outcome::kPreempted;
    message.reason = failure.has_value() ? failure->reason : "all processes ended when asked to";
  }
  return message;
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
