#include "operator/cli/schema/job_schema.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "operator/api/definitions.h"
#include "operator/api/queue/training_queue.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

// Names that are told when a field is not there. Choice: as many as fit a line or two.
constexpr std::size_t kNearestMax = 5;

// The object schema that holds the fields below `schema`: the elements' where it is a list.
const Json& ElementsOf(const Json& schema) {
  const Json* at = &schema;
  while (at->contains("items")) {
    at = &(*at)["items"];
  }
  return *at;
}

const Json* FieldOf(const Json& schema, const std::string& name) {
  const Json& object = ElementsOf(schema);
  if (object.contains("properties") && object["properties"].contains(name)) {
    return &object["properties"][name];
  }
  if (object.contains("additionalProperties") && object["additionalProperties"].is_object()) {
    return &object["additionalProperties"];
  }
  return nullptr;
}

// The paths of all fields below `schema`, by their last name.
void CollectFields(const Json& schema,
                   const std::string& path,
                   std::map<std::string, std::vector<std::string>, std::less<>>* by_name) {
  const Json& object = ElementsOf(schema);
  if (!object.contains("properties")) {
    return;
  }
  for (const auto& [key, property] : object["properties"].items()) {
    const std::string here = path.empty() ? key : path + "." + key;
    (*by_name)[key].push_back(here);
    CollectFields(property, here, by_name);
  }
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

FieldPath WithoutElements(const FieldPath& path) {
  FieldPath fields;
  for (const FieldStep& step : path) {
    if (step.kind == FieldStep::Kind::kField) {
      fields.push_back(step);
    }
  }
  return fields;
}

// A definition may say nothing of metadata beyond the name; these are every object's, and read
// from manifests.
void AddMetadata(Json* root) {
  constexpr const char* kFields = R"({
    "generateName": {"type": "string",
                     "description": "Prefix of the name; the API server adds the rest."},
    "namespace": {"type": "string", "description": "Namespace of the job and its pods."},
    "labels": {"type": "object", "additionalProperties": {"type": "string"},
               "description": "Labels of the job. Selectors can use labels."},
    "annotations": {"type": "object", "additionalProperties": {"type": "string"},
                    "description": "Annotations of the job. Selectors cannot use annotations."}})";
  (*root)["properties"]["metadata"]["properties"].update(ParseJson(kFields).value());
}

}  // namespace

bool IsOpaqueSchema(const Json& schema) {
  return schema.contains("x-kubernetes-preserve-unknown-fields");
}

std::string SchemaTypeText(const Json& schema) {
  if (schema.contains("items")) {
    return "[]" + SchemaTypeText(schema["items"]);
  }
  if (schema.contains("additionalProperties") && schema["additionalProperties"].is_object()) {
    return "map of " + SchemaTypeText(schema["additionalProperties"]);
  }
  if (schema.contains("type")) {
    return schema["type"].get<std::string>();
  }
  // What the definition cannot give a type: a number, or a list with one for each direction.
  return schema.contains("minItems") ? "integer or []integer" : "integer or string";
}

JobSchema::JobSchema(std::string_view kind) : kind_(kind) {
  const bool is_of_jobs = kind_ == kTrainingJobKind;
  LOCKSTEP_CHECK(is_of_jobs || kind_ == kTrainingQueueKind, kind_);
  const YamlStream stream = ReadYaml(is_of_jobs ? JobDefinitionText() : QueueDefinitionText());
  LOCKSTEP_CHECK(stream.problems.empty() && stream.documents.size() == 1,
                 "the compiled-in definition is not one YAML document");
  root_ = stream.documents[0].value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
  if (is_of_jobs) {
    AddMetadata(&root_);
  }
}

Result<const Json*> JobSchema::Find(FieldPath* path) const {
  FieldPath fields = WithoutElements(*path);
  const bool is_whole = fields.empty() || root_["properties"].contains(fields.front().name);
  if (!is_whole && root_["properties"]["spec"]["properties"].contains(fields.front().name)) {
    fields.insert(fields.begin(), {FieldStep::Kind::kField, "spec"});
    path->insert(path->begin(), {FieldStep::Kind::kField, "spec"});
  }
  const Json* schema = &root_;
  FieldPath found;
  for (const FieldStep& step : fields) {
    const Json* const next = FieldOf(*schema, step.name);
    if (next == nullptr && IsOpaqueSchema(ElementsOf(*schema))) {
      return &ElementsOf(*schema);
    }
    if (next == nullptr) {
      return Unknown(found, *schema, step.name);
    }
    schema = next;
    found.push_back(step);
  }
  return schema;
}

Error JobSchema::Unknown(const FieldPath& found,
                         const Json& deepest,
                         const std::string& name) const {
  std::vector<std::string> fields;
  std::vector<std::string_view> words;
  const Json& object = ElementsOf(deepest);
  if (object.contains("properties")) {
    for (const auto& [key, property] : object["properties"].items()) {
      fields.push_back(key);
    }
  }
  words.assign(fields.begin(), fields.end());
  const std::string where = FormatFieldPath(found);
  std::vector<std::string> nearest;
  if (const std::string_view near = NearestWord(name, words); !near.empty()) {
    nearest.push_back((where.empty() ? "" : where + ".") + std::string(near));
  }
  for (std::string& elsewhere : FieldsLike(name)) {
    if (std::find(nearest.begin(), nearest.end(), elsewhere) == nearest.end()) {
      nearest.push_back(std::move(elsewhere));
    }
  }
  nearest.resize(std::min(nearest.size(), kNearestMax));
  const std::string owner = where.empty() ? "a " + kind_ : where;
  return Error(ErrorCode::kNotFound,
               "no such field; " +
                   (nearest.empty() ? "" : "did you mean " + Joined(nearest) + "? ") + owner +
                   (fields.empty() ? " has no fields, its type is " + SchemaTypeText(deepest)
                                   : " has " + Joined(fields)))
      .WithField((where.empty() ? "" : where + ".") + name);
}

std::vector<std::string> JobSchema::FieldsLike(std::string_view name) const {
  std::map<std::string, std::vector<std::string>, std::less<>> by_name;
  CollectFields(root_, "", &by_name);
  std::vector<std::string> paths;
  std::vector<std::string_view> others;
  for (const auto& [key, places] : by_name) {
    if (key == name) {
      paths = places;
    } else {
      others.push_back(key);
    }
  }
  if (const auto near = by_name.find(NearestWord(name, others)); near != by_name.end()) {
    paths.insert(paths.end(), near->second.begin(), near->second.end());
  }
  return paths;
}

}  // namespace lockstep::control
