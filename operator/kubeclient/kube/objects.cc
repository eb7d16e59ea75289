#include "operator/kubeclient/kube/objects.h"

namespace lockstep::control::kube {

LOCKSTEP_DEFINE_VALUE_MEMBERS(Pod);

const char* PodPhaseName(PodPhase phase) {
  switch (phase) {
    case PodPhase::kPending:
      return "Pending";
    case PodPhase::kRunning:
      return "Running";
    case PodPhase::kSucceeded:
      return "Succeeded";
    case PodPhase::kFailed:
      return "Failed";
    case PodPhase::kUnknown:
      return "Unknown";
  }
  return "Unknown";
}

}  // namespace lockstep::control::kube
