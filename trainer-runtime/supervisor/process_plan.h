#pragma once

#include <vector>

#include "common/base/result.h"
#include "common/contract/environment.h"
#include "trainer-runtime/supervisor/supervisor.h"

namespace lockstep::runtime {

// One SupervisedProcess for each process of the pod: `inherited`, overlaid by what
// RenderEnvironmentForProcess gives. Prefixes are "[rank 3] ", or "[evaluator-0] " for a pod that
// is no rank; none unless `with_prefix`. A TF_CONFIG that is inherited and that the job does not
// give is left out: the program would wait for a cluster that nobody starts. Errors: as
// RenderEnvironmentForProcess.
Result<std::vector<SupervisedProcess>> PlanProcesses(const WorkerEnvironment& environment,
                                                     const EnvironmentMap& inherited,
                                                     bool with_prefix);

}  // namespace lockstep::runtime
