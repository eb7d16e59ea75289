#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace lockstep::control {

// One step of a field path: into an object's field, or into a list's element.
struct FieldStep {
  enum class Kind { kField, kElement };

  Kind kind = Kind::kField;
  std::string name;  // the field's; of an element its index, or its own `name`

  friend bool operator==(const FieldStep&, const FieldStep&) = default;
};

using FieldPath = std::vector<FieldStep>;

// Fields are separated by dots, elements stand in brackets: "spec.roles[0].replicas",
// "spec.roles[worker].replicas"; a backslash takes the next letter as it is
// ("metadata.labels.example\.com/team").
// Errors: kInvalidArgument, saying where the path breaks off.
Result<FieldPath> ParseFieldPath(std::string_view text);

// "spec.roles[0].replicas", as errors name fields.
std::string FormatFieldPath(const FieldPath& path);

}  // namespace lockstep::control
