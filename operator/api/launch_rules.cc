#include "operator/api/launch_rules.h"

#include "operator/api/fields.h"

namespace lockstep::control {
namespace {

// The runtime shows a command's processes their GPUs.
std::string GpuVisibilityProblem(const RoleSpec& role, bool has_training) {
  if (!role.gpu_visibility.has_value()) {
    return "";
  }
  if (has_training) {
    return "found beside spec.training, expected it for commands only; see training.devices";
  }
  if (role.gpu_visibility != GpuVisibility::kOne) {
    return "";
  }
  if (!role.supervise) {
    return "One found beside supervise: false, expected supervise: true: the runtime shows each "
           "process its GPU";
  }
  return role.launcher == ProcessLauncher::kTorchrun
             ? "One found beside launcher: Torchrun, expected All: the processes of a torchrun "
               "share what it sees"
             : "";
}

std::string LauncherProblem(const RoleSpec& role, bool has_training) {
  if (!role.launcher.has_value()) {
    return "";
  }
  if (has_training) {
    return "found beside spec.training, expected it for commands only";
  }
  return role.supervise ? ""
                        : "found beside supervise: false, expected supervise: true: without the "
                          "runtime the command is started once, as written";
}

}  // namespace

std::vector<Error> LaunchErrors(const RoleSpec& role, bool has_training, const std::string& path) {
  std::vector<Error> errors;
  if (std::string problem = GpuVisibilityProblem(role, has_training); !problem.empty()) {
    AddError(&errors, path + ".gpuVisibility", std::move(problem));
  }
  if (std::string problem = LauncherProblem(role, has_training); !problem.empty()) {
    AddError(&errors, path + ".launcher", std::move(problem));
  }
  return errors;
}

}  // namespace lockstep::control
