#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/cmd/other_operators.h"

namespace lockstep::control {

// Whether this replica may work on jobs: it holds the lease of its release, and no other release is
// at work on the same ones. Looks again and again, as leader too: who came back meanwhile, or
// serves more namespaces than before, may go first. A state machine without I/O or clock.
//
//   no lease --won--> looking --nobody--> may work --older one--> gives way --it left--> looking
//
// Thread: one.
class RightOfWay {
 public:
  // `writes_end` is how long a write that was sent may still take effect.
  explicit RightOfWay(Duration writes_end) : writes_end_(writes_end) {}

  void OnLeaseWon(TimePoint now);
  void OnLeaseLost();

  // Whether somebody is to look for others now; OnLook follows, with what LookBegins returned.
  bool IsLookDue(TimePoint now) const;
  int64_t LookBegins();
  void OnLook(int64_t look, const Result<OthersFinding>& finding, TimePoint now);

  // Null while an answer is awaited, and without the lease.
  std::optional<TimePoint> NextLook() const;

  bool may_work() const { return holds_lease_ && is_first_; }

  // What our lease is to say: not before the last write of our work has ended.
  bool GivesWay(TimePoint now) const { return gives_way_ && now >= quiet_from_; }

  // Another release does our work: one of the two is too many.
  bool is_superfluous() const { return is_superfluous_; }

  // Why this replica does not work though it holds the lease, or what it could not find out.
  const std::string& why() const { return why_; }

 private:
  void StopWork(TimePoint now);

  const Duration writes_end_;
  bool holds_lease_ = false;
  bool is_first_ = false;  // by the last look that was answered
  bool is_looking_ = false;
  bool gives_way_ = false;
  bool is_superfluous_ = false;
  int64_t look_count_ = 0;
  TimePoint look_at_{};
  TimePoint quiet_from_{};
  std::string why_;
};

}  // namespace lockstep::control
