#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "common/base/log.h"
#include "trainer-runtime/supervisor/hang/hang_court.h"

namespace lockstep::runtime {

// What a process does that was asked to end because its job has lost a rank.
enum class SurvivorState {
  kUnknown,  // nothing was heard of it, or it may not get to its handler: a collective is open
  kCalls,    // its main thread is in a call of torch.distributed, which runs no handler
  kWorks,    // it handles SIGTERM, and no collective is open: it may be saving
};

// By local rank, of two looks at processes that have been asked to end; nullopt: nothing was heard
// of it at one of them. `catches`: which of them handle SIGTERM. Pure.
std::vector<std::optional<SurvivorState>> JudgeSurvivors(const HangLook& first,
                                                         const HangLook& second,
                                                         const std::vector<bool>& catches);

// The ranks of this pod that are left when the job has lost another one, which may be of this pod.
// They were asked to end. Those whose main thread waits in a call of torch.distributed are killed
// as soon as that is seen: Python handles no signal there. An open collective alone is no reason:
// with NCCL the main thread may be anywhere. Their groups are not aborted: NCCL would let the
// program run on with incomplete sums, which it may save. Only the supervised processes themselves
// are asked, and not what they have started: of a torchrun's workers one may save while others
// wait. Thread: the supervisor's, besides its own.
class Survivors {
 public:
  // `names`: of the processes, by local rank. `logger` outlives this.
  Survivors(std::vector<std::string> names, Logger* logger);

  // kHangSocketVariable of all processes, which nobody guesses.
  const std::string& socket_name() const { return socket_name_; }

  // Begins to look at the processes, by local rank, that were just asked; 0: at none.
  void Watch(const std::vector<pid_t>& pids);

  // What was seen is forgotten.
  void Forget();

  bool is_watching() const { return thread_.joinable(); }

  // Kills the processes that wait. `pids`: those that run now.
  void KillWaiting(const std::vector<pid_t>& pids);

  // Kills the processes that were not seen to work when they were last heard, where one was.
  // Returns whether one was.
  bool SpareWorking(const std::vector<pid_t>& pids);

  // Whether this has killed the process since Watch.
  bool HasKilled(pid_t pid) const { return killed_.count(pid) > 0; }

 private:
  std::vector<SurvivorState> states() const;
  void Kill(const std::vector<pid_t>& pids, std::size_t local_rank, const char* why);

  const std::string socket_name_;
  const std::vector<std::string> names_;
  Logger* const logger_;
  std::set<pid_t> killed_;
  bool is_spared_told_ = false;
  mutable std::mutex mutex_;
  std::vector<SurvivorState> states_;  // by local rank; guarded by mutex_
  std::jthread thread_;                // last: ends before what it uses
};

}  // namespace lockstep::runtime
