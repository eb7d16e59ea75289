#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "operator/resources/resource_vector.h"

namespace lockstep::control {

// What pods on one node hold together.
struct NodeUsage {
  ResourceVector resources;
  int64_t pod_count = 0;

  friend bool operator==(const NodeUsage&, const NodeUsage&) = default;
};

// By node name; nodes that nobody uses are left out.
using UsageByNode = std::map<std::string, NodeUsage>;

// Adds, or takes away, one pod.
void AddPod(const std::string& node, const ResourceVector& requests, UsageByNode* usage);
void RemovePod(const std::string& node, const ResourceVector& requests, UsageByNode* usage);

// Adds, or takes away, all of `other`.
void AddUsage(const UsageByNode& other, UsageByNode* usage);
void SubtractUsage(const UsageByNode& other, UsageByNode* usage);

}  // namespace lockstep::control
