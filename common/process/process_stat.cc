#include "common/process/process_stat.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "common/base/io/file.h"

namespace lockstep {
namespace {

constexpr std::size_t kStatBytesMax = 4096;  // one line of some 50 numbers

// Fields of /proc/PID/stat behind the name, counted from the state. Source: proc(5).
constexpr std::size_t kParentField = 1;
constexpr std::size_t kGroupField = 2;
constexpr std::size_t kSessionField = 3;
constexpr std::array<std::size_t, 4> kTimeFields = {11, 12, 13, 14};  // own and waited for
constexpr std::size_t kThreadsField = 17;
constexpr std::size_t kResidentField = 21;
constexpr std::size_t kFieldsNeeded = 22;
constexpr std::size_t kBlockedField = 29;
constexpr std::size_t kCaughtField = 31;  // the last that is read

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (words.size() <= kCaughtField) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) {
      break;
    }
    text.remove_prefix(begin);
    words.push_back(text.substr(0, text.find(' ')));
    text.remove_prefix(words.back().size());
  }
  return words;
}

std::optional<int64_t> NumberOf(std::string_view word) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

ProcessStatUnits KernelUnits() {
  return {std::chrono::duration_cast<Duration>(std::chrono::seconds(1)) / ::sysconf(_SC_CLK_TCK),
          ::sysconf(_SC_PAGESIZE)};
}

std::optional<ProcessStat> Read(const std::string& process, const ProcessStatUnits& units) {
  const Result<std::string> line = ReadFile(process + "/stat", kStatBytesMax);
  return line.ok() ? ParseProcessStat(*line, units) : std::nullopt;
}

}  // namespace

std::optional<ProcessStat> ParseProcessStat(std::string_view line, const ProcessStatUnits& units) {
  // The name may hold spaces and parentheses: fields are counted from its last ')'.
  const std::size_t name_end = line.rfind(')');
  const std::optional<int64_t> pid = NumberOf(line);
  if (name_end == std::string_view::npos || !pid.has_value()) {
    return std::nullopt;
  }
  const std::vector<std::string_view> words = Words(line.substr(name_end + 1));
  if (words.size() < kFieldsNeeded) {
    return std::nullopt;
  }
  ProcessStat stat;
  stat.pid = static_cast<pid_t>(*pid);
  stat.state = words[0].front();
  stat.parent = static_cast<pid_t>(NumberOf(words[kParentField]).value_or(0));
  stat.group = static_cast<pid_t>(NumberOf(words[kGroupField]).value_or(0));
  stat.session = static_cast<pid_t>(NumberOf(words[kSessionField]).value_or(0));
  stat.threads = NumberOf(words[kThreadsField]).value_or(1);
  for (const std::size_t field : kTimeFields) {
    stat.cpu += NumberOf(words[field]).value_or(0) * units.tick;
  }
  stat.resident_bytes = NumberOf(words[kResidentField]).value_or(0) * units.page_bytes;
  if (words.size() > kCaughtField) {
    stat.caught = static_cast<uint64_t>(NumberOf(words[kCaughtField]).value_or(0));
    stat.blocked = static_cast<uint64_t>(NumberOf(words[kBlockedField]).value_or(0));
  }
  return stat;
}

bool Handles(const ProcessStat& stat, int signal) {
  return ((stat.caught | stat.blocked) >> (signal - 1) & 1) != 0;
}

bool HasEnded(const ProcessStat& stat) {
  return stat.state == 'X' || (stat.state == 'Z' && stat.threads <= 1);
}

std::optional<ProcessStat> ReadProcessStat(pid_t pid, const std::string& folder) {
  return Read(folder + "/" + std::to_string(pid), KernelUnits());
}

std::vector<ProcessStat> ReadProcessStats(const std::string& folder) {
  const ProcessStatUnits units = KernelUnits();
  std::vector<ProcessStat> table;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    if (const auto stat = Read(entry->path().string(), units)) {
      table.push_back(*stat);
    }
  }
  std::sort(table.begin(), table.end(), [](const ProcessStat& a, const ProcessStat& b) {
    return a.pid < b.pid;
  });
  return table;
}

}  // namespace lockstep
