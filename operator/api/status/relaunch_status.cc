#include "operator/api/status/relaunch_status.h"

#include "common/base/rfc3339.h"
#include "common/contract/environment/relaunch.h"
#include "operator/api/fields/fields.h"

namespace lockstep::control {

Relaunch DecodeRelaunch(const Json* value, const std::string& path, std::vector<Error>* errors) {
  Relaunch relaunch;
  if (value == nullptr) {
    return relaunch;
  }
  ObjectReader reader(*value, path, errors);
  relaunch.count = reader.Int("count", 0, kRelaunchesMax).value_or(0);
  relaunch.since = ReadTime(reader, "since");
  relaunch.told_at = ReadTime(reader, "toldAt").value_or(WallTime{});
  relaunch.is_halted = reader.Bool("halted").value_or(false);
  return relaunch;
}

void SetRelaunch(const Relaunch& relaunch, Json* status) {
  if (relaunch.count == 0) {
    return;
  }
  Json value = {{"count", relaunch.count}};
  if (relaunch.since.has_value()) {
    value["since"] = FormatRfc3339(*relaunch.since);
    value["toldAt"] = FormatRfc3339(relaunch.told_at);
    value["halted"] = relaunch.is_halted;
  }
  (*status)["relaunch"] = std::move(value);
}

}  // namespace lockstep::control
