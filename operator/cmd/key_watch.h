#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::control {

// Whether the operator's key can be had, as a replica knows it: it looks now and then, when nothing
// else would tell before it is needed, and learns it when it begins to lead. A state machine
// without I/O or clock.
// Thread: one.
class KeyWatch {
 public:
  // Whether it is to look now; OnLook follows, with what LookBegins returned.
  bool IsLookDue(TimePoint now) const { return !is_looking_ && look_at_ <= now; }

  int64_t LookBegins();
  void OnLook(int64_t look, const Status& found, TimePoint now);

  // Whether the answer to that look is still awaited.
  bool IsAwaited(int64_t look) const { return is_looking_ && look == look_count_; }

  // Null while an answer is awaited.
  std::optional<TimePoint> NextLook() const;

  // Whoever holds the lease has tried to have the key: looks that are under way are void.
  void OnTry(const Status& found, TimePoint now);

  // Why this replica could not lead. Empty: it could, or a server that does not answer may be all.
  const std::string& why() const { return why_; }

 private:
  void Learn(const Status& found);

  bool is_looking_ = false;
  int64_t look_count_ = 0;
  TimePoint look_at_{};
  std::string why_;
};

}  // namespace lockstep::control
