#include "operator/controller/queue/past_use.h"

#include <algorithm>
#include <utility>

#include "common/base/rfc3339.h"
#include "operator/controller/queue/thousandths.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;

// Cores are counted in thousandths.
int64_t UnitsOf(const std::string& resource) {
  return resource == kCpuResource ? 1000 : 1;
}

DecayingMean ReadMean(const std::string& resource, const Json& text) {
  const auto read =
      text.is_string() ? ReadThousandths(text.get<std::string>()) : std::optional<int64_t>();
  const int64_t thousandths = std::min(read.value_or(0), kMeanAmountMax * 1000);
  return DecayingMean::OfThousandths(thousandths * UnitsOf(resource));
}

}  // namespace

void PastUse::Lead(TimePoint now, WallTime wall_now, const std::map<std::string, Json>& statuses) {
  means_.clear();
  used_.clear();
  noted_at_ = now;
  for (const auto& [queue, status] : statuses) {
    if (!is_kept() || !status.is_object()) {
      continue;
    }
    const Json stored = status.value("pastUse", Json());
    const Json at = status.value("pastUseAt", Json());
    const auto when = at.is_string() ? ParseRfc3339(at.get<std::string>()) : std::nullopt;
    if (!stored.is_object() || !when) {
      continue;
    }
    const milliseconds elapsed = std::max(wall_now - *when, milliseconds(0));
    for (const auto& [resource, text] : stored.items()) {
      if (IsCountedOverTime(resource)) {
        DecayingMean mean = ReadMean(resource, text);
        mean.Hold(0, elapsed, half_life_);
        means_[queue][resource] = mean;
      }
    }
  }
}

void PastUse::Note(TimePoint now, std::map<std::string, QueueAmounts> used) {
  const auto elapsed = std::chrono::duration_cast<milliseconds>(now - noted_at_);
  if (!is_kept()) {
    return;
  }
  for (const auto& [queue, amounts] : used_) {
    for (const auto& [resource, amount] : amounts) {
      if (amount > 0 && IsCountedOverTime(resource)) {
        means_[queue].try_emplace(resource);
      }
    }
  }
  for (auto& [queue, means] : means_) {
    const auto held = used_.find(queue);
    for (auto& [resource, mean] : means) {
      const bool is_held = held != used_.end() && held->second.contains(resource);
      mean.Hold(is_held ? held->second.at(resource) : 0, elapsed, half_life_);
    }
    std::erase_if(means, [&](const auto& one) {
      return one.second.Thousandths() == 0 &&
             (held == used_.end() || !held->second.contains(one.first));
    });
  }
  std::erase_if(means_,
                [&](const auto& one) { return one.second.empty() || !used.contains(one.first); });
  used_ = std::move(used);
  noted_at_ = now;
}

PastUseByQueue PastUse::Means() const {
  PastUseByQueue past;
  for (const auto& [queue, means] : means_) {
    for (const auto& [resource, mean] : means) {
      if (const int64_t thousandths = mean.Thousandths(); thousandths > 0) {
        past[queue][resource] = thousandths;
      }
    }
  }
  return past;
}

Json PastUse::StatusOf(const std::string& queue) const {
  Json status = Json::object();
  const auto found = means_.find(queue);
  if (found == means_.end()) {
    return status;
  }
  for (const auto& [resource, mean] : found->second) {
    const int64_t thousandths = mean.Thousandths() / UnitsOf(resource);
    if (thousandths > 0) {
      status[resource] = ThousandthsText(thousandths);
    }
  }
  return status;
}

}  // namespace lockstep::control
