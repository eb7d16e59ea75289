#include "operator/convert/launcher_options.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

using OptionTable = std::map<std::string_view, LauncherOption>;

// Names with underscores; torchrun takes hyphens too. Source: torch.distributed.run, 2.9.
const OptionTable& TorchrunOptions() {
  static const OptionTable table = {
      {"--nnodes", {1, Meaning::kMachines}},
      {"--nproc_per_node", {1, Meaning::kPerPod}},
      {"--rdzv_backend", {1, {}}},
      {"--rdzv_endpoint", {1, {}}},
      {"--rdzv_id", {1, {}}},
      {"--rdzv_conf", {1, {}}},
      {"--standalone", {0, Meaning::kOneMachine}},
      {"--max_restarts", {1, {}}},
      {"--monitor_interval", {1, {}}},
      {"--start_method", {1, {}}},
      {"--event_log_handler", {1, {}}},
      {"--role", {1, {}}},
      {"-m", {0, Meaning::kModule}},
      {"--module", {0, Meaning::kModule}},
      {"--no_python", {0, Meaning::kNoPython}},
      {"--run_path", {0, {}}},
      {"--signals_to_handle", {1, {}}},
      {"--log_dir", {1, {}}},
      {"-r", {1, {}}},
      {"--redirects", {1, {}}},
      {"-t", {1, {}}},
      {"--tee", {1, {}}},
      {"--local_ranks_filter", {1, {}}},
      {"--node_rank", {1, {}}},
      {"--master_addr", {1, {}}},
      {"--master_port", {1, {}}},
      {"--local_addr", {1, {}}},
      {"--logs_specs", {1, {}}},
      {"--numa_binding", {1, {}}},
      // Of torch.distributed.launch:
      {"--use_env", {0, Meaning::kUsesEnvironment}},
      {"--logdir", {1, {}}},
  };
  return table;
}

// Names with one hyphen: mpirun takes one and two alike. Source: manuals of OpenMPI 4.1, MPICH 4.2
// and Intel MPI 2021.
const OptionTable& MpirunOptions() {
  static const OptionTable table = {
      {"-np", {1, Meaning::kCount}},
      {"-n", {1, Meaning::kCount}},
      {"-c", {1, Meaning::kCount}},
      {"-x", {1, Meaning::kVariable}},
      {"-genv", {2, Meaning::kVariable}},
      {"-env", {2, Meaning::kVariable}},
      {"-genvall", {0, {}}},
      {"-genvlist", {1, Meaning::kNames}},
      {"-envlist", {1, Meaning::kNames}},
      {"-N", {1, Meaning::kPerPod}},
      {"-npernode", {1, Meaning::kPerPod}},
      {"-ppn", {1, Meaning::kPerPod}},
      {"-perhost", {1, Meaning::kPerPod}},
      {"-pernode", {0, Meaning::kOnePerPod}},
      {"-wdir", {1, Meaning::kWorkingDirectory}},
      {"-wd", {1, Meaning::kWorkingDirectory}},
      {"-H", {1, {}}},
      {"-host", {1, {}}},
      {"-hosts", {1, {}}},
      {"-hostfile", {1, {}}},
      {"-machinefile", {1, {}}},
      {"-f", {1, {}}},
      {"-mca", {2, {}}},
      {"-gmca", {2, {}}},
      {"-bind-to", {1, {}}},
      {"-map-by", {1, Meaning::kMapping}},
      {"-rank-by", {1, {}}},
      {"-prefix", {1, {}}},
      {"-launcher", {1, {}}},
      {"-bootstrap", {1, {}}},
      {"-iface", {1, {}}},
      {"-output-filename", {1, {}}},
      {"-allow-run-as-root", {0, {}}},
      {"-oversubscribe", {0, {}}},
      {"-bind-to-core", {0, {}}},
      {"-bind-to-none", {0, {}}},
      {"-nooversubscribe", {0, {}}},
      {"-tag-output", {0, {}}},
      {"-timestamp-output", {0, {}}},
      {"-report-bindings", {0, {}}},
      {"-display-map", {0, {}}},
      {"-display-allocation", {0, {}}},
      {"-verbose", {0, {}}},
      {"-v", {0, {}}},
      {"-q", {0, {}}},
      {"-prepend-rank", {0, {}}},
      {"-l", {0, {}}},
  };
  return table;
}

// Source: horovod.runner.launch, 0.28.
const OptionTable& HorovodrunOptions() {
  static const OptionTable table = {
      {"-np", {1, Meaning::kCount}},
      {"--num-proc", {1, Meaning::kCount}},
      {"--min-np", {1, {}}},
      {"--min-num-proc", {1, {}}},
      {"--max-np", {1, {}}},
      {"--max-num-proc", {1, {}}},
      {"--slots", {1, {}}},
      {"--slots-per-host", {1, {}}},
      {"--elastic-timeout", {1, {}}},
      {"--reset-limit", {1, {}}},
      {"--host-discovery-script", {1, {}}},
      {"-H", {1, {}}},
      {"--hosts", {1, {}}},
      {"-hostfile", {1, {}}},
      {"--hostfile", {1, {}}},
      {"-p", {1, {}}},
      {"--ssh-port", {1, {}}},
      {"-i", {1, {}}},
      {"--ssh-identity-file", {1, {}}},
      {"--start-timeout", {1, {}}},
      {"--network-interfaces", {1, {}}},
      {"--network-interface", {1, {}}},
      {"--output-filename", {1, {}}},
      {"--config-file", {1, {}}},
      {"--fusion-threshold-mb", {1, {}}},
      {"--cycle-time-ms", {1, {}}},
      {"--cache-capacity", {1, {}}},
      {"--timeline-filename", {1, {}}},
      {"--mpi-args", {1, {}}},
      {"--log-level", {1, {}}},
      {"--binding-args", {1, {}}},
      {"--autotune", {0, {}}},
      {"--verbose", {0, {}}},
      {"--disable-cache", {0, {}}},
      {"--gloo", {0, {}}},
      {"--mpi", {0, {}}},
      {"--jsrun", {0, {}}},
      {"--tcp", {0, {}}},
  };
  return table;
}

// Names with underscores; accelerate takes hyphens too. Its program reads the variables. Source:
// accelerate.commands.launch and accelerate.utils.launch, 1.15.
const OptionTable& AccelerateOptions() {
  constexpr Meaning kSetting = Meaning::kSetting;
  static const OptionTable table = {
      {"--num_processes", {1, Meaning::kCount}},
      {"--num_machines", {1, Meaning::kMachines}},
      {"--machine_rank", {1, {}}},
      {"--main_process_ip", {1, {}}},
      {"--main_process_port", {1, {}}},
      {"--same_network", {0, {}}},
      {"--rdzv_backend", {1, {}}},
      {"--rdzv_conf", {1, {}}},
      {"--max_restarts", {1, {}}},
      {"--monitor_interval", {1, {}}},
      {"--multi_gpu", {0, Meaning::kMultiGpu}},
      {"--gpu_ids", {1, {}}},
      {"--role", {1, {}}},
      {"--log_dir", {1, {}}},
      {"-t", {1, {}}},
      {"--tee", {1, {}}},
      {"-q", {0, {}}},
      {"--quiet", {0, {}}},
      {"-m", {0, Meaning::kModule}},
      {"--module", {0, Meaning::kModule}},
      {"--no_python", {0, Meaning::kNoPython}},
      {"--cpu", {0, Meaning::kCpu, "ACCELERATE_USE_CPU", "True"}},
      {"--mixed_precision", {1, kSetting, "ACCELERATE_MIXED_PRECISION"}},
      {"--num_cpu_threads_per_process", {1, kSetting, "OMP_NUM_THREADS"}},
      {"--enable_cpu_affinity", {0, kSetting, "ACCELERATE_CPU_AFFINITY", "1"}},
      {"--dynamo_backend", {1, kSetting, "ACCELERATE_DYNAMO_BACKEND"}},
      {"--dynamo_mode", {1, kSetting, "ACCELERATE_DYNAMO_MODE"}},
      {"--dynamo_use_fullgraph", {0, kSetting, "ACCELERATE_DYNAMO_USE_FULLGRAPH", "True"}},
      {"--dynamo_use_dynamic", {0, kSetting, "ACCELERATE_DYNAMO_USE_DYNAMIC", "True"}},
      {"--dynamo_use_regional_compilation",
       {0, kSetting, "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", "True"}},
      {"--debug", {0, kSetting, "ACCELERATE_DEBUG_MODE", "true"}},
      {"--config_file", {1, Meaning::kRefused}},
      {"--use_deepspeed", {0, Meaning::kRefused}},
      {"--use_fsdp", {0, Meaning::kRefused}},
      {"--use_megatron_lm", {0, Meaning::kRefused}},
      {"--use_parallelism_config", {0, Meaning::kRefused}},
      {"--use_xpu", {0, Meaning::kRefused}},
      {"--ipex", {0, Meaning::kRefused}},
      {"--tpu", {0, Meaning::kRefused}},
      {"--downcast_bf16", {0, Meaning::kRefused}},
  };
  return table;
}

// Of accelerate, the beginnings of names of which there are many, none of which is kept. Each has a
// value.
constexpr std::array<std::string_view, 10> kRefusedOfAccelerate = {"--fsdp_",
                                                                   "--deepspeed_",
                                                                   "--zero",
                                                                   "--offload_",
                                                                   "--gradient_",
                                                                   "--megatron_lm_",
                                                                   "--parallelism_config_",
                                                                   "--fp8_",
                                                                   "--aws_",
                                                                   "--mpirun_"};

// Source: deepspeed.launcher.runner, 0.19.
const OptionTable& DeepspeedOptions() {
  static const OptionTable table = {
      {"--num_gpus", {1, Meaning::kPerPod}},
      {"--num_accelerators", {1, Meaning::kPerPod}},
      {"-H", {1, Meaning::kHostfile}},
      {"--hostfile", {1, Meaning::kHostfile}},
      {"--num_nodes", {1, Meaning::kMachines}},
      {"--min_elastic_nodes", {1, {}}},
      {"--max_elastic_nodes", {1, {}}},
      {"--elastic_training", {0, {}}},
      {"--master_port", {1, {}}},
      {"--master_addr", {1, {}}},
      {"--node_rank", {1, {}}},
      {"--launcher", {1, {}}},
      {"--launcher_args", {1, {}}},
      {"--no_ssh", {0, {}}},
      {"--no_ssh_check", {0, {}}},
      {"--ssh_port", {1, {}}},
      {"--force_multi", {0, {}}},
      {"--save_pid", {0, {}}},
      {"--enable_each_rank_log", {1, {}}},
      {"--comment", {1, {}}},
      {"--account", {1, {}}},
      {"--bind_cores_to_rank", {0, {}}},
      {"--bind_core_list", {1, {}}},
      {"--module", {0, Meaning::kModule}},
      {"--no_python", {0, Meaning::kNoPython}},
      {"--no_local_rank", {0, Meaning::kUsesEnvironment}},
      {"-i", {1, Meaning::kRefused}},
      {"--include", {1, Meaning::kRefused}},
      {"-e", {1, Meaning::kRefused}},
      {"--exclude", {1, Meaning::kRefused}},
      {"--autotuning", {1, Meaning::kRefused}},
  };
  return table;
}

const OptionTable& TableOf(Launcher launcher) {
  switch (launcher) {
    case Launcher::kTorchrun:
      return TorchrunOptions();
    case Launcher::kMpirun:
      return MpirunOptions();
    case Launcher::kHorovodrun:
      return HorovodrunOptions();
    case Launcher::kAccelerate:
      return AccelerateOptions();
    case Launcher::kDeepspeed:
      return DeepspeedOptions();
    case Launcher::kNone:
      break;
  }
  LOCKSTEP_CHECK(false, "the options of no launcher");
}

// The option as its launcher's table has it.
std::string Canonical(std::string name, Launcher launcher) {
  const bool has_underscores = launcher == Launcher::kTorchrun || launcher == Launcher::kAccelerate;
  if (has_underscores && name.starts_with("--")) {
    std::replace(name.begin() + 2, name.end(), '-', '_');
  }
  if (launcher == Launcher::kMpirun && name.starts_with("--")) {
    name.erase(0, 1);
  }
  return name;
}

}  // namespace

std::optional<LauncherOption> OptionOf(Launcher launcher, std::string name) {
  name = Canonical(std::move(name), launcher);
  const OptionTable& table = TableOf(launcher);
  if (const auto found = table.find(name); found != table.end()) {
    return found->second;
  }
  const bool is_refused =
      launcher == Launcher::kAccelerate &&
      std::any_of(kRefusedOfAccelerate.begin(),
                  kRefusedOfAccelerate.end(),
                  [&](std::string_view beginning) { return name.starts_with(beginning); });
  return is_refused ? std::optional(LauncherOption{1, Meaning::kRefused}) : std::nullopt;
}

}  // namespace lockstep::control
