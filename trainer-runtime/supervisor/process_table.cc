#include "trainer-runtime/supervisor/process_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <unistd.h>

#include "common/base/file.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kStatBytesMax = 4096;

// Fields of /proc/PID/stat behind the name, counted from the state. Source: proc(5).
constexpr std::size_t kParentField = 1;
constexpr std::size_t kGroupField = 2;
constexpr std::array<std::size_t, 4> kTimeFields = {11, 12, 13, 14};  // own and waited for
constexpr std::size_t kThreadsField = 17;
constexpr std::size_t kFieldsNeeded = 18;

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (words.size() < kFieldsNeeded) {
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

// The main thread may end before others.
bool HasEnded(const ProcessStat& stat) {
  return stat.state == 'X' || (stat.state == 'Z' && stat.threads <= 1);
}

Duration Tick() {
  return std::chrono::duration_cast<Duration>(std::chrono::seconds(1)) / ::sysconf(_SC_CLK_TCK);
}

}  // namespace

std::optional<ProcessStat> ParseProcessStat(std::string_view line, Duration tick) {
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
  stat.threads = NumberOf(words[kThreadsField]).value_or(1);
  for (const std::size_t field : kTimeFields) {
    stat.cpu += NumberOf(words[field]).value_or(0) * tick;
  }
  return stat;
}

std::vector<ProcessStat> ReadProcessTable(const std::string& folder) {
  const Duration tick = Tick();
  std::vector<ProcessStat> table;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    const Result<std::string> line = ReadFile(folder + "/" + name + "/stat", kStatBytesMax);
    const auto stat = line.ok() ? ParseProcessStat(*line, tick) : std::nullopt;
    if (stat.has_value() && !HasEnded(*stat)) {
      table.push_back(*stat);
    }
  }
  return table;
}

namespace {

std::vector<ProcessStat> Only(const std::vector<ProcessStat>& table,
                              const std::set<pid_t>& members) {
  std::vector<ProcessStat> some;
  std::copy_if(table.begin(), table.end(), std::back_inserter(some), [&](const auto& stat) {
    return members.count(stat.pid) > 0;
  });
  return some;
}

void AddDescendants(const std::vector<ProcessStat>& table, std::set<pid_t>* members) {
  for (std::size_t before = 0; before != members->size();) {  // ends: grows to the table at most
    before = members->size();
    for (const ProcessStat& stat : table) {
      if (members->count(stat.parent) > 0) {
        members->insert(stat.pid);
      }
    }
  }
}

}  // namespace

std::vector<ProcessStat> FamilyOf(const std::vector<ProcessStat>& table, pid_t leader) {
  std::set<pid_t> members = {leader};
  for (const ProcessStat& stat : table) {
    if (stat.group == leader) {
      members.insert(stat.pid);
    }
  }
  AddDescendants(table, &members);
  return Only(table, members);
}

std::vector<ProcessStat> AdoptedBy(const std::vector<ProcessStat>& table,
                                   pid_t parent,
                                   const std::set<pid_t>& started) {
  std::set<pid_t> members;
  for (const ProcessStat& stat : table) {
    if (stat.parent == parent && started.count(stat.pid) == 0) {
      members.insert(stat.pid);
    }
  }
  AddDescendants(table, &members);
  return Only(table, members);
}

}  // namespace lockstep::runtime
