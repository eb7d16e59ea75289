#include "common/process/thread_watch.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/base/io/file.h"
#include "common/process/process_stat.h"

namespace lockstep {
namespace {

constexpr std::size_t kProcBytesMax = 4096;

// A look that is older says nothing of now. Choice: above the longest time between two looks.
constexpr Duration kLookLasts = std::chrono::seconds(10);

// Choice: `some` of two cores that are busy with five programs is about 60.
constexpr double kPressedPercent = 90;

bool CannotSpeak(const ThreadSample& sample) {
  return std::string_view("TtZX").find(sample.state) != std::string_view::npos;
}

const ThreadSample* Find(const std::vector<ThreadSample>& samples, pid_t thread) {
  const auto found =
      std::find_if(samples.begin(), samples.end(), [thread](const ThreadSample& sample) {
        return sample.thread == thread;
      });
  return found == samples.end() ? nullptr : &*found;
}

// Half of the time is the limit of both: a thread that got a core for as long was let run.
bool IsStarved(const ThreadSample* before, const ThreadSample& now, Duration between) {
  const bool wants_to_run = now.state == 'R';
  if (before == nullptr || !before->ran || !before->waited || !now.ran || !now.waited) {
    return wants_to_run;
  }
  // A thread that waits now is not counted as waiting before it has got its core.
  return (wants_to_run && *now.ran - *before->ran < between / 2) ||
         *now.waited - *before->waited >= between / 2;
}

// Null where there is no such thread.
std::optional<ThreadSample> ReadThread(const std::string& folder, pid_t thread) {
  const Result<std::string> line = ReadFile(folder + "/stat", kProcBytesMax);
  const auto stat = line.ok() ? ParseProcessStat(*line, {}) : std::nullopt;
  if (!stat.has_value()) {
    return std::nullopt;
  }
  ThreadSample sample;
  sample.thread = thread;
  sample.state = stat->state;
  if (const Result<std::string> times = ReadFile(folder + "/schedstat", kProcBytesMax);
      times.ok()) {
    std::istringstream words(*times);
    int64_t ran_ns = 0;
    int64_t waited_ns = 0;
    if (words >> ran_ns >> waited_ns) {
      sample.ran = std::chrono::nanoseconds(ran_ns);
      sample.waited = std::chrono::nanoseconds(waited_ns);
    }
  }
  return sample;
}

std::vector<ThreadSample> ReadThreads(const std::string& folder) {
  std::vector<ThreadSample> samples;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec != std::errc()) {
      continue;
    }
    if (const auto sample = ReadThread(entry->path().string(), thread)) {
      samples.push_back(*sample);
    }
  }
  return samples;
}

// A container's own pressure, in which its throttling counts, says more than its host's.
bool IsHostPressed(const std::string& root) {
  Result<std::string> text = ReadFile(root + "/sys/fs/cgroup/cpu.pressure", kProcBytesMax);
  if (!text.ok()) {
    text = ReadFile(root + "/proc/pressure/cpu", kProcBytesMax);
  }
  return text.ok() && CpuPressure(*text) >= kPressedPercent;
}

}  // namespace

Sight JudgeThreads(const std::vector<ThreadSample>& before,
                   const std::vector<ThreadSample>& now,
                   Duration between,
                   bool is_host_pressed) {
  if (now.empty()) {
    return Sight::kUnseen;
  }
  if (std::all_of(now.begin(), now.end(), CannotSpeak)) {
    return Sight::kStopped;
  }
  if (std::any_of(now.begin(), now.end(), [&](const ThreadSample& sample) {
        return IsStarved(Find(before, sample.thread), sample, between);
      })) {
    return Sight::kStarved;
  }
  return is_host_pressed ? Sight::kStrained : Sight::kRunning;
}

double CpuPressure(std::string_view text) {
  constexpr std::string_view kBegin = "some avg10=";
  double percent = 0;
  if (!text.starts_with(kBegin)) {
    return 0;
  }
  text.remove_prefix(kBegin.size());
  std::from_chars(text.data(), text.data() + text.size(), percent);
  return percent;
}

Sight ThreadWatch::LookAtThread(pid_t thread, TimePoint now) {
  std::vector<ThreadSample> samples;
  if (const auto sample = ReadThread(root_ + "/proc/" + std::to_string(thread), thread)) {
    samples.push_back(*sample);
  }
  return Compare(thread, std::move(samples), now);
}

Sight ThreadWatch::LookAtProcess(pid_t pid, TimePoint now) {
  return Compare(pid, ReadThreads(root_ + "/proc/" + std::to_string(pid) + "/task"), now);
}

Sight ThreadWatch::Compare(pid_t key, std::vector<ThreadSample> samples, TimePoint now) {
  std::erase_if(looks_, [now](const auto& entry) { return now - entry.second.at > kLookLasts; });
  Look& look = looks_[key];
  const Sight sight = JudgeThreads(look.samples, samples, now - look.at, IsHostPressed(root_));
  look = Look{now, std::move(samples)};
  return sight;
}

}  // namespace lockstep
