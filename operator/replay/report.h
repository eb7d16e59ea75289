#pragma once

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/json/json.h"
#include "operator/replay/replay_arguments.h"

namespace lockstep::control {

// Replays, and tells what came of it as one object; `clock` measures how long it took.
// Errors: those of the files.
Result<Json> ReplayAndReport(const OpenbArguments& arguments, const Clock& clock);
Result<Json> ReplayAndReport(const PhillyArguments& arguments, const Clock& clock);
// "firstDifference" is null where every round came to what the log says. Errors: also kCorrupt.
Result<Json> ReplayAndReport(const LogArguments& arguments, const Clock& clock);
// Errors: kInternal where the scheduler answers what it should not.
Result<Json> ReplayAndReport(const ShapeArguments& arguments, const Clock& clock);

}  // namespace lockstep::control
