#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kubeclient/kube/item.h"
#include "operator/kubeclient/kube/json_scan.h"

// For the decoders of this folder.
namespace lockstep::control::kube {

// Labels and annotations of pods that are kept: ours. What others write there can be large.
inline constexpr std::string_view kOurPrefix = "lockstep.dev/";

// What all objects have in common.
struct ObjectMeta {
  ObjectKey key;
  std::string uid;
  std::string resource_version;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;  // ours only
  std::string owner_uid;                           // of the controller; empty: none
  std::string owner_job;  // its name, where it is a TrainingJob; else empty
  std::vector<std::string> finalizers;
  bool is_deleting = false;
  std::optional<std::chrono::seconds> deletion_grace;
  std::optional<WallTime> deletion_due;  // when the grace of the deletion is over
  std::string_view managed_fields;       // as they stand in the document, while that is open
};

// Keeps the labels that begin with `label_prefix`. Throws scan::Problem.
ObjectMeta ReadObjectMeta(scan::Value metadata, std::string_view label_prefix);

// Puts together what one decoder read.
template <typename T>
Result<Item<T>> MakeItem(const Status& scanned, ObjectMeta meta, T object) {
  if (!scanned.ok()) {
    return scanned.error();
  }
  if (meta.key.name.empty()) {
    return Error(ErrorCode::kCorrupt, "is missing").WithField("metadata.name");
  }
  return Item<T>{std::move(meta.key),
                 std::move(meta.uid),
                 std::move(meta.resource_version),
                 std::make_shared<const T>(std::move(object))};
}

}  // namespace lockstep::control::kube
