#include "operator/kube/object_meta.h"

#include "common/base/rfc3339.h"

namespace lockstep::control::kube {
namespace {

using scan::Value;

std::string ReadControllerUid(Value owners) {
  std::string controller;
  scan::ForEachElement(owners, [&](Value owner) {
    std::string uid;
    bool is_controller = false;
    scan::ForEachField(owner, [&](std::string_view key, Value value) {
      if (key == "uid") {
        uid = std::string(scan::Text(value));
      } else if (key == "controller") {
        is_controller = scan::Flag(value);
      }
    });
    if (is_controller) {
      controller = std::move(uid);
    }
  });
  return controller;
}

}  // namespace

ObjectMeta ReadObjectMeta(Value metadata, std::string_view label_prefix) {
  ObjectMeta meta;
  scan::ForEachField(metadata, [&](std::string_view key, Value value) {
    if (key == "name") {
      meta.key.name = std::string(scan::Text(value));
    } else if (key == "namespace") {
      meta.key.namespace_name = std::string(scan::Text(value));
    } else if (key == "uid") {
      meta.uid = std::string(scan::Text(value));
    } else if (key == "resourceVersion") {
      meta.resource_version = std::string(scan::Text(value));
    } else if (key == "labels") {
      meta.labels = scan::TextMap(value, label_prefix);
    } else if (key == "annotations") {
      meta.annotations = scan::TextMap(value, kOurPrefix);
    } else if (key == "ownerReferences") {
      meta.owner_uid = ReadControllerUid(value);
    } else if (key == "finalizers") {
      scan::ForEachElement(
          value, [&](Value finalizer) { meta.finalizers.emplace_back(scan::Text(finalizer)); });
    } else if (key == "deletionTimestamp") {
      meta.is_deleting = !scan::Text(value).empty();
      meta.deletion_due = ParseRfc3339(std::string(scan::Text(value)));
    } else if (key == "managedFields") {
      meta.managed_fields = scan::RawList(value);
    }
  });
  return meta;
}

}  // namespace lockstep::control::kube
