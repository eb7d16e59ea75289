#include "trainer-runtime/supervisor/hang/survivors.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <stop_token>
#include <utility>

#include "common/base/digest.h"
#include "trainer-runtime/supervisor/process/process_table.h"

namespace lockstep::runtime {
namespace {

// Between two looks. Choice: a collective of ranks that are all there is done by then, or another
// one is called.
constexpr std::chrono::milliseconds kLookInterval{300};

constexpr std::size_t kSocketNameBytes = 16;

// For an answer. Choice: a silent process must not use up the time of one that saves.
constexpr std::chrono::milliseconds kSurvivorPatience{300};

// How lockstep_hang names the group of a rank whose main thread is in a call of torch.distributed.
constexpr const char* kCallsOfRank = "call-";

bool IsOpen(const GroupCalls& group) {
  return group.waits_in > 0;
}

bool IsInCall(const GroupCalls& group) {
  return IsOpen(group) && group.id.starts_with(kCallsOfRank);
}

SurvivorState StateOf(const RankEvidence& rank, bool catches) {
  const auto& groups = rank.groups;
  if (!rank.is_moving && std::any_of(groups.begin(), groups.end(), IsInCall)) {
    return SurvivorState::kCalls;
  }
  const bool may_save =
      catches && (rank.is_moving || std::none_of(groups.begin(), groups.end(), IsOpen));
  return may_save ? SurvivorState::kWorks : SurvivorState::kUnknown;
}

struct Processes {
  std::vector<std::vector<pid_t>> asked;  // by local rank: one each
  std::vector<bool> catches;              // SIGTERM
};

Processes FindProcesses(const std::vector<pid_t>& pids) {
  const std::vector<ProcessStat> table = ReadProcessTable("/proc");
  Processes found;
  for (const pid_t pid : pids) {
    const auto stat = std::find_if(
        table.begin(), table.end(), [pid](const ProcessStat& one) { return one.pid == pid; });
    const bool is_there = pid != 0 && stat != table.end();
    found.asked.push_back(is_there ? std::vector<pid_t>{pid} : std::vector<pid_t>());
    found.catches.push_back(is_there && Handles(*stat, SIGTERM));
  }
  return found;
}

}  // namespace

std::vector<std::optional<SurvivorState>> JudgeSurvivors(const HangLook& first,
                                                         const HangLook& second,
                                                         const std::vector<bool>& catches) {
  std::vector<std::optional<SurvivorState>> states(catches.size());
  for (const RankEvidence& rank : CompareLooks(first.ranks, second.ranks)) {
    if (const auto found = second.local_ranks.find(rank.rank); found != second.local_ranks.end()) {
      const auto local_rank = static_cast<std::size_t>(found->second);
      states[local_rank] = StateOf(rank, catches[local_rank]);
    }
  }
  return states;
}

Survivors::Survivors(std::vector<std::string> names, Logger* logger)
    : socket_name_("lockstep-hang-" + RandomHex(kSocketNameBytes)),
      names_(std::move(names)),
      logger_(logger) {}

void Survivors::Watch(const std::vector<pid_t>& pids) {
  Forget();
  thread_ = std::jthread([this, pids](const std::stop_token& stop) {
    HangLook before;
    while (!stop.stop_requested()) {
      const Processes processes = FindProcesses(pids);
      HangLook look = AskProcesses(socket_name_, processes.asked, kSurvivorPatience);
      const auto judged = JudgeSurvivors(before, look, processes.catches);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        states_.resize(judged.size(), SurvivorState::kUnknown);
        for (std::size_t i = 0; i < judged.size(); ++i) {
          states_[i] = judged[i].value_or(states_[i]);  // who saves may hold Python's lock
        }
      }
      before = std::move(look);
      SleepUnlessStopped(kLookInterval, stop);
    }
  });
}

void Survivors::Forget() {
  thread_ = std::jthread();
  killed_.clear();
  is_spared_told_ = false;
  const std::lock_guard<std::mutex> lock(mutex_);
  states_.clear();
}

std::vector<SurvivorState> Survivors::states() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return states_;
}

void Survivors::Kill(const std::vector<pid_t>& pids, std::size_t local_rank, const char* why) {
  const pid_t pid = pids[local_rank];
  if (pid != 0 && killed_.insert(pid).second) {
    logger_->Info("process is killed, because the job has lost a rank",
                  {{"process", names_[local_rank]}, {"reason", why}});
    ::kill(-pid, SIGKILL);
  }
}

void Survivors::KillWaiting(const std::vector<pid_t>& pids) {
  const std::vector<SurvivorState> states = this->states();
  for (std::size_t local_rank = 0; local_rank < states.size(); ++local_rank) {
    if (states[local_rank] == SurvivorState::kCalls) {
      Kill(pids, local_rank, "it is in a call of torch.distributed that cannot complete");
    }
  }
}

bool Survivors::SpareWorking(const std::vector<pid_t>& pids) {
  const std::vector<SurvivorState> states = this->states();
  std::vector<std::string> spared;
  for (std::size_t local_rank = 0; local_rank < states.size(); ++local_rank) {
    if (pids[local_rank] != 0 && states[local_rank] == SurvivorState::kWorks) {
      spared.push_back(names_[local_rank]);
    }
  }
  if (spared.empty()) {
    return false;
  }
  for (std::size_t local_rank = 0; local_rank < pids.size(); ++local_rank) {
    if (states[local_rank] != SurvivorState::kWorks) {
      Kill(pids, local_rank, "it did not end in time");
    }
  }
  if (!std::exchange(is_spared_told_, true)) {
    logger_->Info("process may be saving, so it may run until its grace period ends",
                  {{"process", spared.front()}, {"processes", spared.size()}});
  }
  return true;
}

}  // namespace lockstep::runtime
