#include "trainer-runtime/supervisor/oom_kills.h"

#include <algorithm>
#include <charconv>

#include "common/base/io/file.h"

namespace lockstep::runtime {

std::optional<int64_t> ParseOomKills(std::string_view events) {
  constexpr std::string_view kName = "oom_kill ";  // a line of its own, beside oom_group_kill
  while (!events.empty()) {
    const std::string_view line = events.substr(0, events.find('\n'));
    int64_t count = 0;
    if (line.starts_with(kName)) {
      const char* const begin = line.data() + kName.size();
      const auto [end, problem] = std::from_chars(begin, line.data() + line.size(), count);
      return problem == std::errc() && end != begin ? std::optional(count) : std::nullopt;
    }
    events.remove_prefix(std::min(line.size() + 1, events.size()));
  }
  return std::nullopt;
}

std::optional<int64_t> OomKills(const std::string& path) {
  constexpr std::size_t kEventsBytesMax = 4096;  // it has 100
  const Result<std::string> events = ReadFile(path, kEventsBytesMax);
  return events.ok() ? ParseOomKills(*events) : std::nullopt;
}

}  // namespace lockstep::runtime
