#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/error.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/status/termination_message.h"

namespace lockstep::runtime {

// A process of the pod that somebody outside has killed.
struct KilledProcess {
  std::string name;  // "rank 1"
  pid_t pid = 0;
  std::string how;  // "killed by SIGKILL"
  TimePoint at;     // when that was seen
};

// The first failure of a process, which is the pod's.
struct PodFailure {
  int exit_code = 0;
  int signal = 0;
  std::string reason;
  std::optional<int> culprit_rank;
  std::string tail;  // of what the culprit wrote to its standard error
  std::optional<TimePoint> ended_at = std::nullopt;  // null: it was never started
  std::vector<int> left_ranks = {};  // of those that had exited 0 before, of themselves
  // That process, where it was killed, and all that were killed with it.
  std::vector<KilledProcess> killed = {};
};

// Two that are seen to be killed no further apart may have been so in the other order. Choice: what
// a process waits for its turn where each core has two others.
inline constexpr Duration kKilledTogether = std::chrono::milliseconds(10);

// Counts `later` to a failure whose process was killed in the same way at most that long before:
// its reason then names them all, "rank 1 (pid 123) and rank 2 (pid 124) were killed by SIGKILL,
// within 3 ms". Returns whether it did. Pure.
bool AddKilled(const KilledProcess& later, PodFailure* failure);

// Counts a rank that ended with exit code 0 after the failure, if there is one, to those that had
// left before it, where the failure's words say that it was lost: its connections close before its
// process ends. Not one that was lost by its silence, and has obeyed. Pure.
void AddLateLeaver(int rank, std::optional<PodFailure>* failure);

// What a pod ends with whose program could not be started.
int ExitCodeOf(const Error& start_error);

// What is said of a pod whose processes have all ended. Null: none has failed. Pure.
TerminationMessage LastWordsOfPod(const std::optional<PodFailure>& failure, bool was_asked_to_end);

// Whether a pod that has failed so may be held for a relaunch: not where nobody could be better off
// with the same pod (its port is another's, it could not be started) or where somebody newer does
// the work.
bool IsHoldable(const PodFailure& failure);

// Of a pod whose programs were ended for a relaunch that did not come.
PodFailure HaltedInVain();

// What the program has left there itself; empty: nothing.
std::string WordsOfProgram(const std::string& path);

// Makes room for the words of the next one. A failure costs only that they are not told.
void ForgetWords(const std::string& path);

// Writes the message where the kubelet finds it, unless the program has left words of its own
// there, which are better than ours. Does nothing where `path` is empty. Errors: as
// WriteFileInPlace.
Status LeaveLastWords(const std::string& path, const TerminationMessage& message);

}  // namespace lockstep::runtime
