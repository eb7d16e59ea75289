#include "operator/api/job/claim.h"

#include "common/base/rfc3339.h"

namespace lockstep::control {

std::optional<RoomClaim> DecodeClaim(const Json* value,
                                     const std::string& path,
                                     std::vector<Error>* errors) {
  if (value == nullptr) {
    return std::nullopt;
  }
  RoomClaim claim;
  ObjectReader reader(*value, path, errors);
  const std::string since = reader.String("since").value_or("");
  if (const std::optional<WallTime> time = ParseRfc3339(since)) {
    claim.since = *time;
  } else {
    reader.Fail("since", "expected a time such as 2026-11-21T10:22:03Z");
  }
  const std::vector<const Json*> gangs = reader.List("gangs");
  for (std::size_t i = 0; i < gangs.size(); ++i) {
    ObjectReader gang(*gangs[i], reader.PathOf("gangs", i), errors);
    claim.gangs.push_back({gang.String("job").value_or(""),
                           gang.String("uid").value_or(""),
                           Attempt(gang.Int("attempt", 0).value_or(0))});
  }
  const std::vector<const Json*> places = reader.List("places");
  for (std::size_t i = 0; i < places.size(); ++i) {
    ObjectReader place(*places[i], reader.PathOf("places", i), errors);
    claim.places.push_back({place.String("task").value_or(""), place.String("node").value_or("")});
  }
  return claim;
}

void SetClaim(const std::optional<RoomClaim>& claim, Json* status) {
  if (!claim.has_value()) {
    return;
  }
  Json gangs = Json::array();
  for (const ClaimedGang& gang : claim->gangs) {
    gangs.push_back({{"job", gang.job}, {"uid", gang.uid}, {"attempt", gang.attempt.value()}});
  }
  Json places = Json::array();
  for (const ClaimedPlace& place : claim->places) {
    places.push_back({{"task", place.task}, {"node", place.node}});
  }
  (*status)["claim"] = {{"since", FormatRfc3339(claim->since)},
                        {"gangs", std::move(gangs)},
                        {"places", std::move(places)}};
}

}  // namespace lockstep::control
