#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/environment/environment.h"
#include "trainer-runtime/rendezvous/mesh.h"

namespace lockstep::runtime {

// What a session is made from.
struct SessionOptions {
  MeshOptions mesh;
  uint64_t plan_hash = 0;    // of the job's spec and bucket plan; equal on every rank
  Duration meeting_timeout;  // for all ranks to come, and again for all of them to join
  std::stop_token stop;      // ends meetings and joining early, not work under way
};

// The session of the pod's first process: everything that the pod's environment says of it. The
// caller adds plan hash, stop token, logger and callback. `job_key` is the content of the key file.
// Errors: kInvalidArgument (an address of TF_CONFIG that does not parse).
Result<SessionOptions> MakeSessionOptions(const WorkerEnvironment& environment,
                                          std::string job_key);

}  // namespace lockstep::runtime
