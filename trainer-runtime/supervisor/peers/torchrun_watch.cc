#include "trainer-runtime/supervisor/peers/torchrun_watch.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "common/base/io/file.h"
#include "common/base/time.h"
#include "common/contract/command/launcher.h"
#include "trainer-runtime/supervisor/process/process_table.h"

namespace lockstep::runtime {
namespace {

// Linux: of all arguments and variables, usually.
constexpr std::size_t kProcFileBytesMax = std::size_t{4} << 20;

// Doubles with each look: a look costs 20 us for each process of the machine, and most programs
// never start a torchrun. Choice.
constexpr std::chrono::seconds kTorchrunLookFirst{1};
constexpr std::chrono::seconds kTorchrunLookLast{60};

// Choice: scripts that install packages or fetch data first take that long.
constexpr std::chrono::minutes kTorchrunPatience{30};

// The parts of a file of /proc, which end in zero bytes. None of a process that is gone.
std::vector<std::string> ZeroEndedParts(const std::string& path) {
  const Result<std::string> bytes = ReadFile(path, kProcFileBytesMax);
  std::vector<std::string> parts;
  std::string_view left = bytes.ok() ? std::string_view(*bytes) : std::string_view();
  while (!left.empty()) {
    const std::size_t end = std::min(left.find('\0'), left.size());
    parts.emplace_back(left.substr(0, end));
    left = left.substr(std::min(end + 1, left.size()));
  }
  return parts;
}

// The world that a process's environment describes, if torchrun started it; null otherwise.
std::optional<int> WorldIn(const std::vector<std::string>& variables) {
  constexpr std::string_view kOfTorchrun = "TORCHELASTIC_USE_AGENT_STORE=";  // nobody else sets it
  constexpr std::string_view kWorld = "WORLD_SIZE=";
  bool is_of_torchrun = false;
  std::optional<int> world;
  for (const std::string& variable : variables) {
    is_of_torchrun = is_of_torchrun || variable.starts_with(kOfTorchrun);
    if (variable.starts_with(kWorld)) {
      int size = 0;
      const char* const end = variable.data() + variable.size();
      const auto [stop, problem] = std::from_chars(variable.data() + kWorld.size(), end, size);
      world = problem == std::errc() && stop == end ? std::optional(size) : std::nullopt;
    }
  }
  return is_of_torchrun ? world : std::nullopt;
}

// Whether torchrun, called so with these variables, does not begin before others have come.
bool NeedsOthers(const TorchrunCall& call, const std::vector<std::string>& variables) {
  constexpr std::string_view kMachines = "PET_NNODES=";
  std::string machines = call.Option("--nnodes");
  for (const std::string& variable : variables) {
    if (machines.empty() && variable.starts_with(kMachines)) {
      machines = variable.substr(kMachines.size());
    }
  }
  return MachinesThatTorchrunNeeds(machines).value_or(1) > 1;
}

}  // namespace

TorchrunSight LookForTorchrun(pid_t ancestor, const std::string& folder) {
  TorchrunSight sight;
  const std::vector<ProcessStat> family = FamilyOf(ReadProcessTable(folder), ancestor);
  std::set<pid_t> torchruns;
  for (const ProcessStat& stat : family) {
    const std::optional<TorchrunCall> call =
        TorchrunCallOf(ZeroEndedParts(folder + "/" + std::to_string(stat.pid) + "/cmdline"));
    if (call.has_value()) {
      torchruns.insert(stat.pid);
      const bool is_alone = call->options.contains("--standalone");
      sight.is_alone = sight.is_alone || is_alone;
      sight.waits_alone =
          sight.waits_alone ||
          (is_alone &&
           NeedsOthers(*call,
                       ZeroEndedParts(folder + "/" + std::to_string(stat.pid) + "/environ")));
    }
  }
  sight.count = static_cast<int>(torchruns.size());
  for (const ProcessStat& stat : family) {
    if (torchruns.count(stat.parent) == 0) {
      continue;
    }
    const std::optional<int> world =
        WorldIn(ZeroEndedParts(folder + "/" + std::to_string(stat.pid) + "/environ"));
    if (world.has_value()) {
      sight.world = std::min(sight.world.value_or(*world), *world);
    }
  }
  return sight;
}

std::optional<TorchrunFault> FaultOf(const TorchrunSight& sight,
                                     const TorchrunExpectation& expected) {
  if (sight.count == 0) {
    return std::nullopt;
  }
  if (expected.process_count > 1) {
    return TorchrunFault{"the command starts torchrun, and Lockstep started the command " +
                             std::to_string(expected.process_count) +
                             " times; set launcher: Torchrun in the role, so that Lockstep starts "
                             "the command only once",
                         true};
  }
  const std::string ranks = std::to_string(expected.world_size) + " ranks of the job";
  if (sight.waits_alone && expected.world_size > 1) {
    return TorchrunFault{"torchrun --standalone does not join the " + ranks +
                             ", but waits for them; remove --standalone, or set --nnodes=1 to "
                             "train a separate model in each pod",
                         true};
  }
  if (sight.is_alone && expected.world_size > 1) {
    return TorchrunFault{
        "torchrun --standalone does not join the " + ranks + "; remove --standalone", false};
  }
  if (sight.world.has_value() && *sight.world < expected.world_size) {
    return TorchrunFault{
        "torchrun trains " + std::to_string(*sight.world) + " ranks by themselves, not the " +
            ranks + "; remove --nnodes, --node-rank and addresses from the options of torchrun",
        false};
  }
  return std::nullopt;
}

TorchrunWatch::TorchrunWatch(TorchrunExpectation expected,
                             std::function<void(const TorchrunFault&)> tell)
    : expected_(expected), tell_(std::move(tell)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void TorchrunWatch::Run(const std::stop_token& stop) const {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock<std::mutex> lock(mutex);
  const Deadline end = Deadline::After(SteadyNow(), kTorchrunPatience);
  for (auto interval = kTorchrunLookFirst; !end.HasPassed(SteadyNow());
       interval = std::min(2 * interval, kTorchrunLookLast)) {
    const TorchrunSight sight = LookForTorchrun(::getpid());
    if (const std::optional<TorchrunFault> fault = FaultOf(sight, expected_)) {
      tell_(*fault);
      return;
    }
    if (sight.world.has_value()) {
      return;
    }
    if (wake.wait_for(lock, stop, interval, [&stop] { return stop.stop_requested(); })) {
      return;
    }
  }
}

}  // namespace lockstep::runtime
