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
    return "is only for jobs that run a command, and cannot be used with spec.training; see "
           "training.devices";
  }
  if (role.gpu_visibility != GpuVisibility::kOne) {
    return "";
  }
  if (!role.supervise) {
    return "One cannot be used with supervise: false, because the runtime shows each process its "
           "GPU; set supervise: true";
  }
  return role.launcher == ProcessLauncher::kTorchrun
             ? "One cannot be used with launcher: Torchrun, because all processes that one "
               "torchrun starts see the same GPUs; use All"
             : "";
}

std::string LauncherProblem(const RoleSpec& role, bool has_training) {
  if (!role.launcher.has_value()) {
    return "";
  }
  if (has_training) {
    return "is only for jobs that run a command, and cannot be used with spec.training";
  }
  return role.supervise ? ""
                        : "cannot be used with supervise: false, which starts the command only "
                          "once, as written; set supervise: true";
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
