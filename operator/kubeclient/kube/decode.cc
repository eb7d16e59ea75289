#include "operator/kubeclient/kube/decode.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/json/json.h"
#include "operator/kubeclient/kube/json_scan.h"
#include "operator/kubeclient/kube/object_meta.h"
#include "operator/kubeclient/kube/resources.h"

namespace lockstep::control::kube {
namespace {

using scan::Value;

// Of the metadata, what no user chooses, or what the API server has checked.
constexpr std::array<std::string_view, 6> kOwnTexts = {
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"};

std::vector<Taint> ReadTaints(Value value) {
  std::vector<Taint> taints;
  scan::ForEachElement(value, [&](Value element) {
    Taint taint;
    scan::ForEachField(element, [&](std::string_view key, Value text) {
      if (key == "key") {
        taint.key = std::string(scan::Text(text));
      } else if (key == "value") {
        taint.value = std::string(scan::Text(text));
      } else if (key == "effect") {
        taint.effect = std::string(scan::Text(text));
      }
    });
    taints.push_back(std::move(taint));
  });
  return taints;
}

bool ReadIsReady(Value conditions) {
  bool is_ready = false;
  scan::ForEachElement(conditions, [&](Value condition) {
    bool is_ready_type = false;
    bool is_true = false;
    scan::ForEachField(condition, [&](std::string_view key, Value value) {
      if (key == "type") {
        is_ready_type = scan::Text(value) == "Ready";
      } else if (key == "status") {
        is_true = scan::Text(value) == "True";
      }
    });
    is_ready = is_ready || (is_ready_type && is_true);
  });
  return is_ready;
}

void ReadNodeSpec(Value spec, bool* is_cordoned, Node* node) {
  scan::ForEachField(spec, [&](std::string_view key, Value value) {
    if (key == "unschedulable") {
      *is_cordoned = scan::Flag(value);
    } else if (key == "taints") {
      node->taints = ReadTaints(value);
    }
  });
}

void ReadServiceSpec(Value spec, Service* service) {
  scan::ForEachField(spec, [&](std::string_view key, Value value) {
    if (key == "clusterIP") {
      service->is_headless = scan::Text(value) == "None";
    } else if (key == "publishNotReadyAddresses") {
      service->publishes_not_ready = scan::Flag(value);
    } else if (key == "selector") {
      service->selector = scan::TextMap(value);
    }
  });
}

}  // namespace

Result<Item<Node>> DecodeNode(std::string_view json) {
  ObjectMeta meta;
  Node node;
  bool is_cordoned = false;
  bool is_ready = false;
  const Status scanned = scan::ScanObject(json, [&](std::string_view key, Value value) {
    if (key == "metadata") {
      meta = ReadObjectMeta(value, "");
    } else if (key == "spec") {
      ReadNodeSpec(value, &is_cordoned, &node);
    } else if (key == "status") {
      scan::ForEachField(value, [&](std::string_view name, Value field) {
        if (name == "allocatable") {
          node.allocatable = ReadResourceVector(field, &node.pod_count_max);
        } else if (name == "conditions") {
          is_ready = ReadIsReady(field);
        }
      });
    }
  });
  node.name = meta.key.name;
  node.labels = std::move(meta.labels);
  node.is_ready = is_ready;
  node.is_schedulable = is_ready && !is_cordoned;
  return MakeItem(scanned, std::move(meta), std::move(node));
}

Result<Item<Service>> DecodeService(std::string_view json) {
  ObjectMeta meta;
  Service service;
  const Status scanned = scan::ScanObject(json, [&](std::string_view key, Value value) {
    if (key == "metadata") {
      meta = ReadObjectMeta(value, kOurPrefix);
    } else if (key == "spec") {
      ReadServiceSpec(value, &service);
    }
  });
  service.owner_uid = meta.owner_uid;
  service.owner_job = std::move(meta.owner_job);
  return MakeItem(scanned, std::move(meta), std::move(service));
}

Result<Item<RawObject>> DecodeRaw(std::string_view json) {
  ObjectMeta meta;
  std::size_t cut_begin = 0;
  std::size_t cut_size = 0;
  const Status scanned = scan::ScanObject(json, [&](std::string_view key, Value value) {
    if (key != "metadata") {
      return;
    }
    meta = ReadObjectMeta(value, kOurPrefix);
    if (!meta.managed_fields.empty()) {  // a view into a copy of `json`
      cut_begin = json.find(meta.managed_fields);
      cut_size = meta.managed_fields.size();
    }
  });
  RawObject object{std::string(json.substr(0, cut_begin))};
  object.json += cut_size == 0 ? "" : "[]";
  object.json += json.substr(cut_begin + cut_size);
  return MakeItem(scanned, std::move(meta), std::move(object));
}

Result<std::string> WithoutUsersFields(std::string_view json) {
  Json kept = Json::object();
  std::string status;
  const auto keep_text = [](std::string_view key, Value value, Json* fields) {
    (*fields)[std::string(key)] = std::string(scan::Text(value));
  };
  LOCKSTEP_RETURN_IF_ERROR(scan::ScanObject(json, [&](std::string_view key, Value value) {
    if (key == "apiVersion" || key == "kind") {
      keep_text(key, value, &kept);
    } else if (key == "status") {
      status = std::string(scan::RawObject(value));
    } else if (key == "metadata") {
      Json& metadata = kept["metadata"] = Json::object();
      scan::ForEachField(value, [&](std::string_view field, Value one) {
        if (field == "generation") {
          metadata["generation"] = scan::Integer(one);
        } else if (field == "finalizers") {
          Json& finalizers = metadata["finalizers"] = Json::array();
          scan::ForEachElement(
              one, [&](Value text) { finalizers.push_back(std::string(scan::Text(text))); });
        } else if (std::find(kOwnTexts.begin(), kOwnTexts.end(), field) != kOwnTexts.end()) {
          keep_text(field, one, &metadata);
        }
      });
    }
  }));
  std::string text = DumpJson(kept);
  if (!status.empty()) {
    text.pop_back();  // the brace
    text += ",\"status\":" + status + "}";
  }
  return text;
}

}  // namespace lockstep::control::kube
