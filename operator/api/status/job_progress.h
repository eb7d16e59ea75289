#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// `status.progress`, and back. Numbers that are not finite are left out. Errors of decoding: wrong
// types, appended to `errors`; what else is there is not kept: it is written anew from what pods
// tell.
Json EncodeProgress(const JobProgress& progress);
JobProgress DecodeProgress(const Json& value, const std::string& path, std::vector<Error>* errors);

}  // namespace lockstep::control
