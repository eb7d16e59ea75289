#pragma once

#include <map>
#include <string>

#include "operator/kube/objects.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// By node name; nodes that nobody uses are left out.
using Room = std::map<std::string, NodeUse>;

// Adds, or takes away, one pod.
void AddPod(const std::string& node, const kube::ResourceList& requests, Room* room);
void RemovePod(const std::string& node, const kube::ResourceList& requests, Room* room);

// Adds, or takes away, all of `other`.
void AddRoom(const Room& other, Room* room);
void SubtractRoom(const Room& other, Room* room);

}  // namespace lockstep::control
