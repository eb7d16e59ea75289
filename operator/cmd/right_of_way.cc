#include "operator/cmd/right_of_way.h"

#include <utility>

namespace lockstep::control {
namespace {

// All leases are listed: a few hundred bytes for each release. Choice.
constexpr Duration kLookWhileFirst = std::chrono::seconds(10);
constexpr Duration kLookWhileBehind = std::chrono::seconds(5);

// The lease is written every two seconds, and the other will write its own. Choice.
constexpr Duration kLookWhileAwaiting = std::chrono::seconds(2);

constexpr Duration kLookAfterFault = std::chrono::seconds(1);  // choice

}  // namespace

void RightOfWay::OnLeaseWon(TimePoint now) {
  holds_lease_ = true;
  look_at_ = now;
}

void RightOfWay::OnLeaseLost() {
  holds_lease_ = false;
  is_first_ = false;
  is_looking_ = false;
  ++look_count_;  // what is still answered was asked in another time
  gives_way_ = false;
  is_superfluous_ = false;
  why_.clear();
}

bool RightOfWay::IsLookDue(TimePoint now) const {
  return holds_lease_ && !is_looking_ && look_at_ <= now;
}

std::optional<TimePoint> RightOfWay::NextLook() const {
  return holds_lease_ && !is_looking_ ? std::optional(look_at_) : std::nullopt;
}

int64_t RightOfWay::LookBegins() {
  is_looking_ = true;
  return ++look_count_;
}

void RightOfWay::OnLook(int64_t look, const Result<OthersFinding>& finding, TimePoint now) {
  if (look != look_count_ || !is_looking_) {
    return;
  }
  is_looking_ = false;
  if (!finding.ok()) {
    why_ = finding.error().ToString();
    look_at_ = now + kLookAfterFault;
    return;  // a leader goes on: without an API server it writes nothing
  }
  why_ = finding->why;
  switch (finding->precedence) {
    case Precedence::kFirst:
      is_first_ = true;
      is_superfluous_ = false;
      gives_way_ = false;
      look_at_ = now + kLookWhileFirst;
      return;
    case Precedence::kReturn:
      gives_way_ = false;
      look_at_ = now + kLookWhileAwaiting;
      return;
    case Precedence::kAwait:
      gives_way_ = false;
      is_superfluous_ = !is_first_ && !finding->is_ready_meanwhile;
      look_at_ = now + (is_first_ ? kLookWhileFirst : kLookWhileAwaiting);
      return;
    case Precedence::kGiveWay:
      StopWork(now);
      look_at_ = now + kLookWhileBehind;
      return;
  }
}

void RightOfWay::StopWork(TimePoint now) {
  if (is_first_) {
    quiet_from_ = now + writes_end_;
  }
  is_first_ = false;
  gives_way_ = true;
  is_superfluous_ = true;
}

}  // namespace lockstep::control
