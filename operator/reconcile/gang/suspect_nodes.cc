#include "operator/reconcile/gang/suspect_nodes.h"

#include <algorithm>

namespace lockstep::control {
namespace {

std::chrono::minutes SuspicionTime(int64_t count) {
  std::chrono::minutes time = kSuspicionMin;
  for (int64_t i = 1; i < count && time < kSuspicionMax; ++i) {
    time *= 2;
  }
  return std::min(time, kSuspicionMax);
}

}  // namespace

std::vector<SuspectNode> WithSuspect(std::vector<SuspectNode> suspects,
                                     const std::string& node,
                                     const std::string& reason,
                                     WallTime now) {
  std::erase_if(suspects, [&](const SuspectNode& one) { return one.until + kSuspicionMax < now; });
  auto known = std::find_if(
      suspects.begin(), suspects.end(), [&](const SuspectNode& one) { return one.node == node; });
  if (known == suspects.end()) {
    known = suspects.insert(suspects.end(), {node, "", 0, {}});
  }
  known->reason = reason;
  ++known->count;
  known->until = now + SuspicionTime(known->count);
  if (suspects.size() > kSuspectNodesMax) {
    suspects.erase(std::min_element(
        suspects.begin(), suspects.end() - 1, [](const SuspectNode& a, const SuspectNode& b) {
          return a.until < b.until;
        }));
  }
  std::sort(suspects.begin(), suspects.end(), [](const SuspectNode& a, const SuspectNode& b) {
    return a.node < b.node;
  });
  return suspects;
}

std::vector<SuspectNode> WithoutNodes(std::vector<SuspectNode> suspects,
                                      const std::set<std::string>& proved) {
  std::erase_if(suspects, [&](const SuspectNode& one) { return proved.count(one.node) > 0; });
  return suspects;
}

int64_t SuspicionOf(const std::vector<SuspectNode>& suspects,
                    const std::string& node,
                    WallTime now) {
  const auto known = std::find_if(suspects.begin(), suspects.end(), [&](const SuspectNode& one) {
    return one.node == node && now < one.until;
  });
  return known == suspects.end() ? 0 : known->count;
}

}  // namespace lockstep::control
