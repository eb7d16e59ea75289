#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/environment/environment.h"
#include "trainer-runtime/supervisor/hang/hang_court.h"
#include "trainer-runtime/supervisor/hang/ras_report.h"

namespace lockstep::runtime {

// Where NCCL's RAS of a pod's ranks is asked: "localhost:28028", "[::1]:28028".
inline constexpr const char* kRasAddress = "NCCL_RAS_ADDR";

// A port of this job alone: on a shared network, another job's NCCL would answer at the same one.
int RasPort(std::string_view job_uid);

// Asks NCCL's RAS at `address` for its report, as JSON where it has that, else as text. Any rank of
// the network namespace may take the connection, one that is stopped too: who does not answer
// within a second is asked again, until the deadline. Blocks. Errors: kNotFound (nobody listens),
// kTimeout, kResourceExhausted (longer than any report), kInvalidArgument (no report).
Result<RasReport> AskRas(const std::string& address, Deadline deadline);

// How a hang court asks about the ranks of a job, by AskRas and EvidenceOf, in the pod of
// `environment`; empty for a pod without ranks. `variables`: of one of its processes.
// `is_one_process`: one process stands for all ranks of the pod, as torchrun does.
std::function<HangLook()> AskNcclBy(const WorkerEnvironment& environment,
                                    const EnvironmentMap& variables,
                                    bool is_one_process);

}  // namespace lockstep::runtime
