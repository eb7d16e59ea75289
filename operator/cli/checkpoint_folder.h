#pragma once

#include <optional>
#include <string>

#include "common/base/strong_id.h"

namespace lockstep::control {

// The step of the newest checkpoint in `folder`; nothing where there is none. The folder knows more
// than the reports of those who write there: one that is killed cannot tell what it wrote last.
std::optional<Step> NewestCheckpointIn(const std::string& folder);

}  // namespace lockstep::control
