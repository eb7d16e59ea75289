#include "operator/api/rules/launch_rules.h"

#include "common/contract/command/launcher.h"
#include "operator/api/fields/fields.h"
#include "operator/api/job/pod_template.h"

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
    return "\"One\" cannot be used with supervise: false, because the runtime shows each process "
           "its GPU; set supervise: true";
  }
  return role.launcher == ProcessLauncher::kTorchrun
             ? "\"One\" cannot be used with launcher: Torchrun, because all processes that one "
               "torchrun starts see the same GPUs; use All"
             : "";
}

// What torchrun is given for `option`, or for the variable that stands for it.
std::string GivenTo(const TorchrunCall& call,
                    const RoleSpec& role,
                    std::string_view option,
                    const std::string& variable) {
  const auto found = role.pod.env.find(variable);
  return call.options.contains(option) || found == role.pod.env.end() ? call.Option(option)
                                                                      : found->second;
}

// Ranks of a job that are its pods are as many as these.
std::string RendezvousProblem(const RoleSpec& role) {
  std::vector<std::string> command = role.pod.command;
  command.insert(command.end(), role.pod.args.begin(), role.pod.args.end());
  for (const TorchrunCall& call : TorchrunCalls(command)) {
    const std::string machines = GivenTo(call, role, "--nnodes", "PET_NNODES");
    const std::size_t colon = machines.find(':');
    if (GivenTo(call, role, "--rdzv_backend", "PET_RDZV_BACKEND") == kOwnTorchrunRendezvous &&
        colon != std::string::npos && machines.substr(0, colon) != machines.substr(colon + 1)) {
      return "torchrun with --rdzv-backend=lockstep and --nnodes=" + machines +
             " found, expected no --nnodes: with this rendezvous a job always trains with all its "
             "pods";
    }
  }
  return "";
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
  if (std::string problem = RendezvousProblem(role); !problem.empty()) {
    AddError(&errors,
             path + ".template." + std::string(kContainerPath) + ".command",
             std::move(problem));
  }
  return errors;
}

}  // namespace lockstep::control
