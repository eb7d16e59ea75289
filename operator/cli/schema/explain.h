#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "operator/cli/schema/job_schema.h"

namespace lockstep::control {

// Whose field it is: of a TrainingQueue where the path begins with that ("tq.spec.nominal"), of a
// TrainingJob else.
std::string_view KindOfField(std::string_view field);

// What the schema says of a field, in the manner of `kubectl explain`: type, allowed values,
// default, description and the fields below it. `field` is a path of fields, elements of lists may
// be left out, `spec.` and a leading "trainingjob." too; empty: the whole object. Precondition: the
// schema is of KindOfField(field).
// Errors: kInvalidArgument (no path), kNotFound (no such field; the nearest names are told).
Result<std::string> ExplainField(std::string_view field, const JobSchema& schema);

}  // namespace lockstep::control
