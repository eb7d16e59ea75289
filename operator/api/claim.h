#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

// status.claim, as the rest of the status: leniently, with every problem and its path. Null: there
// is none.
std::optional<RoomClaim> DecodeClaim(const Json* value,
                                     const std::string& path,
                                     std::vector<Error>* errors);

// Writes it into the status, if there is one.
void SetClaim(const std::optional<RoomClaim>& claim, Json* status);

}  // namespace lockstep::control
