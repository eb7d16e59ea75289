#pragma once

#include <map>
#include <string>

#include "operator/kube/objects.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// By node name; nodes that nobody uses are left out.
using UsageByNode = std::map<std::string, NodeUse>;

// Adds, or takes away, one pod.
void AddPod(const std::string& node, const kube::ResourceList& requests, UsageByNode* room);
void RemovePod(const std::string& node, const kube::ResourceList& requests, UsageByNode* room);

// Adds, or takes away, all of `other`.
void AddUsage(const UsageByNode& other, UsageByNode* room);
void SubtractUsage(const UsageByNode& other, UsageByNode* room);

}  // namespace lockstep::control
