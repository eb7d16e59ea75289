#pragma once

#include <optional>
#include <vector>

namespace lockstep::runtime {

// From whom each rank gets the bytes of a broadcast, and so who passes them on to whom. Pure: all
// ranks compute the same from who holds the bytes.
//
//   holders      0         1          root 0; 0 and 1 hold the bytes, 2 to 7 lack them
//              /   \     /   \.
//   lack      2     4   3     5       the first ones go round the holders in turn,
//            / \.                     the rest follow two by two below those
//           6   7
class BroadcastTree {
 public:
  // Most ranks that one passes the bytes on to. Choice: two halve what a root's link carries with
  // every level, and a rank's own link carries the bytes once in and at most twice out.
  static constexpr int kChildrenMax = 2;

  // `holds` by rank; true for `root`. `is_flat`: the root sends to all others itself.
  BroadcastTree(const std::vector<bool>& holds, int root, bool is_flat);

  // Empty: `rank` holds the bytes.
  std::optional<int> ParentOf(int rank) const { return parents_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::optional<int>> parents_;
};

}  // namespace lockstep::runtime
