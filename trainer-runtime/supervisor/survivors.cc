#include "trainer-runtime/supervisor/survivors.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <stop_token>
#include <utility>

#include "common/base/digest.h"
#include "trainer-runtime/supervisor/process_table.h"

namespace lockstep::runtime {
namespace {

// Between two looks. Choice: a collective of ranks that are all there is done by then, or another
// one is called.
constexpr std::chrono::milliseconds kLookInterval{300};

constexpr std::size_t kSocketNameBytes = 16;

bool Waits(const RankEvidence& rank) {
  return std::any_of(rank.groups.begin(), rank.groups.end(), [](const GroupCalls& group) {
    return group.waits_in > 0;
  });
}

struct Processes {
  std::vector<std::vector<pid_t>> families;  // by local rank
  std::vector<bool> catches;                 // SIGTERM
};

Processes FindProcesses(const std::vector<pid_t>& pids) {
  const std::vector<ProcessStat> table = ReadProcessTable("/proc");
  Processes found;
  for (const pid_t pid : pids) {
    found.families.emplace_back();
    found.catches.push_back(false);
    if (pid == 0) {
      continue;  // everybody descends from there
    }
    for (const ProcessStat& stat : FamilyOf(table, pid)) {
      found.families.back().push_back(stat.pid);
      found.catches.back() = found.catches.back() || Handles(stat, SIGTERM);
    }
  }
  return found;
}

void Sleep(Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock<std::mutex> lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, duration, [] { return false; });
}

}  // namespace

std::vector<SurvivorState> JudgeSurvivors(const HangLook& first,
                                          const HangLook& second,
                                          const std::vector<bool>& catches) {
  std::vector<int> waiting(catches.size());  // ranks, by local rank
  std::vector<int> others(catches.size());
  for (const RankEvidence& rank : CompareLooks(first.ranks, second.ranks)) {
    const auto found = second.local_ranks.find(rank.rank);
    if (found != second.local_ranks.end()) {
      ++(Waits(rank) && !rank.is_moving ? waiting
                                        : others)[static_cast<std::size_t>(found->second)];
    }
  }
  std::vector<SurvivorState> states;
  for (std::size_t i = 0; i < catches.size(); ++i) {
    const bool works = others[i] > 0 && catches[i];
    const bool waits = others[i] == 0 && waiting[i] > 0;
    states.push_back(works   ? SurvivorState::kWorks
                     : waits ? SurvivorState::kWaits
                             : SurvivorState::kUnknown);
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
      HangLook look = AskProcesses(socket_name_, processes.families);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        states_ = JudgeSurvivors(before, look, processes.catches);
      }
      before = std::move(look);
      Sleep(kLookInterval, stop);
    }
  });
}

void Survivors::Forget() {
  thread_ = std::jthread();
  killed_.clear();
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
    if (states[local_rank] == SurvivorState::kWaits) {
      Kill(pids, local_rank, "it waits in a collective that cannot complete");
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
      Kill(pids, local_rank, "its time to end is over");
    }
  }
  logger_->Info("process may be saving and gets its grace period",
                {{"process", spared.front()}, {"processes", spared.size()}});
  return true;
}

}  // namespace lockstep::runtime
