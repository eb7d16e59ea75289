// lockstep-runtime: what runs inside a job's pods.

#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/base/log.h"
#include "common/contract/environment/environment.h"
#include "common/contract/status/exit_code.h"
#include "trainer-runtime/cmd/devices/pod_devices.h"
#include "trainer-runtime/cmd/doctor_command.h"
#include "trainer-runtime/cmd/install_command.h"
#include "trainer-runtime/cmd/run_command.h"
#include "trainer-runtime/cmd/shortage.h"
#include "trainer-runtime/cmd/stop_signal.h"
#include "trainer-runtime/cmd/train_command.h"
#include "trainer-runtime/cmd/train_processes.h"

namespace lockstep::runtime {
namespace {

struct Arguments {
  LogLevel log_level = LogLevel::kInfo;
  std::string engine_path;
  std::string install_directory;
  bool is_prefix_wanted = true;
  int process_count = 1;
  int local_rank = -1;  // of `train`; -1: the whole pod
  int process_start = 0;
  bool may_restart = true;
  bool waits_for_gang = false;
  std::vector<std::string> warm;
  std::vector<std::string> command;
};

constexpr int kDevicesProcessesMax = 1024;  // choice: above what any machine runs

EnvironmentMap ReadEnvironment() {
  EnvironmentMap variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

CLI::App* AddRun(CLI::App* app, Arguments* arguments) {
  CLI::App* run = app->add_subcommand(
      "run",
      "Run any program under supervision: one process for each local rank, each with TF_CONFIG\n"
      "and the variables of torch and Horovod. The runtime forwards signals, puts the rank in\n"
      "front of each output line, and ends with the program's exit code.");
  run->add_flag("!--no-prefix",
                arguments->is_prefix_wanted,
                "Do not put \"[rank N] \" in front of each output line");
  run->add_flag("!--no-restarts",
                arguments->may_restart,
                "End the pod when a process that uses liblockstep is lost, instead of starting it\n"
                "again in the pod");
  run->add_flag(
      "--together",
      arguments->waits_for_gang,
      "Start the program only when the pods of all ranks have started, as Horovod requires");
  run->add_option(
         "--warm",
         arguments->warm,
         "Keep an interpreter that has imported this module, and fork each process from it, so\n"
         "that a replacement starts fast. COMMAND must be python3 with a script or -m")
      ->option_text("MODULE")
      ->allow_extra_args(false);
  run->add_option("COMMAND", arguments->command, "Program and arguments, after --")->required();
  return run;
}

CLI::App* AddTrain(CLI::App* app, Arguments* arguments) {
  CLI::App* train =
      app->add_subcommand("train",
                          "Train this pod's share of a job with the built-in trainer. The "
                          "LOCKSTEP_* variables describe\n"
                          "the job; `lockstep run` and the operator set them.");
  train
      ->add_option("--engine",
                   arguments->engine_path,
                   "The engine plug-in (default: liblockstep-engine.so beside this program, then\n"
                   "in ../lib/lockstep)")
      ->envname("LOCKSTEP_ENGINE");
  train->add_flag(
      "!--no-restarts",
      arguments->may_restart,
      "In a pod with several processes: end the pod when a process is lost, instead of\n"
      "starting it again in the pod");
  // What the pod's first process gives those below it.
  train->add_option("--process", arguments->local_rank)->group("");
  train->add_option("--process-start", arguments->process_start)->group("");
  return train;
}

CLI::App* AddInstall(CLI::App* app, Arguments* arguments) {
  CLI::App* install = app->add_subcommand(
      "install",
      "Copy this program into a folder. An init container does this if the job's image lacks this\n"
      "program. Such an image needs only glibc 2.34 or newer.");
  install->add_option("DIR", arguments->install_directory, "Existing folder")->required();
  return install;
}

CLI::App* AddDevices(CLI::App* app, Arguments* arguments) {
  CLI::App* devices = app->add_subcommand(
      "devices",
      "List the GPUs that this container sees, by UUID and PCI bus id, and which processes of the\n"
      "pod would use each.");
  devices->add_option("--processes", arguments->process_count, "Processes of the pod (default: 1)")
      ->envname("LOCKSTEP_PROCESSES")
      ->check(CLI::Range(1, kDevicesProcessesMax));
  return devices;
}

CLI::App* AddDoctor(CLI::App* app) {
  return app->add_subcommand(
      "doctor",
      "Show what this container has for summing gradients on GPUs: driver, GPUs, NCCL with its\n"
      "version and features. Then create an NCCL communicator of one rank as a test.");
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Runs in every pod of a Lockstep job.\n"
      "Exit codes (docs/reference/exit-codes.md): 0 success, 42 stopped after a checkpoint,\n"
      "64 wrong input, 70 internal error, 75 try again, 76 superseded. All other codes come from\n"
      "the program.",
      "lockstep-runtime");
  Arguments arguments;
  app.set_version_flag("--version", "lockstep-runtime " LOCKSTEP_VERSION);
  app.require_subcommand(1);
  const std::map<std::string, LogLevel> levels = {{"debug", LogLevel::kDebug},
                                                  {"info", LogLevel::kInfo},
                                                  {"warn", LogLevel::kWarn},
                                                  {"error", LogLevel::kError}};
  app.add_option("--log-level", arguments.log_level, "Lowest level to log (default: info)")
      ->transform(CLI::CheckedTransformer(levels, CLI::ignore_case))
      ->option_text("debug|info|warn|error");
  const CLI::App* run = AddRun(&app, &arguments);
  const CLI::App* train = AddTrain(&app, &arguments);
  const CLI::App* install = AddInstall(&app, &arguments);
  const CLI::App* devices = AddDevices(&app, &arguments);
  const CLI::App* doctor = AddDoctor(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kExitUserError;
  }
  const std::unique_ptr<Logger> logger = MakeStderrLogger({arguments.log_level, ""});
  if (run->parsed()) {
    return RunCommand(ReadEnvironment(),
                      {arguments.command,
                       arguments.is_prefix_wanted,
                       arguments.may_restart,
                       arguments.waits_for_gang,
                       arguments.warm,
                       logger.get()});
  }
  if (install->parsed() || devices->parsed() || doctor->parsed()) {
    ReleaseStopSignals();
  }
  if (install->parsed()) {
    return InstallCommand({arguments.install_directory, logger.get()});
  }
  if (doctor->parsed()) {
    return DoctorCommand();
  }
  const EnvironmentMap variables = ReadEnvironment();
  if (train->parsed() && arguments.local_rank < 0 && HasSeveralProcesses(variables)) {
    return TrainProcesses(variables, {{argv, argv + argc}, arguments.may_restart, logger.get()});
  }
  std::vector<GpuDevice> found = FindPodDevices(variables, logger.get());
  if (devices->parsed()) {
    std::fputs(DescribeDevices(found, arguments.process_count).c_str(), stdout);
    return 0;
  }
  ::signal(SIGXFSZ, SIG_IGN);  // a checkpoint above the limit of `ulimit -f` is one not written
  StopSignal stop;
  TrainCommandOptions training{arguments.engine_path, logger.get(), &stop, std::move(found)};
  if (arguments.local_rank >= 0) {
    training.place = ProcessPlace{arguments.local_rank, arguments.process_start};
  }
  return TrainCommand(variables, training);
}

int MainInShortage(int argc, char** argv) {
  const Result<int> ended = ReportShortage([&]() -> Result<int> { return Main(argc, argv); });
  if (!ended.ok()) {
    std::fprintf(stderr, "lockstep-runtime: %s\n", ended.error().message().c_str());
  }
  return ended.ok() ? *ended : kExitInternal;
}

}  // namespace
}  // namespace lockstep::runtime

int main(int argc, char** argv) {
  lockstep::runtime::HoldStopSignals();
  const int exit_code = lockstep::runtime::MainInShortage(argc, argv);
  // Without the exit handlers of the libraries that the engine brought in: they take 50 ms, and a
  // crash in one of them would turn a finished training into a failed one.
  std::fflush(nullptr);
  ::_exit(exit_code);
}
