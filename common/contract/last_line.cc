#include "common/contract/last_line.h"

#include <array>

namespace lockstep {
namespace {

// "2026-11-23T15:54:38.123Z info  all ranks met": as common/base/log writes it.
bool IsOwnGoodNews(std::string_view line) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00.000Z ";
  if (line.size() < kShape.size()) {
    return false;
  }
  for (std::size_t at = 0; at < kShape.size(); ++at) {
    const bool is_digit = line[at] >= '0' && line[at] <= '9';
    if (kShape[at] == '0' ? !is_digit : line[at] != kShape[at]) {
      return false;
    }
  }
  const std::string_view rest = line.substr(kShape.size());
  return rest.starts_with("info ") || rest.starts_with("debug ");
}

std::string_view WithoutEnding(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

}  // namespace

std::string_view LastLine(std::string_view output) {
  std::string_view line = WithoutEnding(output);
  line.remove_prefix(line.find_last_of("\r\n") + 1);
  return IsOwnGoodNews(line) ? std::string_view() : line;
}

}  // namespace lockstep
