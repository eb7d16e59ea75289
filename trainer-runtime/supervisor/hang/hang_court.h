#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "common/base/time.h"
#include "common/contract/status/hang_evidence.h"

namespace lockstep::runtime {

// Names the socket at which a program's processes answer where they stand: each listens in Linux's
// abstract namespace at this name, "-" and its number. The Python package lockstep_hang reads it.
inline constexpr const char* kHangSocketVariable = "LOCKSTEP_HANG_SOCKET";

// What one look at the pod's processes found.
struct HangLook {
  std::vector<RankEvidence> ranks;
  std::map<int, int> local_ranks;  // by rank, of those that answered here
};

// Where a court learns, and what it tells. Each may be empty.
struct HangPorts {
  // Whether a program has reported a step. Empty: none does.
  std::function<bool()> has_stepped;
  // One look at what NCCL knows of the job's ranks. Called on a thread of the court's; takes a few
  // seconds at most.
  std::function<HangLook()> ask_nccl;
  // Hears at each look of the watchdog where ranks stand while no step comes; of none, where steps
  // come.
  std::function<void(const std::vector<RankEvidence>&)> on_evidence;
};

// Takes one look, within a few seconds. `families`: the processes of each local rank.
using TakeHangLook = std::function<HangLook(const std::vector<std::vector<pid_t>>& families)>;

// For all processes to answer a look. Choice: an answer takes milliseconds where a core is free,
// and on a busy machine a healthy rank must not look like one that holds Python's lock. Two looks
// and the time between them stay within 15 s.
inline constexpr std::chrono::milliseconds kHangAnswerPatience{4000};

// Asks each process that listens at `socket_name`, all at once. Who does not answer in time, or
// answers something else than a RankEvidence, or is another process, is left out.
HangLook AskProcesses(const std::string& socket_name,
                      const std::vector<std::vector<pid_t>>& families,
                      Duration patience = kHangAnswerPatience);

// Between two looks, on a thread that somebody may ask to stop.
void SleepUnlessStopped(Duration duration, const std::stop_token& stop);

struct HangCourtOptions {
  Duration limit{0};                 // without a step; positive
  bool has_peers_elsewhere = false;  // whose pods' evidence the operator joins with this one's
  TakeHangLook look;                 // called on a thread of the court's
  Duration between = std::chrono::seconds(3);  // two looks: any collective is done in that time
};

// What the court has found.
struct HangFinding {
  std::vector<int> culprits;  // local ranks; ascending, not empty
  std::string sentence;       // names them, their collective, and where they are
};

// When the steps of a job stop, finds out by evidence which of its ranks the others wait for: two
// looks at what each has called, and JudgeHang. It sits once the limit has passed without a step of
// any of the pod's ranks, again while none comes, and never before the first step. Thread: one,
// besides its own.
class HangCourt {
 public:
  explicit HangCourt(HangCourtOptions options);

  // Call at each look of the watchdog. `report_count`: changes with each step that a rank of the
  // pod reports. Returns a finding about ranks of this pod, once.
  std::optional<HangFinding> Look(TimePoint now,
                                  int64_t report_count,
                                  bool has_stepped,
                                  const std::vector<std::vector<pid_t>>& families);

  // Whether ranks that do nothing are not to be ended yet: looks are being taken, or ranks have
  // moved between them, or there is evidence, and the operator may have that of other pods as well.
  bool Reserves(TimePoint now) const;

  // Of the newest sitting, while no step has come since; empty: there is none.
  const std::vector<RankEvidence>& evidence() const { return evidence_; }

 private:
  // Of two looks, by the thread that took them.
  struct Sitting {
    std::vector<RankEvidence> evidence;
    std::map<int, int> local_ranks;
  };

  void Open(const std::vector<std::vector<pid_t>>& families);
  std::optional<HangFinding> Close(TimePoint now);

  const HangCourtOptions options_;
  std::optional<int64_t> report_count_;
  TimePoint stepped_at_;
  TimePoint next_sitting_;
  bool is_sitting_ = false;
  std::optional<TimePoint> reserved_until_;
  bool is_left_to_operator_ = false;  // has been, since the last step
  std::vector<RankEvidence> evidence_;
  std::mutex mutex_;
  std::optional<Sitting> taken_;  // guarded by mutex_
  std::jthread thread_;           // last: ends before what it uses
};

}  // namespace lockstep::runtime
