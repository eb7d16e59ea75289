#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/environment/environment.h"
#include "trainer-runtime/supervisor/supervisor.h"

namespace lockstep::runtime {

// One SupervisedProcess for each process of the pod: `inherited`, overlaid by what
// RenderEnvironmentForProcess gives; one for all of them where `command` starts torchrun, or the
// job says so. Prefixes are "[rank 3] ", or "[evaluator-0] " for what is no single rank; none
// unless `with_prefix`. The only process of a pod of ranks finds PET_*, which torchrun goes by,
// where the template does not set them: torchrun in it, or in a script of it, then joins the pods
// of the job, but for one that is seen to be given --standalone. Not where the job says that the
// runtime alone starts processes. A TF_CONFIG that is inherited and that the job does not give is
// left out: the program would wait for a cluster that nobody starts. Errors: as
// RenderEnvironmentForProcess.
Result<std::vector<SupervisedProcess>> PlanProcesses(const WorkerEnvironment& environment,
                                                     const EnvironmentMap& inherited,
                                                     const std::vector<std::string>& command,
                                                     bool with_prefix);

}  // namespace lockstep::runtime
