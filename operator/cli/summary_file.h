#pragma once

#include <string>

#include "common/base/result.h"

namespace lockstep::control {

// Whether a summary can be written to `file`, empty for none: what would fail after the training,
// and can be known before it. It does not take the place of `manifest`, which may be "-" or empty.
// Errors: kInvalidArgument, as "--summary FILE: ...".
Status CheckSummaryFile(const std::string& file, const std::string& manifest);

}  // namespace lockstep::control
