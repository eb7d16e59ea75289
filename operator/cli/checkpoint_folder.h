#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/strong_id.h"

namespace lockstep::control {

// The step of the newest checkpoint in `folder`, whole or not: a step's folder is complete when it
// appears, so that what is not has been harmed since. One with nothing in it, or a file of such a
// name, is none. Where each rank's model has a folder of its own it is the newest of all. Nothing
// where there is none. The folder knows more than the reports of those who write there: one that is
// killed cannot tell what it wrote last. Errors: those of reading a folder that is there, with its
// path; it may hold checkpoints.
Result<std::optional<Step>> NewestCheckpointIn(const std::string& folder);

}  // namespace lockstep::control
