#include "operator/api/queue/queue_usage_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <tuple>
#include <vector>

#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

// Choice: with names of usual length this is as wide as a table's other columns together.
constexpr std::size_t kShownMax = 4;

// At most one decimal, none that says nothing.
std::string ShortDecimal(double value) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1f", value);
  std::string text(buffer.data());
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::string BytesText(int64_t bytes) {
  constexpr std::array kUnits = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  auto count = static_cast<double>(bytes);
  std::size_t unit = 0;
  constexpr double kNextUnitFrom = 1023.95;  // what one decimal makes 1024 of
  while (count >= kNextUnitFrom && unit + 1 < kUnits.size()) {
    count /= 1024;
    ++unit;
  }
  return ShortDecimal(count) + kUnits.at(unit);
}

std::string ShortAmount(const std::string& resource, int64_t amount) {
  return resource == kCpuResource     ? ShortDecimal(static_cast<double>(amount) / 1000)
         : IsCountedInBytes(resource) ? BytesText(amount)
                                      : std::to_string(amount);
}

// Devices, GPUs before all, then cpu and memory, then the rest, each by name.
std::tuple<bool, bool, bool, bool, std::string> Rank(const std::string& resource) {
  return {resource != kGpuResource,
          !IsDevice(resource),
          resource != kCpuResource,
          resource != kMemoryResource,
          resource};
}

// "gpu" of "nvidia.com/gpu".
std::string WithoutVendor(const std::string& resource) {
  return resource.substr(resource.find('/') + 1);
}

}  // namespace

std::string UsageText(const QueueStatus& status) {
  const bool has_quota = !status.nominal.empty();
  std::vector<std::string> shown;
  for (const auto& [resource, amount] : has_quota ? status.nominal : status.used) {
    shown.push_back(resource);
  }
  std::sort(shown.begin(), shown.end(), [](const std::string& a, const std::string& b) {
    return Rank(a) < Rank(b);
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(shown.size(), kShownMax); ++i) {
    const std::string& resource = shown[i];
    const auto alike = std::count_if(shown.begin(), shown.end(), [&](const std::string& other) {
      return WithoutVendor(other) == WithoutVendor(resource);
    });
    const auto used = status.used.find(resource);
    text += (text.empty() ? "" : ", ") + (alike > 1 ? resource : WithoutVendor(resource)) + " " +
            ShortAmount(resource, used == status.used.end() ? 0 : used->second);
    if (has_quota) {
      text += "/" + ShortAmount(resource, status.nominal.at(resource));
    }
  }
  return shown.size() <= kShownMax
             ? text
             : text + " and " + std::to_string(shown.size() - kShownMax) + " more";
}

}  // namespace lockstep::control
