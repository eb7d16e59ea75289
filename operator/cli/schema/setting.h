#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"
#include "operator/cli/schema/field_path.h"
#include "operator/cli/schema/job_schema.h"

namespace lockstep::control {

// One `--set PATH=VALUE`: a field of the manifest that gets another value for this run.
struct Setting {
  FieldPath path;
  std::string value;  // as it was given

  friend bool operator==(const Setting&, const Setting&) = default;
};

// "spec.roles[0].replicas=3", as ParseSetting reads it.
std::string ToText(const Setting& setting);

// Errors: kInvalidArgument when there is no "=" or no path before it.
Result<Setting> ParseSetting(std::string_view text);

// Gives the field its value: a text where the schema says string, else what YAML makes of it
// ("5", "true", "[3, 3]", "{a: 1}"); "null" removes the field. Objects on the way are made where
// they are missing, and a list grows by one where the element behind its last is named. Returns
// the field's path as the decoder will name it. Whether the value is a good one is the decoder's
// to say.
// Errors: kNotFound (no such field, no such element), kInvalidArgument (something on the way is no
// object or list, the value is no YAML), each with the path.
Result<std::string> ApplySetting(const Setting& setting, const JobSchema& schema, Json* document);

// Gives the role `worker` so many replicas, whichever field counts. Returns its path.
// Errors: kNotFound when the job has no worker.
Result<std::string> ApplyWorkers(int64_t workers, Json* document);

}  // namespace lockstep::control
