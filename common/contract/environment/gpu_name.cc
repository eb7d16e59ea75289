#include "common/contract/environment/gpu_name.h"

#include <cstdio>

namespace lockstep {
namespace {

// Both words have as many characters.
constexpr std::string_view kWhole = "GPU-";
constexpr std::string_view kSlice = "MIG-";

std::string_view BytesOf(std::string_view name) {
  const bool has_word = name.starts_with(kWhole) || name.starts_with(kSlice);
  return has_word ? name.substr(kWhole.size()) : name;
}

}  // namespace

std::string FormatGpuName(const GpuUuid& bytes, std::string_view product) {
  std::string text(product.find(" MIG ") == std::string_view::npos ? kWhole : kSlice);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", bytes[i]);
    const bool begins_group = i == 4 || i == 6 || i == 8 || i == 10;
    text += begins_group ? "-" : "";
    text += digits.data();
  }
  return text;
}

bool IsSameGpu(std::string_view one, std::string_view other) {
  return BytesOf(one) == BytesOf(other);
}

}  // namespace lockstep
