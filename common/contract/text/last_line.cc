#include "common/contract/text/last_line.h"

#include <array>

#include "common/contract/text/text.h"

namespace lockstep {
namespace {

// Without "2026-11-23T15:54:38.123Z ", which common/base/log begins its lines with; empty: another
// program's.
std::string_view WithoutTime(std::string_view line) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00.000Z ";
  if (line.size() < kShape.size()) {
    return {};
  }
  for (std::size_t at = 0; at < kShape.size(); ++at) {
    if (kShape[at] == '0' ? !IsDigit(line[at]) : line[at] != kShape[at]) {
      return {};
    }
  }
  return line.substr(kShape.size());
}

// The value behind "reason=", in quotes where FormatLogText has put it there.
std::string ReasonIn(std::string_view line) {
  constexpr std::string_view kKey = " reason=";
  const std::size_t at = line.rfind(kKey);
  std::string_view value = at == std::string_view::npos ? "" : line.substr(at + kKey.size());
  if (!value.starts_with('"')) {
    return std::string(value.substr(0, value.find(' ')));
  }
  std::string reason;
  for (value.remove_prefix(1); !value.empty() && value.front() != '"'; value.remove_prefix(1)) {
    if (value.front() == '\\' && value.size() > 1) {
      value.remove_prefix(1);
      reason += value.front() == 'n' ? ' ' : value.front();  // a newline
    } else {
      reason += value.front();
    }
  }
  return reason;
}

std::string_view WithoutEnding(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

}  // namespace

std::string LastLine(std::string_view output) {
  std::string_view line = WithoutEnding(output);
  line.remove_prefix(line.find_last_of("\r\n") + 1);
  const std::string_view own = WithoutTime(line);
  if (own.starts_with("info ") || own.starts_with("debug ")) {
    return "";
  }
  if (own.starts_with("warn ") && own.find(kMessageNotWritten) != std::string_view::npos) {
    return ReasonIn(own);
  }
  return std::string(line);
}

}  // namespace lockstep
