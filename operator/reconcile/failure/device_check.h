#pragma once

#include <cstddef>
#include <cstdint>

#include "operator/api/job/training_job.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// A GPU's name in a status is cut here: pods say what they like. Choice: "GPU-" and "MIG-" names
// have 40 bytes, older ones of MIG up to 60.
inline constexpr std::size_t kDeviceNameBytesMax = 64;

// Jobs with more GPUs than this keep no list of them. Choice: some 400 KB; a place costs 200 bytes
// besides, of which there may be 4,096, and etcd takes objects of 1.5 MB.
inline constexpr int64_t kDevicesRecordedMax = 8192;

// Whether the status has room for the names of all GPUs that the job asks for.
bool RecordsDevices(const TrainingJobSpec& spec);

// Writes the GPUs that pods have reported into their placements, and judges them: the condition
// GPUAssignment is false when a pod sees another number than it asked for, or when one GPU is in
// two pods, of this job or of others; true when every pod has told and none of that is so. On one
// machine nobody deals GPUs out, and nothing is judged. Of a job with too many to be written down
// (RecordsDevices) nothing is judged either, and the condition says so.
void CheckDevices(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
