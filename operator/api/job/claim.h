#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/json/json.h"

namespace lockstep::control {

// A gang that goes for another.
struct ClaimedGang {
  std::string job;  // "namespace/name"
  std::string uid;  // the job's
  Attempt attempt;  // that goes

  friend bool operator==(const ClaimedGang&, const ClaimedGang&) = default;
};

// Where a pod of a gang will stand: "worker-0".
struct ClaimedPlace {
  std::string task;
  std::string node;

  friend bool operator==(const ClaimedPlace&, const ClaimedPlace&) = default;
};

// Room that is kept for the job's next gang while others leave it. It is in the status before any
// of those is told: whoever leads next asks nobody twice, and gives the room to nobody else.
struct RoomClaim {
  WallTime since{};
  std::vector<ClaimedGang> gangs;    // those that were asked to go, by name
  std::vector<ClaimedPlace> places;  // in rank order

  friend bool operator==(const RoomClaim&, const RoomClaim&) = default;
};

// status.claim, as the rest of the status: leniently, with every problem and its path. Null: there
// is none.
std::optional<RoomClaim> DecodeClaim(const Json* value,
                                     const std::string& path,
                                     std::vector<Error>* errors);

// Writes it into the status, if there is one.
void SetClaim(const std::optional<RoomClaim>& claim, Json* status);

}  // namespace lockstep::control
