#include "operator/api/status_fields.h"

#include <cmath>
#include <string>

#include "common/base/rfc3339.h"

namespace lockstep::control {

std::optional<WallTime> ReadTime(ObjectReader& reader, std::string_view key) {
  const std::optional<std::string> text = reader.String(key);
  if (!text) {
    return std::nullopt;
  }
  const std::optional<WallTime> time = ParseRfc3339(*text);
  if (!time) {
    reader.Fail(key,
                DescribeJson(Json(*text)) + " found, expected a time such as 2026-11-21T10:22:03Z");
  }
  return time;
}

int64_t ReadCount(ObjectReader& reader, std::string_view key) {
  return reader.Int(key, 0).value_or(0);
}

void SetTime(Json* object, const char* key, const std::optional<WallTime>& time) {
  if (time) {
    (*object)[key] = FormatRfc3339(*time);
  }
}

void SetNumber(Json* object, const char* key, const std::optional<double>& number) {
  if (number && std::isfinite(*number)) {
    (*object)[key] = *number;
  }
}

}  // namespace lockstep::control
