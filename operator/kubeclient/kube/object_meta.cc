#include "operator/kubeclient/kube/object_meta.h"

#include <utility>

#include "common/base/rfc3339.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control::kube {
namespace {

using scan::Value;

// Of "lockstep.dev/v1": kinds of other groups may be called alike.
constexpr std::string_view kJobKind = "TrainingJob";

bool IsOfJobs(std::string_view api_version, std::string_view kind) {
  return kind == kJobKind && api_version.substr(0, api_version.find('/')) == kTrainingJobs.group;
}

void ReadController(Value owners, ObjectMeta* meta) {
  scan::ForEachElement(owners, [&](Value owner) {
    std::string uid;
    std::string name;
    std::string kind;
    std::string api_version;
    bool is_controller = false;
    scan::ForEachField(owner, [&](std::string_view key, Value value) {
      if (key == "uid") {
        uid = std::string(scan::Text(value));
      } else if (key == "name") {
        name = std::string(scan::Text(value));
      } else if (key == "kind") {
        kind = std::string(scan::Text(value));
      } else if (key == "apiVersion") {
        api_version = std::string(scan::Text(value));
      } else if (key == "controller") {
        is_controller = scan::Flag(value);
      }
    });
    if (is_controller) {
      meta->owner_uid = std::move(uid);
      meta->owner_job = IsOfJobs(api_version, kind) ? std::move(name) : std::string();
    }
  });
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
      ReadController(value, &meta);
    } else if (key == "finalizers") {
      scan::ForEachElement(
          value, [&](Value finalizer) { meta.finalizers.emplace_back(scan::Text(finalizer)); });
    } else if (key == "deletionTimestamp") {
      meta.is_deleting = !scan::Text(value).empty();
      meta.deletion_due = ParseRfc3339(std::string(scan::Text(value)));
    } else if (key == "deletionGracePeriodSeconds") {
      meta.deletion_grace = std::chrono::seconds(scan::Integer(value));
    } else if (key == "managedFields") {
      meta.managed_fields = scan::RawList(value);
    }
  });
  return meta;
}

}  // namespace lockstep::control::kube
