#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/contract/status_document.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

// A GPU's name in a status is cut here: pods say what they like. Choice: "GPU-" and "MIG-" names
// have 40 bytes, older ones of MIG up to 60.
inline constexpr std::size_t kDeviceNameBytesMax = 64;

// Jobs with more GPUs than this keep no list of them. Choice: some 400 KB; a place costs 200 bytes
// besides, of which there may be 4,096, and etcd takes objects of 1.5 MB.
inline constexpr int64_t kDevicesRecordedMax = 8192;

// Whether the status has room for the names of all GPUs that the job asks for.
bool RecordsDevices(const TrainingJobSpec& spec);

// The names of the GPUs that a pod has told, in order.
std::vector<std::string> DevicesIn(const StatusDocument& document);

}  // namespace lockstep::control
