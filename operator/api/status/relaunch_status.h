#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// status.relaunch, as the rest of the status: leniently, with every problem and its path. Null:
// there was none.
Relaunch DecodeRelaunch(const Json* value, const std::string& path, std::vector<Error>* errors);

// Writes it into the status, if the attempt has had any.
void SetRelaunch(const Relaunch& relaunch, Json* status);

}  // namespace lockstep::control
