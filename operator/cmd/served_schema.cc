#include "operator/cmd/served_schema.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/plural.h"
#include "operator/api/definitions.h"
#include "operator/api/job/training_job.h"
#include "operator/api/queue/training_queue.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

constexpr const char* kGroup = "lockstep.dev";
constexpr const char* kKeepsAll = "x-kubernetes-preserve-unknown-fields";
constexpr const char* kKinds = "x-kubernetes-group-version-kind";
constexpr std::size_t kNamedMax = 8;  // choice: a line or two of fields

Json OwnSchema(std::string_view definition) {
  const YamlStream stream = ReadYaml(definition);
  LOCKSTEP_CHECK(stream.problems.empty() && stream.documents.size() == 1,
                 "the compiled-in definition is not one YAML document");
  return stream.documents[0].value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
}

// The member of an object; null where there is none.
const Json* MemberOf(const Json& value, const std::string& name) {
  const auto found = value.is_object() ? value.find(name) : value.end();
  return value.is_object() && found != value.end() ? &*found : nullptr;
}

bool KeepsAll(const Json& schema) {
  const Json* const flag = MemberOf(schema, kKeepsAll);
  return flag != nullptr && *flag == true;
}

// Adds what is in `own` and would be dropped by `served`, whatever stands below it.
void Compare(const Json& own,
             const Json& served,
             const std::string& path,
             std::vector<std::string>* missing) {
  if (KeepsAll(served)) {
    return;
  }
  if (KeepsAll(own)) {
    missing->push_back(path + ".*");
    return;
  }
  if (const Json* const items = MemberOf(own, "items")) {
    const Json* const theirs = MemberOf(served, "items");
    Compare(*items, theirs == nullptr ? Json::object() : *theirs, path + "[]", missing);
  }
  if (const Json* const values = MemberOf(own, "additionalProperties"); values != nullptr) {
    const Json* const theirs = MemberOf(served, "additionalProperties");
    if (theirs == nullptr) {
      missing->push_back(path + ".*");
    } else if (values->is_object()) {
      Compare(*values, *theirs, path + ".*", missing);
    }
  }
  const Json* const properties = MemberOf(own, "properties");
  if (properties == nullptr) {
    return;
  }
  const Json* const theirs = MemberOf(served, "properties");
  for (const auto& [name, property] : properties->items()) {
    const std::string field = path + "." + name;
    const Json* const known = theirs == nullptr ? nullptr : MemberOf(*theirs, name);
    if (known == nullptr) {
      missing->push_back(field);
    } else {
      Compare(property, *known, field, missing);
    }
  }
}

bool IsSchemaOf(const Json& schema, const std::string& kind) {
  const Json* const names = MemberOf(schema, kKinds);
  return names != nullptr && names->is_array() &&
         std::any_of(names->begin(), names->end(), [&](const Json& name) {
           const Json* const group = MemberOf(name, "group");
           const Json* const own = MemberOf(name, "kind");
           return group != nullptr && *group == kGroup && own != nullptr && *own == kind;
         });
}

}  // namespace

ServedSchema::ServedSchema()
    : own_{{std::string(kTrainingJobKind), OwnSchema(JobDefinitionText())},
           {std::string(kTrainingQueueKind), OwnSchema(QueueDefinitionText())}} {}

kube::Request ServedSchema::Ask() {
  kube::Request request;
  request.resource = kube::kTrainingJobs;
  request.method = "GET";
  request.target = "/openapi/v3/apis/lockstep.dev/v1";
  return request;
}

Result<std::vector<ServedKind>> ServedSchema::Judge(const kube::CallResult& answer) const {
  const auto* const reply = std::get_if<kube::Reply>(&answer);
  if (reply == nullptr || reply->status == kube::kHttpNotFound) {
    return Error(ErrorCode::kUnavailable, "the API server has no schema of lockstep.dev/v1");
  }
  if (!reply->is_success()) {
    return kube::ToError(answer);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Json document, ParseJson(reply->body));
  const Json* const components = MemberOf(document, "components");
  const Json* const schemas = components == nullptr ? nullptr : MemberOf(*components, "schemas");
  if (schemas == nullptr || !schemas->is_object()) {
    return Error(ErrorCode::kInvalidArgument,
                 "the API server's schema of lockstep.dev/v1 has no components.schemas");
  }
  std::vector<ServedKind> kinds;
  for (const auto& [kind, own] : own_) {
    for (const auto& [name, served] : schemas->items()) {
      if (!IsSchemaOf(served, kind) || MemberOf(served, "properties") == nullptr) {
        continue;
      }
      ServedKind found{kind, {}};
      for (const char* const part : {"spec", "status"}) {
        const Json* const theirs = MemberOf(served["properties"], part);
        Compare(own["properties"][part],
                theirs == nullptr ? Json::object() : *theirs,
                part,
                &found.missing);
      }
      kinds.push_back(std::move(found));
      break;
    }
  }
  return kinds;
}

std::string DescribeMissing(const std::vector<ServedKind>& kinds) {
  std::string text;
  for (const ServedKind& kind : kinds) {
    if (kind.missing.empty()) {
      continue;
    }
    text += (text.empty() ? "" : "; ") + kind.kind + " lacks ";
    const std::size_t named = std::min(kNamedMax, kind.missing.size());
    for (std::size_t i = 0; i < named; ++i) {
      text += (i == 0 ? "" : ", ") + kind.missing[i];
    }
    if (named < kind.missing.size()) {
      text += " and " + Plural(static_cast<int64_t>(kind.missing.size() - named), "more field");
    }
  }
  return text.empty() ? ""
                      : "the CRDs in the cluster are older than this operator, and the API server "
                        "drops the fields that these CRDs lack: " +
                            text +
                            "; apply the CRDs of this release: helm upgrade, or kubectl apply "
                            "--server-side -f crds/";
}

}  // namespace lockstep::control
