#include "operator/cli/summary/epoch_history.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace lockstep::control {
namespace {

int64_t TimedSamples(const DataEpochResult& result) {
  return result.timed_sample_count.value_or(result.sample_count);
}

bool KnowsMore(const DataEpochResult& one, const DataEpochResult& other) {
  return std::pair(one.sample_count, TimedSamples(one)) >
         std::pair(other.sample_count, TimedSamples(other));
}

}  // namespace

void EpochHistory::Add(const std::vector<DataEpochResult>& results) {
  for (const DataEpochResult& result : results) {
    Known& known = by_epoch_.try_emplace(result.data_epoch, Known{result, false}).first->second;
    if (KnowsMore(result, known.result)) {
      known.result = result;
    }
  }
  while (by_epoch_.size() > kEpochsRememberedMax) {
    by_epoch_.erase(by_epoch_.begin());
  }
}

std::vector<DataEpochResult> EpochHistory::TakeNew() {
  std::vector<DataEpochResult> taken;
  for (auto& [epoch, known] : by_epoch_) {
    if (!std::exchange(known.was_taken, true)) {
      taken.push_back(known.result);
    }
  }
  return taken;
}

std::vector<DataEpochResult> EpochHistory::All() const {
  std::vector<DataEpochResult> all;
  for (const auto& [epoch, known] : by_epoch_) {
    all.push_back(known.result);
  }
  return all;
}

std::string FormatDataEpoch(const DataEpochResult& result, std::optional<int64_t> epochs_total) {
  std::string text = "data epoch " + std::to_string(result.data_epoch + 1);
  text += epochs_total ? " of " + std::to_string(*epochs_total) + ":" : ":";
  char figure[64];
  if (result.loss) {
    std::snprintf(figure, sizeof figure, " loss %.4f,", *result.loss);
    text += figure;
  } else {
    text += " loss not finite,";
  }
  if (result.accuracy) {
    std::snprintf(figure, sizeof figure, " training accuracy %.1f %%,", 100 * *result.accuracy);
    text += figure;
  }
  const bool is_timed = result.timed_sample_count != 0;
  std::snprintf(figure, sizeof figure, " %.1f s", result.seconds);
  text += is_timed ? figure : " untimed";
  if (result.timed_sample_count && is_timed) {
    text += " for the last " + std::to_string(*result.timed_sample_count) + " of its " +
            std::to_string(result.sample_count) + " samples";
  }
  if (result.loss_sample_count) {
    text += "; the loss is the mean over " + std::to_string(*result.loss_sample_count) +
            " of its " + std::to_string(result.sample_count) +
            " samples, without samples of skipped steps";
  }
  return text;
}

}  // namespace lockstep::control
