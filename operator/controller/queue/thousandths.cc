#include "operator/controller/queue/thousandths.h"

#include <algorithm>

#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kDigitsMax = 15;  // before the point, of kThousandthsMax

bool AreDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<int64_t> ReadThousandths(std::string_view text) {
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  std::string part(point == text.npos ? "0" : text.substr(point + 1));
  if (!AreDigits(whole) || !AreDigits(part) || part.size() > 3) {
    return std::nullopt;
  }
  if (whole.size() > kDigitsMax) {
    return kThousandthsMax;
  }
  part.resize(3, '0');
  return std::stoll(std::string(whole)) * 1000 + std::stoll(part);
}

std::string ThousandthsText(int64_t thousandths) {
  std::string text = std::to_string(thousandths / 1000);
  if (const int64_t rest = thousandths % 1000; rest != 0) {
    text += "." + std::to_string(1000 + rest).substr(1);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
}

bool IsCountedOverTime(std::string_view resource) {
  return resource == kCpuResource || resource.find('/') != std::string_view::npos;
}

}  // namespace lockstep::control
