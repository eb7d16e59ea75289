#include "operator/scheduler/queue/amount_text.h"

#include <array>
#include <cstdio>

#include "common/base/plural.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

// Without decimals that say nothing: 2, 2.5, 0.25.
std::string ShortDecimal(double value, int decimals_max = 2) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals_max, value);
  std::string text(buffer.data());
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text;
}

std::string MemoryText(int64_t bytes) {
  constexpr double kKiB = 1024.0;
  if (bytes == 0) {
    return "0";
  }
  const auto amount = static_cast<double>(bytes);
  return amount < kKiB                 ? Plural(bytes, "byte")
         : amount < kKiB * kKiB        ? ShortDecimal(amount / kKiB) + " KiB"
         : amount < kKiB * kKiB * kKiB ? ShortDecimal(amount / kKiB / kKiB) + " MiB"
                                       : ShortDecimal(amount / kKiB / kKiB / kKiB) + " GiB";
}

// In cores; exact.
std::string CpuText(int64_t millis) {
  return ShortDecimal(static_cast<double>(millis) / 1000.0, 3);
}

}  // namespace

Figures FiguresOf(const std::string& resource, int64_t needed, int64_t found) {
  if (resource == kGpuResource) {
    return {Plural(needed, "GPU"), std::to_string(found)};
  }
  if (IsCountedInBytes(resource)) {
    // Rounding must not make a shortfall read as equality.
    if (needed != found && MemoryText(needed) == MemoryText(found)) {
      return {Plural(needed, "byte") + " " + resource, Plural(found, "byte")};
    }
    return {MemoryText(needed) + " " + resource, MemoryText(found)};
  }
  if (resource != kCpuResource) {
    return {std::to_string(needed) + " " + resource, std::to_string(found)};
  }
  return {CpuText(needed) + " CPU", CpuText(found)};
}

std::string AmountText(const std::string& resource, int64_t amount) {
  return FiguresOf(resource, amount, /*found=*/0).needed;
}

std::string AmountIs(const std::string& resource, int64_t amount) {
  const std::string text = AmountText(resource, amount);
  return text + (text.starts_with("1 ") ? " is" : " are");
}

}  // namespace lockstep::control
