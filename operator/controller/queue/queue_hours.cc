#include "operator/controller/queue/queue_hours.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "operator/controller/queue/thousandths.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

// Writes whose outcome is not known. Choice: the newest are the ones that may still show.
constexpr std::size_t kWritesMax = 16;

// Of an amount times milliseconds to a thousandth of an hour of one of it; cores are counted in
// thousandths.
int64_t DivisorOf(const std::string& resource) {
  return resource == kCpuResource ? 3'600'000 : 3'600;
}

// Of two that are not negative; the most there is where it would be more.
int64_t ProductUpToMost(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

int64_t SumUpToMost(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

}  // namespace

UsedHours UsedHoursIn(const Json& status) {
  UsedHours hours;
  const auto stored = status.is_object() ? status.find("usedHours") : status.end();
  if (stored == status.end() || !stored->is_object()) {
    return hours;
  }
  for (const auto& [resource, text] : stored->items()) {
    if (text.is_string()) {
      hours[resource] = text.get<std::string>();
    }
  }
  return hours;
}

void QueueHours::Note(TimePoint now, std::map<std::string, QueueAmounts> used) {
  const int64_t passed =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - noted_at_).count();
  for (const auto& [queue, amounts] : used_) {
    for (const auto& [resource, amount] : amounts) {
      if (IsCountedOverTime(resource)) {
        int64_t& held = rows_[queue].held[resource];
        held = SumUpToMost(held, ProductUpToMost(amount, passed));
      }
    }
  }
  std::erase_if(rows_, [&](const auto& row) { return !used.contains(row.first); });  // it is gone
  is_counting_ = std::any_of(used.begin(), used.end(), [](const auto& one) {
    return std::any_of(one.second.begin(), one.second.end(), [](const auto& amount) {
      return amount.second > 0 && IsCountedOverTime(amount.first);
    });
  });
  used_ = std::move(used);
  noted_at_ = now;
}

QueueHours::Thousandths QueueHours::Pending(const Row& row) {
  Thousandths pending;
  for (const auto& [resource, held] : row.held) {
    if (const int64_t hours = held / DivisorOf(resource); hours > 0) {
      pending[resource] = hours;
    }
  }
  return pending;
}

// What a write has added counts there from now on.
void QueueHours::Settle(const Json& stored, Row* row) {
  const UsedHours hours = UsedHoursIn(stored);
  const auto done = std::find_if(row->writes.begin(), row->writes.end(), [&](const Write& write) {
    return write.total == hours;
  });
  if (done == row->writes.end()) {
    return;
  }
  for (const auto& [resource, added] : done->added) {
    row->held[resource] -= added * DivisorOf(resource);
  }
  row->writes.clear();
}

UsedHours QueueHours::Total(const std::string& queue, const Json& stored) {
  Row& row = rows_[queue];
  Settle(stored, &row);
  UsedHours total = UsedHoursIn(stored);
  for (const auto& [resource, pending] : Pending(row)) {
    total[resource] = ThousandthsText(
        std::min(ReadThousandths(total[resource]).value_or(0) + pending, kThousandthsMax));
  }
  return total;
}

void QueueHours::NoteWrite(const std::string& queue, const Json& stored, const UsedHours& total) {
  Row& row = rows_[queue];
  if (total == UsedHoursIn(stored)) {
    return;
  }
  if (row.writes.size() == kWritesMax) {
    row.writes.erase(row.writes.begin());
  }
  row.writes.push_back({total, Pending(row)});
}

}  // namespace lockstep::control
