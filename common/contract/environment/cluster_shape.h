#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/contract/environment/topology.h"

namespace lockstep {

// LOCKSTEP_CLUSTER: who is in a job of several pods, in a line. Addresses follow from names and
// numbers, so a pod need not carry all of them: TF_CONFIG of 1000 ranks has 50 KB, in each of 1000
// pods. The runtime makes it from this; pods that it does not start get it in full.
//
//   {"roles":{"worker":{"replicas":500,"processes":2}},"domain":"cluster.local"}
//
// and "masterPort" where the job says MASTER_PORT itself.

// Above this a supervised pod is told the shape in place of TF_CONFIG. Choice: what people still
// read, and a pod of a cluster that is told all stays below 5 KB with it.
inline constexpr std::size_t kInlineTfConfigBytes = 1024;

// How long TF_CONFIG of one process is, or a little less than a tenth more.
std::size_t EstimateTfConfigBytes(const JobTopology& topology);

// Precondition (checked): pods are found by DNS.
std::string EncodeClusterShape(const JobTopology& topology);

// The topology of that job. Errors: kInvalidArgument, for every problem of it.
Result<JobTopology> ParseClusterShape(std::string_view text,
                                      const std::string& job,
                                      const std::string& namespace_name);

}  // namespace lockstep
