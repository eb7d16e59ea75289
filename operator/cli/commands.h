#pragma once

#include "operator/cli/arguments.h"

namespace lockstep::control {

// The commands of `lockstep`: each writes to standard output and error and returns the exit code.

int RunValidate(const ValidateArguments& arguments);
int RunRender(const RenderArguments& arguments);
int RunConvert(const ConvertArguments& arguments);
int RunExplain(const ExplainArguments& arguments);
int RunPs(const PsArguments& arguments);
int RunLogs(const LogsArguments& arguments);

// Ends a run of another process and waits for it.
int RunStop(const StopArguments& arguments);

// Runs a job on this machine to its end. Call before any thread is started.
int RunRun(RunArguments arguments);

}  // namespace lockstep::control
