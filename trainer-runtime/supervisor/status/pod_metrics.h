#pragma once

#include <string>
#include <vector>

namespace lockstep::runtime {

// One page of Prometheus' text format from those of a pod's processes, by local rank: each family
// once, each sample with the label `local_rank`; of one process the page as it is. An empty page is
// that of a process that has told none. Pages are those of Metrics::RenderText: every family begins
// with its HELP line. Pure.
std::string JoinMetricsPages(const std::vector<std::string>& pages);

}  // namespace lockstep::runtime
