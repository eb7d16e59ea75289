#pragma once

#include <string>

#include "common/base/result.h"

namespace lockstep::control {

// Whether a summary can be written to `file`, empty for none: what would fail after the training,
// and can be known before it. It does not take the place of `manifest`, which may be "-" or empty,
// nor of what the run keeps for itself in `run_directory`, which need not be there yet; empty: not
// known yet. Errors: kInvalidArgument, as "--summary FILE: ...".
Status CheckSummaryFile(const std::string& file,
                        const std::string& manifest,
                        const std::string& run_directory);

}  // namespace lockstep::control
