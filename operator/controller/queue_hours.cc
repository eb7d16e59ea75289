#include "operator/controller/queue_hours.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

// Writes whose outcome is not known. Choice: the newest are the ones that may still show.
constexpr std::size_t kWritesMax = 16;

// The most that is told, in thousandths: what devices that are counted in bytes come to in years.
constexpr std::size_t kHourDigitsMax = 15;
constexpr int64_t kThousandthsMax = 999'999'999'999'999'999;

// What is charged for by the hour: cores, and devices, whose names have a domain.
bool IsCounted(const std::string& resource) {
  return resource == kCpuResource || resource.find('/') != std::string::npos;
}

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

bool AreDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "12.345" in thousandths, the most at most; empty: it is no such number.
std::optional<int64_t> ReadHours(std::string_view text) {
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  std::string part(point == text.npos ? "0" : text.substr(point + 1));
  if (!AreDigits(whole) || !AreDigits(part) || part.size() > 3) {
    return std::nullopt;
  }
  if (whole.size() > kHourDigitsMax) {
    return kThousandthsMax;
  }
  part.resize(3, '0');
  return std::stoll(std::string(whole)) * 1000 + std::stoll(part);
}

// "12.345", "0.5", "7".
std::string HoursText(int64_t thousandths) {
  std::string text = std::to_string(thousandths / 1000);
  if (const int64_t rest = thousandths % 1000; rest != 0) {
    text += "." + std::to_string(1000 + rest).substr(1);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
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
      if (IsCounted(resource)) {
        int64_t& held = rows_[queue].held[resource];
        held = SumUpToMost(held, ProductUpToMost(amount, passed));
      }
    }
  }
  std::erase_if(rows_, [&](const auto& row) { return !used.contains(row.first); });  // it is gone
  is_counting_ = std::any_of(used.begin(), used.end(), [](const auto& one) {
    return std::any_of(one.second.begin(), one.second.end(), [](const auto& amount) {
      return amount.second > 0 && IsCounted(amount.first);
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
    total[resource] =
        HoursText(std::min(ReadHours(total[resource]).value_or(0) + pending, kThousandthsMax));
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
