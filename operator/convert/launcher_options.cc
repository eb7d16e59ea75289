#include "operator/convert/launcher_options.h"

#include <map>
#include <string_view>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

using OptionTable = std::map<std::string_view, LauncherOption>;

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

}  // namespace

std::optional<LauncherOption> OptionOf(Launcher launcher, std::string name) {
  LOCKSTEP_CHECK(launcher != Launcher::kNone, name);
  const bool is_mpirun = launcher == Launcher::kMpirun;
  if (is_mpirun && name.starts_with("--")) {
    name.erase(0, 1);
  }
  const OptionTable& table = is_mpirun ? MpirunOptions() : HorovodrunOptions();
  const auto found = table.find(name);
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace lockstep::control
