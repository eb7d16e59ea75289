#include "trainer-runtime/telemetry/step_pace.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace lockstep::runtime {
namespace {

// Choices: steps of some milliseconds are averaged over at least 16 s, and of a program that tells
// of itself every 5 s, as Hugging Face's Trainer does, the last minutes count.
constexpr std::size_t kMarksMax = 32;
constexpr Duration kMarkInterval = std::chrono::milliseconds(500);

}  // namespace

void StepPace::Note(Step step, TimePoint now) {
  if (!marks_.empty() && step < marks_.back().step) {
    marks_.clear();
  }
  const bool is_news = marks_.empty() || step != marks_.back().step;
  // Before its first step a program gets ready, and may then go on far from 0.
  if (step == Step() || !is_news || (!marks_.empty() && now - marks_.back().at < kMarkInterval)) {
    return;
  }
  marks_.push_back({step, now});
  if (marks_.size() > kMarksMax) {
    marks_.pop_front();
  }
}

std::optional<Duration> StepPace::Until(int64_t steps_total) const {
  if (marks_.size() < 2) {
    return std::nullopt;
  }
  const auto steps_seen =
      static_cast<double>(marks_.back().step.value() - marks_.front().step.value());
  const auto steps_left =
      static_cast<double>(std::max<int64_t>(0, steps_total - marks_.back().step.value()));
  const double seconds = ToSeconds(marks_.back().at - marks_.front().at) / steps_seen * steps_left;
  constexpr double kSecondsMax = 1e9;  // some decades: a duration holds that
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(seconds, kSecondsMax)));
}

}  // namespace lockstep::runtime
