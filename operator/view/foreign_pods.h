#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/result.h"
#include "operator/kube/decode.h"
#include "operator/kube/reflector.h"
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

  const UsageByNode& room() const { return room_; }

  std::size_t size() const { return pods_.size(); }

 private:
  struct Entry {
    const std::string* node = nullptr;  // the key in room_, which stays while the pod counts
    ResourceVector requests;
  };

  bool Put(const kube::Item<PodUse>& item);
  bool Remove(const std::string& uid);

  std::unordered_map<std::string, Entry> pods_;  // by uid; never iterated into a decision
  UsageByNode room_;
};

}  // namespace lockstep::control
