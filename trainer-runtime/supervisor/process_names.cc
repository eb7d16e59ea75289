#include "trainer-runtime/supervisor/process_names.h"

namespace lockstep::runtime {

std::string NameOf(const std::vector<SupervisedProcess>& processes, std::size_t local_rank) {
  const std::optional<int> rank = processes[local_rank].rank;
  return rank.has_value() ? "rank " + std::to_string(*rank)
                          : "process " + std::to_string(local_rank);
}

void BlameRank(const std::optional<RankEnd>& launched, SupervisorEvent* ended) {
  if (!launched.has_value()) {
    return;
  }
  ended->launched = launched;
  ended->exit_code = launched->exit_code;
  ended->signal = launched->signal;
  ended->pid = launched->pid;
}

std::vector<std::string> NamesOf(const std::vector<SupervisedProcess>& processes) {
  std::vector<std::string> names;
  for (std::size_t local_rank = 0; local_rank < processes.size(); ++local_rank) {
    names.push_back(NameOf(processes, local_rank));
  }
  return names;
}

std::string NameOf(const std::vector<SupervisedProcess>& processes, const SupervisorEvent& ended) {
  return ended.launched.has_value() && ended.launched->rank.has_value()
             ? "rank " + std::to_string(*ended.launched->rank)
             : NameOf(processes, static_cast<std::size_t>(ended.local_rank));
}

}  // namespace lockstep::runtime
