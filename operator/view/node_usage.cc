#include "operator/view/node_usage.h"

namespace lockstep::control {
namespace {

void Add(const NodeUse& use, int sign, NodeUse* sum) {
  sum->resources.cpu_milli += sign * use.resources.cpu_milli;
  sum->resources.memory_bytes += sign * use.resources.memory_bytes;
  sum->resources.gpu_count += sign * use.resources.gpu_count;
  sum->pod_count += sign * use.pod_count;
}

void Change(const std::string& node, const NodeUse& use, int sign, UsageByNode* room) {
  const auto entry = room->try_emplace(node).first;
  Add(use, sign, &entry->second);
  if (entry->second == NodeUse{}) {
    room->erase(entry);
  }
}

}  // namespace

void AddPod(const std::string& node, const kube::ResourceList& requests, UsageByNode* room) {
  Change(node, {requests, 1}, 1, room);
}

void RemovePod(const std::string& node, const kube::ResourceList& requests, UsageByNode* room) {
  Change(node, {requests, 1}, -1, room);
}

void AddUsage(const UsageByNode& other, UsageByNode* room) {
  for (const auto& [node, use] : other) {
    Change(node, use, 1, room);
  }
}

void SubtractUsage(const UsageByNode& other, UsageByNode* room) {
  for (const auto& [node, use] : other) {
    Change(node, use, -1, room);
  }
}

}  // namespace lockstep::control
