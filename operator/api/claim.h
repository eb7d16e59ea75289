#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

// status.claim, as the rest of the status: leniently, with every problem and its path.
RoomClaim DecodeClaim(const Json& value, const std::string& path, std::vector<Error>* errors);

Json EncodeClaim(const RoomClaim& claim);

}  // namespace lockstep::control
