#include "operator/cmd/key_watch.h"

namespace lockstep::control {
namespace {

// One small object is read. Choice: a probe of readiness comes as often.
constexpr Duration kLookInterval = std::chrono::seconds(10);

// Whether the same is found at the next try unless somebody mends it.
bool IsLasting(const Error& error) {
  return error.code() != ErrorCode::kUnavailable && error.code() != ErrorCode::kTimeout;
}

}  // namespace

int64_t KeyWatch::LookBegins() {
  is_looking_ = true;
  return ++look_count_;
}

void KeyWatch::OnLook(int64_t look, const Status& found, TimePoint now) {
  if (!IsAwaited(look)) {
    return;
  }
  is_looking_ = false;
  look_at_ = now + kLookInterval;
  Learn(found);
}

std::optional<TimePoint> KeyWatch::NextLook() const {
  return is_looking_ ? std::nullopt : std::optional(look_at_);
}

void KeyWatch::OnTry(const Status& found, TimePoint now) {
  ++look_count_;
  is_looking_ = false;
  look_at_ = now + kLookInterval;
  Learn(found);
}

// A server that does not answer tells nothing: what was known before stays known.
void KeyWatch::Learn(const Status& found) {
  if (found.ok()) {
    why_.clear();
  } else if (IsLasting(found.error())) {
    why_ = found.error().ToString();
  }
}

}  // namespace lockstep::control
