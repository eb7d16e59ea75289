#include "trainer-runtime/collectives/tcp/broadcast_tree.h"

#include <cstddef>

namespace lockstep::runtime {

BroadcastTree::BroadcastTree(const std::vector<bool>& holds, int root, bool is_flat)
    : parents_(holds.size()) {
  std::vector<int> holders;
  std::vector<int> lacking;
  for (std::size_t step = 0; step < holds.size(); ++step) {
    // From the root on, so that different roots load different ranks.
    const std::size_t rank = (static_cast<std::size_t>(root) + step) % holds.size();
    (holds[rank] ? holders : lacking).push_back(static_cast<int>(rank));
  }
  const std::size_t first_row = is_flat ? lacking.size() : kChildrenMax * holders.size();
  for (std::size_t place = 0; place < lacking.size(); ++place) {
    const int parent = is_flat             ? root
                       : place < first_row ? holders[place % holders.size()]
                                           : lacking[(place - first_row) / kChildrenMax];
    parents_[static_cast<std::size_t>(lacking[place])] = parent;
  }
}

}  // namespace lockstep::runtime
