#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/contract/status/checkpoint_status.h"
#include "common/contract/status/exit_code.h"
#include "common/contract/training/training_result.h"

namespace lockstep {

// Kubernetes cuts a container's termination message after this many bytes.
inline constexpr std::size_t kTerminationMessageBytesMax = 4096;

// Data epochs in it. Choice: what may have ended since the last report, and a quarter of the bytes.
inline constexpr std::size_t kTerminationHistoryMax = 8;

// A process's last words, written to the file that the pod names, read by the operator.
struct TerminationMessage {
  Outcome outcome = Outcome::kRetryable;
  std::string reason;  // one sentence for people
  std::optional<Step> last_step;
  std::optional<Step> last_checkpoint_step;
  std::optional<int> culprit_rank;  // the peer at fault, where one is known
  // Of a command's pod that failed, those whose processes had exited 0 of themselves before.
  std::vector<int> left_ranks = {};
  std::optional<SampleCounts> samples;  // of who holds the state, up to the last step
  std::optional<TestResult> result;     // of a finished training that was tested
  // The mean over the last data epoch, up to the last step; of a program that reports, what it told
  // last. Absent when nothing was trained and when not a finite number.
  std::optional<double> training_loss;
  // The last lines of a command that failed.
  std::optional<std::string> tail = std::nullopt;
  std::optional<CheckpointStatus> checkpoints = std::nullopt;  // of who wrote or read any
  std::vector<DataEpochResult> history = {};  // oldest first, the newest kTerminationHistoryMax
  std::optional<int64_t> steps_total = std::nullopt;    // of the training, once it is known
  std::optional<int64_t> data_epoch = std::nullopt;     // as in the status document
  std::optional<int64_t> steps_skipped = std::nullopt;  // as there; absent where none were
  // How often the pod's programs had been relaunched; absent where the pod ends with them.
  std::optional<int64_t> relaunches = std::nullopt;

  friend bool operator==(const TerminationMessage&, const TerminationMessage&) = default;
};

// One line of JSON of at most kTerminationMessageBytesMax bytes; what is too long gives
// way: of the tail its beginning, then the reason's end, which becomes "...". Invalid UTF-8 is
// replaced.
std::string EncodeTerminationMessage(const TerminationMessage& message);

// Ignores unknown fields, which a later release may have written: an operator that is rolled back
// must not lose the verdict. Wrong types are errors. Programs of others write what they like here,
// so a caller treats kInvalidArgument as "free text".
Result<TerminationMessage> DecodeTerminationMessage(std::string_view text);

// What an end comes to of a pod that nobody is known to have asked to go. `verdict` is that of its
// exit; exit code 42 says that it left on request, which is believed where its last words have that
// outcome: whoever hears of the request writes them. Else it is an end of the program's own choice,
// to be tried again and counted. Pure.
ExitVerdict VerdictUnasked(ExitVerdict verdict, std::string_view last_words);

}  // namespace lockstep
