#pragma once

#include <memory>

#include "common/base/log.h"

namespace lockstep::control {

// One JSON object a line on standard error: time, level, message, and the fields. Thread: any.
std::unique_ptr<Logger> MakeJsonLogger(LogLevel level_min);

}  // namespace lockstep::control
