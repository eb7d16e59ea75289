#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

// Reads what EncodeStatus (encode.h) wrote, but what it had derived. Strict, as all of our own
// schema.
TrainingJobStatus DecodeStatus(const Json& value,
                               const std::string& path,
                               std::vector<Error>* errors);

}  // namespace lockstep::control
