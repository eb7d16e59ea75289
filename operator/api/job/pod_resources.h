#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// What one container asks for and may use at most. A request that is not written is the limit.
struct ContainerResources {
  ResourceVector requests;
  ResourceVector limits;    // zero: no limit
  bool names_gpus = false;  // even if it asks for none of them
};

// The map of quantities under `key`; nothing when absent.
ResourceVector ReadAmounts(ObjectReader& reader, std::string_view key, std::vector<Error>* errors);

// The quantity of whole units under `key`, from `least` on; nullopt when absent or (recorded)
// wrong.
std::optional<int64_t> ReadAmount(ObjectReader& reader,
                                  std::string_view key,
                                  int64_t least,
                                  std::vector<Error>* errors);

// Reads a container's `resources`.
ContainerResources ReadResources(const Json& value,
                                 const std::string& path,
                                 std::vector<Error>* errors);

// Reads what a pod asks for and may use as a whole: cpu, memory and hugepages. What it may use is
// what it asks for where neither it nor its containers say; those ask for `asked` together, or
// more. Source: k8s.io/kubernetes/pkg/apis/core/v1, defaultPodRequests.
ContainerResources ReadPodLevelResources(const Json& value,
                                         const std::string& path,
                                         const ResourceVector& asked,
                                         std::vector<Error>* errors);

}  // namespace lockstep::control
