#pragma once

#include <string>

#include "common/base/result.h"

namespace lockstep::control {

// Whether a summary can be written to `file`, empty for none: what would fail after the training,
// and can be known before it. Errors: kInvalidArgument, as "--summary FILE: ...".
Status CheckSummaryFile(const std::string& file);

}  // namespace lockstep::control
