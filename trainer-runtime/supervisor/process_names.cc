#include "trainer-runtime/supervisor/process_names.h"

namespace lockstep::runtime {

std::string NameOf(const std::vector<SupervisedProcess>& processes, std::size_t local_rank) {
  const std::optional<int> rank = processes[local_rank].rank;
  return rank.has_value() ? "rank " + std::to_string(*rank)
                          : "process " + std::to_string(local_rank);
}

std::vector<std::string> NamesOf(const std::vector<SupervisedProcess>& processes) {
  std::vector<std::string> names;
  for (std::size_t local_rank = 0; local_rank < processes.size(); ++local_rank) {
    names.push_back(NameOf(processes, local_rank));
  }
  return names;
}

}  // namespace lockstep::runtime
