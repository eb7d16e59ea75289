#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/base/copy_on_write.h"
#include "common/base/result.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/kubeclient/kube/reflector.h"
#include "operator/resources/node_usage.h"

namespace lockstep::control {

// All that matters of a pod that is not ours: what it holds, and where.
struct PodUse {
  std::string node;  // empty: not bound yet
  ResourceVector requests;
  bool has_ended = false;
};

// For the reflector of foreign pods. Errors: as kube::DecodePod.
Result<kube::Item<PodUse>> DecodePodUse(std::string_view json);

// What pods that are not ours hold, by node. Clusters have ten thousands of them and we never
// write one, so neither names nor versions are kept: about 150 bytes a pod.
class ForeignPods {
 public:
  ForeignPods() = default;
  ForeignPods(const ForeignPods&) = delete;  // entries point into it
  ForeignPods& operator=(const ForeignPods&) = delete;

  // Returns whether room became free.
  bool Apply(const kube::ObjectUpdate<PodUse>& update);

  const CopyOnWrite<UsageByNode>& room() const { return room_; }

  // Nodes of which they may hold something else than when this was asked last.
  std::set<std::string> TakeChanged() { return std::exchange(changed_, {}); }

  std::size_t size() const { return pods_.size(); }

 private:
  struct Entry {
    const std::string* node = nullptr;  // one of names_
    ResourceVector requests;
  };

  bool Put(const kube::Item<PodUse>& item);
  bool Remove(const std::string& uid);

  std::unordered_map<std::string, Entry> pods_;  // by uid; never iterated into a decision
  CopyOnWrite<UsageByNode> room_;
  std::set<std::string> names_;  // of nodes that have, or had, such pods
  std::set<std::string> changed_;
};

}  // namespace lockstep::control
