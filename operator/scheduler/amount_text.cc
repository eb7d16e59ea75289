#include "operator/scheduler/amount_text.h"

#include <array>
#include <cstdio>

#include "common/base/plural.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

// At most two decimals, none that say nothing: 2, 2.5, 0.25.
std::string ShortDecimal(double value) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.2f", value);
  std::string text(buffer.data());
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text;
}

std::string MemoryText(int64_t bytes) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  constexpr double kMiB = 1024.0 * 1024.0;
  if (bytes == 0) {
    return "0";
  }
  return static_cast<double>(bytes) >= kGiB
             ? ShortDecimal(static_cast<double>(bytes) / kGiB) + " GiB"
             : ShortDecimal(static_cast<double>(bytes) / kMiB) + " MiB";
}

}  // namespace

Figures FiguresOf(const std::string& resource, int64_t needed, int64_t found) {
  if (resource == kGpuResource) {
    return {Plural(needed, "GPU"), std::to_string(found)};
  }
  if (IsCountedInBytes(resource)) {
    // Rounding must not make a shortfall read as equality.
    if (MemoryText(needed) == MemoryText(found)) {
      return {Plural(needed, "byte") + " " + resource, Plural(found, "byte")};
    }
    return {MemoryText(needed) + " " + resource, MemoryText(found)};
  }
  if (resource != kCpuResource) {
    return {std::to_string(needed) + " " + resource, std::to_string(found)};
  }
  if (needed % 10 != 0 || found % 10 != 0) {  // not exact with two decimals
    return {std::to_string(needed) + "m CPU", std::to_string(found) + "m"};
  }
  return {ShortDecimal(static_cast<double>(needed) / 1000.0) + " CPU",
          ShortDecimal(static_cast<double>(found) / 1000.0)};
}

std::string AmountText(const std::string& resource, int64_t amount) {
  return FiguresOf(resource, amount, /*found=*/0).needed;
}

std::string AmountIs(const std::string& resource, int64_t amount) {
  const std::string text = AmountText(resource, amount);
  return text + (text.starts_with("1 ") ? " is" : " are");
}

}  // namespace lockstep::control
