#include "operator/resources/node_usage.h"

namespace lockstep::control {
namespace {

// No pod counts for more: sums of what a node's pods ask for then never reach the largest number,
// where nothing could be taken away again. Choice: above any machine, and 8,000 of them fit.
constexpr int64_t kAmountMax = int64_t{1} << 50;

void Change(const std::string& node,
            const ResourceVector& resources,
            int64_t pod_count,
            UsageByNode* usage) {
  const auto entry = usage->try_emplace(node).first;
  entry->second.resources = Sum(entry->second.resources, resources);
  entry->second.pod_count += pod_count;
  if (entry->second == NodeUsage{}) {
    usage->erase(entry);
  }
}

}  // namespace

void AddPod(const std::string& node, const ResourceVector& requests, UsageByNode* usage) {
  Change(node, Capped(requests, kAmountMax), 1, usage);
}

void RemovePod(const std::string& node, const ResourceVector& requests, UsageByNode* usage) {
  Change(node, Times(Capped(requests, kAmountMax), -1), -1, usage);
}

void AddUsage(const UsageByNode& other, UsageByNode* usage) {
  for (const auto& [node, use] : other) {
    Change(node, use.resources, use.pod_count, usage);
  }
}

void SubtractUsage(const UsageByNode& other, UsageByNode* usage) {
  for (const auto& [node, use] : other) {
    Change(node, Times(use.resources, -1), -use.pod_count, usage);
  }
}

}  // namespace lockstep::control
