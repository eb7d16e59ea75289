#include "operator/reconcile/pods/node_tie.h"

#include <cstddef>

#include "operator/api/fields/json_edit.h"
#include "operator/reconcile/gang/queue.h"

namespace lockstep::control {
namespace {

Json NameField(const char* op, const std::string& node) {
  return {{"key", "metadata.name"}, {"operator", op}, {"values", Json::array({node})}};
}

// Affinity terms are alternatives: each must have the fields. One that is empty matches no node at
// all, and stays so.
void Require(const Json& fields, Json* spec) {
  constexpr const char* kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
  Json* const node_affinity = ObjectAt(ObjectAt(spec, "affinity"), "nodeAffinity");
  if (node_affinity == nullptr) {
    return;
  }
  if (FindField(*node_affinity, kRequired) == nullptr) {
    const Json term = {{"matchFields", fields}};
    (*node_affinity)[kRequired] = {{"nodeSelectorTerms", Json::array({term})}};
    return;
  }
  Json* const terms = ListAt(ObjectAt(node_affinity, kRequired), "nodeSelectorTerms");
  for (std::size_t i = 0; terms != nullptr && i < terms->size(); ++i) {
    Json& term = (*terms)[i];
    if (!term.is_object() || term.empty()) {
      continue;
    }
    MakeRoom(&term, 1);
    if (Json* const own = ListAt(&term, "matchFields")) {
      own->insert(own->end(), fields.begin(), fields.end());
    }
  }
}

}  // namespace

void PinToNode(const std::string& node, Json* spec) {
  Require(Json::array({NameField("In", node)}), spec);
}

void KeepFromNodes(const std::vector<std::string>& nodes, Json* spec) {
  Json fields = Json::array();  // of one name each, as the API server wants them
  for (const std::string& node : nodes) {
    fields.push_back(NameField("NotIn", node));
  }
  if (!fields.empty()) {
    Require(fields, spec);
  }
}

void GiveGroupsPriority(const TrainingJob& job, Json* pod_spec) {
  pod_spec->erase("priorityClassName");
  if (std::string name = PriorityClassOf(job.spec, job.status); !name.empty()) {
    (*pod_spec)["priorityClassName"] = std::move(name);
  }
}

}  // namespace lockstep::control
