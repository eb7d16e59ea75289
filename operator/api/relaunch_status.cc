#include "operator/api/relaunch_status.h"

#include "common/base/rfc3339.h"
#include "common/contract/relaunch.h"

namespace lockstep::control {
namespace {

std::optional<WallTime> ReadMoment(ObjectReader& reader, const char* key) {
  const std::optional<std::string> text = reader.String(key);
  if (!text.has_value()) {
    return std::nullopt;
  }
  const std::optional<WallTime> time = ParseRfc3339(*text);
  if (!time.has_value()) {
    reader.Fail(key,
                DescribeJson(Json(*text)) + " found, expected a time such as 2026-11-21T10:22:03Z");
  }
  return time;
}

}  // namespace

Relaunch DecodeRelaunch(const Json* value, const std::string& path, std::vector<Error>* errors) {
  Relaunch relaunch;
  if (value == nullptr) {
    return relaunch;
  }
  ObjectReader reader(*value, path, errors);
  relaunch.count = reader.Int("count", 0, kRelaunchesMax).value_or(0);
  relaunch.since = ReadMoment(reader, "since");
  relaunch.told_at = ReadMoment(reader, "toldAt").value_or(WallTime{});
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
