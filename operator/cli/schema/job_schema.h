#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/cli/schema/field_path.h"

namespace lockstep::control {

// The schema of TrainingJob, or of TrainingQueue, as the API server has it: the
// CustomResourceDefinition of crds/, compiled in.
class JobSchema {
 public:
  // Reads the compiled-in definition, which takes some milliseconds. `kind`: one of the two.
  explicit JobSchema(std::string_view kind = kTrainingJobKind);

  const std::string& kind() const { return kind_; }

  // The schema of one field. A path may name elements or leave them out (spec.roles.replicas), and
  // `spec.` in front may be left out, too; `path` becomes the whole one, without elements.
  // Errors: kNotFound, with the nearest names and all fields of the deepest object that is there.
  Result<const Json*> Find(FieldPath* path) const;

  // Paths of all fields of that name, and of those with the name nearest to it.
  std::vector<std::string> FieldsLike(std::string_view name) const;

 private:
  Error Unknown(const FieldPath& found, const Json& deepest, const std::string& name) const;

  std::string kind_;
  Json root_;
};

// What a schema says of values, in words: "integer", "[]object", "integer or []integer".
std::string SchemaTypeText(const Json& schema);

// Whether what stands inside is not described but handed on as it is.
bool IsOpaqueSchema(const Json& schema);

}  // namespace lockstep::control
