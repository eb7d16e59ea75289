#pragma once

#include <optional>
#include <string_view>

#include "common/base/time.h"

namespace lockstep {

// The time written as "2026-11-21T10:22:03.123Z", as FormatRfc3339 and Kubernetes do, or with an
// offset such as "+02:00"; no or up to nine digits of fraction (cut to milliseconds). nullopt for
// any other text.
std::optional<WallTime> ParseRfc3339(std::string_view text);

}  // namespace lockstep
