#pragma once

#include <optional>
#include <string_view>

#include "common/base/time.h"

namespace lockstep::control {

// The time that FormatRfc3339 or Kubernetes wrote: "2026-11-21T10:22:03.123Z", with no or up to
// nine digits of fraction (cut to milliseconds). nullopt for any other text; offsets other than Z
// are not taken: the API server writes UTC.
std::optional<WallTime> ParseRfc3339(std::string_view text);

}  // namespace lockstep::control
