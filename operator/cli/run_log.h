#pragma once

#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/result.h"

namespace lockstep::control {

class Console;

// The operator's own log of a run: every line goes to `path`; warnings and errors (with
// `is_verbose` everything) also to the console. `console` outlives it.
// Thread: the console's. Errors: kIo.
Result<std::unique_ptr<Logger>> MakeRunLog(const std::string& path,
                                           bool is_verbose,
                                           Console* console);

}  // namespace lockstep::control
