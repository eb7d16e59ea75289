#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "common/base/digest.h"
#include "common/base/io/file.h"
#include "common/base/io/output_file.h"
#include "common/base/io/unique_fd.h"
#include "common/base/printable.h"
#include "common/contract/environment/environment.h"
#include "common/process/cores.h"
#include "operator/api/job/job_topology.h"
#include "operator/api/status/conditions.h"
#include "operator/cli/commands.h"
#include "operator/cli/job_file.h"
#include "operator/cli/run/data_files.h"
#include "operator/cli/run/run_log.h"
#include "operator/cli/run/run_session.h"
#include "operator/cli/run/without_cluster.h"
#include "operator/cli/run_folder/checkpoint_folder.h"
#include "operator/cli/run_folder/earlier_run.h"
#include "operator/cli/run_folder/run_directory.h"
#include "operator/cli/run_folder/run_list.h"
#include "operator/cli/run_folder/saved_state.h"
#include "operator/cli/summary/summary.h"
#include "operator/cli/summary/summary_file.h"
#include "operator/cli/terminal/console.h"
#include "operator/cli/terminal/find_runtime.h"
#include "operator/cli/terminal/inherited_environment.h"
#include "operator/cli/terminal/umask_check.h"
#include "operator/local/loopback.h"
#include "operator/local/machine.h"
#include "operator/reconcile/decide.h"
#include "operator/reconcile/pods/pod.h"

namespace lockstep::control {
namespace {

std::optional<std::string> VariableOfShell(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// Asks the deciding code what it would do on the empty machine: the reason if it refuses the job.
std::optional<std::string> RefusalOf(const TrainingJob& job, const kube::Node& machine) {
  Observed observed;
  observed.nodes = std::vector{machine};
  observed.settings.addressing = LoopbackAddressing{"127.1.0"};
  observed.is_one_machine = true;
  const Decision decision = Decide(job, observed, SystemClock().WallNow());
  if (!IsTrue(decision.status, ConditionType::kFailed)) {
    return std::nullopt;
  }
  return FindCondition(decision.status, ConditionType::kFailed)->message;
}

// What is known before anything is made.
struct Workshop {
  TrainingJob job;
  Json written;                      // what it was decoded from
  std::string folder;                // where relative paths of the manifest start
  std::vector<std::string> remarks;  // on what the manifest holds and a run does not use
  kube::Node machine;
  std::string runtime;
  int core_count = 1;
  int pod_count = 0;
};

// The manifest's job, or that of the run to go on with.
Result<SingleJob> ReadJobOf(const RunArguments& arguments) {
  if (arguments.resume.empty()) {
    return ReadSingleJob(arguments.source);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const EarlierRun earlier, ReadEarlierRun(arguments.resume));
  LOCKSTEP_ASSIGN_OR_RETURN(SingleJob single,
                            arguments.source.file.empty()
                                ? ReadEarlierJob(earlier, arguments.source)
                                : ReadSingleJob(arguments.source));
  LOCKSTEP_RETURN_IF_ERROR(CheckSameJob(earlier, arguments.resume, single.job));
  return single;
}

// Found here and not by every worker once it has started. One line for each problem.
Status CheckData(const RunArguments& arguments, const Workshop& shop) {
  std::string problems;
  if (shop.job.spec.training) {
    const std::string& file = arguments.source.file;
    for (const Error& error :
         CheckDataFiles(*shop.job.spec.training, shop.folder, shop.job.WorldSize())) {
      problems += (problems.empty() ? "" : "\n") + (file.empty() ? "job.json" : file) + ": " +
                  error.ToString();
    }
  }
  return problems.empty() ? OkStatus() : Status(Error(ErrorCode::kInvalidArgument, problems));
}

// Of a training; empty for commands, which know their own, and where no folder is named yet.
std::string CheckpointDirectoryOf(const TrainingJob& job, const std::string& run_directory) {
  if (!job.spec.training) {
    return "";
  }
  const std::string& given = job.spec.training->checkpoint.directory;
  return given.starts_with('/') ? given : run_directory.empty() ? "" : run_directory + "/" + given;
}

// An edit that its checkpoint does not take.
Status CheckEdit(const RunArguments& arguments, const TrainingJob& job) {
  const std::string& run = arguments.resume.empty() ? arguments.directory : arguments.resume;
  const Status fits = CheckSavedState(job, CheckpointDirectoryOf(job, run));
  return fits.ok() ? fits
                   : Status(Error(fits.error().code(), "lockstep: " + fits.error().message()));
}

// `shop` holds the job as soon as that is read, be it refused.
Status Prepare(const RunArguments& arguments, Workshop* made, int* exit_code) {
  Workshop& shop = *made;
  *exit_code = kCliUsage;
  LOCKSTEP_ASSIGN_OR_RETURN(SingleJob single, ReadJobOf(arguments));
  LOCKSTEP_RETURN_IF_ERROR(CheckNewDirectory(arguments.directory));
  shop.job = std::move(single.job);
  shop.written = std::move(single.written);
  shop.folder = std::move(single.folder);
  shop.remarks = std::move(single.skipped);
  shop.job.metadata.uid = RandomHex(16);
  const auto tasks = AllTasks(TopologyOf(shop.job, LoopbackAddressing{"127.1.0"}));
  shop.pod_count = static_cast<int>(tasks.size());
  LOCKSTEP_RETURN_IF_ERROR(
      CheckChaosTargets(arguments.chaos, std::set<TaskId>(tasks.begin(), tasks.end())));
  LOCKSTEP_RETURN_IF_ERROR(CheckChaosTriggers(arguments.chaos, shop.job.spec.training.has_value()));
  LOCKSTEP_RETURN_IF_ERROR(CheckData(arguments, shop));
  LOCKSTEP_RETURN_IF_ERROR(CheckEdit(arguments, shop.job));
  if (const Status taken = TakeClusterValues(VariableOfShell, &shop.job); !taken.ok()) {
    *exit_code = kCliRefused;
    return Error(taken.error().code(), taken.error().message());
  }
  if (std::string why = WhyItWouldOnlyWait(shop.job); !why.empty()) {
    *exit_code = kCliRefused;
    return Error(ErrorCode::kInvalidArgument, std::move(why));
  }
  RaiseDescriptorLimit();
  shop.core_count = CountCores();
  shop.machine = DescribeMachine("", HostName(), shop.core_count);
  if (const auto refusal = RefusalOf(shop.job, shop.machine)) {
    *exit_code = kCliRefused;
    return Error(ErrorCode::kResourceExhausted, *refusal);
  }
  *exit_code = kCliFailed;
  LOCKSTEP_ASSIGN_OR_RETURN(shop.runtime,
                            FindRuntime(arguments.runtime, InheritedEnvironment(1, 1)));
  return OkStatus();
}

PodSettings SettingsOf(const Workshop& shop,
                       const RunDirectory& directory,
                       const LoopbackBlock& block) {
  PodSettings settings;
  settings.addressing = LoopbackAddressing{block.prefix(), block.port_base()};
  settings.expands_references = true;
  settings.runtime_path = shop.runtime;
  settings.job_directory = directory.path();
  settings.data_directory = shop.folder;
  settings.job_key_file = directory.KeyFile();
  return settings;
}

PodRunnerOptions ClusterOptionsOf(const RunArguments& arguments,
                                  const Workshop& shop,
                                  const PodSettings& settings,
                                  Console* console) {
  PodRunnerOptions options;
  options.directory = settings.job_directory;
  options.base_environment = InheritedEnvironment(
      shop.core_count, std::max(shop.pod_count, static_cast<int>(shop.job.WorldSize())));
  options.manifest_directory = settings.data_directory;
  options.secret_file = arguments.keep ? "" : settings.job_key_file;
  options.termination_file_variable = env::kTerminationMessageFile;
  const JobTopology topology = TopologyOf(shop.job, settings.addressing);
  options.address_of = [topology](const kube::Pod& pod) {
    const auto name = ParsePodName(pod.name);
    return name ? HostOf(topology, name->task) : std::string();
  };
  // A command's output is what its user came for; the trainer's is only its log.
  if (arguments.verbose || !shop.job.spec.training) {
    options.on_line = [console](const kube::Pod& pod, std::string_view line) {
      const auto name = ParsePodName(pod.name);
      console->Tell("[" + (name ? TaskName(name->task) : pod.name) + "] " + Printable(line));
    };
  }
  return options;
}

// "pods listen on 127.83.7.1 to 127.83.7.3, ports 12048 to 12053; status and metrics on port 12049"
std::string DescribePlaces(const LoopbackBlock& block, const JobTopology& topology, int pod_count) {
  const int last_port = block.port_base() + LoopbackPortCount(topology) - 1;
  return "pods listen on " + block.Address(0) +
         (pod_count > 1 ? " to " + block.Address(pod_count - 1) : "") + ", ports " +
         std::to_string(block.port_base()) + " to " + std::to_string(last_port) +
         "; status and metrics on port " + std::to_string(StatusPortOf(topology.addressing)) +
         (topology.master_port ? "; MASTER_PORT is " + std::to_string(*topology.master_port) : "");
}

// Notes the job in its folder, once there is something to note: a try to go on that does not come
// to train must leave the run that was there, with its job and its end.
class JobNote {
 public:
  JobNote(const Workshop* shop, const RunDirectory* directory)
      : shop_(shop), directory_(directory) {}

  void Write() {
    ::unlink(directory_->SummaryFile().c_str());  // the end of an earlier run is not this one's
    status_ = WriteJobRecord(directory_->path(), shop_->job, shop_->written, shop_->folder);
    is_written_ = true;
  }

  const Workshop& shop() const { return *shop_; }

  const RunDirectory& directory() const { return *directory_; }

  bool is_written() const { return is_written_; }

  const Status& status() const { return status_; }

 private:
  const Workshop* shop_;
  const RunDirectory* directory_;
  bool is_written_ = false;
  Status status_;
};

Result<RunSummary> Carry(const RunArguments& arguments,
                         StopSignals* signals,
                         JobNote* note,
                         Console* console) {
  const Workshop& shop = note->shop();
  const RunDirectory& directory = note->directory();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<RunLog> logger,
                            RunLog::Open(directory.LogFile(), arguments.verbose, console));
  Prng prng(std::strtoull(RandomHex(8).c_str(), nullptr, 16));
  const JobTopology shape = TopologyOf(shop.job, LoopbackAddressing{});
  LOCKSTEP_ASSIGN_OR_RETURN(
      LoopbackBlock block,
      LoopbackBlock::Reserve({shop.pod_count, LoopbackPortCount(shape), shape.master_port}, &prng));
  RunSessionOptions options;
  options.job = shop.job;
  options.machine = shop.machine;
  options.settings = SettingsOf(shop, directory, block);
  options.job_key = directory.job_key();
  options.run_directory = directory.path();
  options.chaos = arguments.chaos;
  options.timeout = arguments.timeout;
  options.checkpoint_directory = CheckpointDirectoryOf(shop.job, directory.path());
  // A folder that cannot be read may hold what must not be begun anew.
  LOCKSTEP_ASSIGN_OR_RETURN(options.newest_checkpoints,
                            NewestCheckpointsIn(options.checkpoint_directory));
  options.other_ports = [&block, &prng]() -> Result<int> {
    LOCKSTEP_RETURN_IF_ERROR(block.MovePorts(&prng));
    return block.port_base();
  };
  options.on_under_way = [note] {
    if (!note->is_written()) {
      note->Write();
    }
  };
  console->Tell(
      DescribePlaces(block, TopologyOf(shop.job, options.settings.addressing), shop.pod_count));
  // The pods' guard is forked here, before the HTTP client starts its thread.
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::unique_ptr<PodRunner> pods,
      PodRunner::Start(ClusterOptionsOf(arguments, shop, options.settings, console), logger.get()));
  HttpClient client(kStatusBytesMax);
  LocalPollerOptions poller_options;
  poller_options.job_key = directory.job_key();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<LocalPoller> poller,
                            LocalPoller::Make(poller_options, &client));
  const RunSessionParts parts{pods.get(), &client, poller.get(), signals, console, logger.get()};
  RunSummary summary = RunSession(std::move(options), parts).Run();
  LOCKSTEP_RETURN_IF_ERROR(note->status());
  summary.left_earlier_run = !note->is_written();
  summary.lost_log_lines = logger->lost_lines();
  return summary;
}

int WriteRefusal(const RunArguments& arguments, const TrainingJob& job, const std::string& reason) {
  RunSummary summary;
  summary.job = job.metadata.name;
  summary.is_training = job.spec.training.has_value();
  summary.outcome = RunOutcome::kRefused;
  summary.reason = reason;
  const std::string json = DumpJsonPretty(EncodeSummary(summary)) + "\n";
  const Status written =
      arguments.summary_file.empty() ? OkStatus() : WriteOutput(arguments.summary_file, json);
  if (!written.ok()) {
    Complain(kCliRefused, "writing the summary: " + written.error().ToString());
  }
  return Complain(kCliRefused, reason);
}

// What `lockstep ps` tells of a run without a summary.
void NoteEnd(const RunSummary& summary, const RunDirectory& directory) {
  Json end = Json::object();
  end["outcome"] = std::string(RunOutcomeName(summary.outcome));
  end["steps"] = summary.is_training ? Json(summary.steps) : Json(nullptr);
  end["stepsTotal"] = summary.steps_total ? Json(*summary.steps_total) : Json(nullptr);
  if (const Status noted = directory.NoteEnd(DumpJson(end)); !noted.ok()) {
    Complain(0,
             "writing the outcome into " + directory.path() + "/lock: " + noted.error().ToString());
  }
}

int Report(const RunArguments& arguments,
           const RunSummary& summary,
           const RunDirectory& directory,
           Console* console) {
  console->Print(FormatSummary(summary));
  const std::string json = DumpJsonPretty(EncodeSummary(summary)) + "\n";
  int exit_code = ExitCodeOf(summary.outcome);
  const std::string own = summary.left_earlier_run ? "" : directory.SummaryFile();
  for (const std::string& file : {own, arguments.summary_file}) {
    if (file.empty()) {
      continue;
    }
    const Status written = WriteOutput(file, json);
    if (!written.ok()) {
      Complain(0, "writing the summary: " + written.error().ToString());
      exit_code = exit_code == kCliSucceeded || exit_code == kCliStopped ? kCliFailed : exit_code;
    }
    if (!written.ok() && file == own) {
      NoteEnd(summary, directory);
    }
  }
  return exit_code;
}

// What the manifest asks for and nobody does here.
void TellUnused(const Workshop& shop, Console* console) {
  if (const std::string init = InitContainersOf(shop.job); !init.empty()) {
    console->Print("lockstep run does not start init containers: " + init);
  }
  if (const std::string unused = UnusedPodFieldsOf(shop.job); !unused.empty()) {
    console->Print("lockstep run ignores these fields of pod templates: " + Printable(unused));
  }
  if (const std::string unused = UnusedSchedulingOf(shop.job); !unused.empty()) {
    console->Print("lockstep run ignores these fields of spec.scheduling: " + Printable(unused));
  }
}

// What somebody should know before anything runs.
void TellBeginnings(const Workshop& shop, const RunDirectory& directory, Console* console) {
  for (const std::string& remark : shop.remarks) {
    console->Print(Printable(remark));
  }
  if (const auto earlier = ReadEarlierRun(directory.path()); earlier.ok()) {
    const std::string its_own = CheckpointFolderOf(*earlier, directory.path());
    const std::string folder =
        its_own.empty() ? CheckpointDirectoryOf(shop.job, directory.path()) : its_own;
    const auto newest = NewestCheckpointsIn(folder);
    if (!newest.ok()) {
      console->Print("warning: reading the earlier run in this folder: " +
                     newest.error().ToString());
      return TellUnused(shop, console);
    }
    const bool is_empty =
        HoldsNoWork(folder.empty() ? directory.path() + "/" + kCommandCheckpoints : folder);
    const std::string text = DescribeEarlierRun(*earlier, *newest, is_empty);
    // Work that is gone is nothing to be quiet about.
    const bool is_lost = earlier->steps > 0 && (its_own.empty() ? is_empty : newest->empty());
    is_lost ? console->Print("warning: " + text) : console->Tell(text);
  }
  TellUnused(shop, console);
}

// The named directory, or one below runs/ that no other run has taken: of two runs that begin in
// one second, the second finds the name of the first in use, and looks for another.
Result<RunDirectory> OpenDirectory(const RunArguments& arguments, const TrainingJob& job) {
  constexpr int kTriesMax = 100;  // choice: so many runs of one job in one second
  for (const std::string& given : {arguments.resume, arguments.directory}) {
    if (!given.empty()) {
      return RunDirectory::Open(given);
    }
  }
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  for (int number = 1;; ++number) {
    auto directory = RunDirectory::Open(DefaultRunDirectory(
        error ? "." : here.string(), job.metadata.name, SystemClock().WallNow()));
    const bool is_taken = !directory.ok() && directory.error().code() == ErrorCode::kAlreadyExists;
    if (!is_taken || number == kTriesMax) {
      return directory;
    }
  }
}

// Held until the run ends; closed where there is nothing to hold, or where the trainer will say
// what is wrong with the folder.
Result<UniqueFd> HoldCheckpoints(const Workshop& shop, const RunDirectory& directory) {
  const std::string folder = CheckpointDirectoryOf(shop.job, directory.path());
  auto lock = folder.empty() ? UniqueFd() : LockCheckpoints(folder);
  const bool is_refused = !lock.ok() && (lock.error().code() == ErrorCode::kAlreadyExists ||
                                         lock.error().code() == ErrorCode::kCorrupt);
  return lock.ok() || is_refused ? std::move(lock) : UniqueFd();
}

// As words of a command line.
std::vector<std::string> ChangesOf(const JobSource& source) {
  std::vector<std::string> words;
  for (const Setting& setting : source.settings) {
    words.insert(words.end(), {"--set", ToText(setting)});
  }
  if (source.workers) {
    words.insert(words.end(), {"--workers", std::to_string(*source.workers)});
  }
  return words;
}

}  // namespace

int RunRun(RunArguments arguments) {
  int exit_code = kCliFailed;
  if (const std::string why = WhyUmaskIsRefused(CurrentUmask()); !why.empty()) {
    return Complain(kCliUsage, why);
  }
  if (!arguments.resume.empty()) {
    const auto run = FindRun(arguments.resume);
    if (!run.ok()) {
      return Complain(kCliUsage, run.error().message());
    }
    arguments.resume = run->directory;  // its name below runs will do, as for logs and stop
  }
  const std::string& run_directory =
      arguments.resume.empty() ? arguments.directory : arguments.resume;
  if (const Status writable =
          CheckSummaryFile(arguments.summary_file, arguments.source.file, run_directory);
      !writable.ok()) {
    return Complain(kCliUsage, writable.error().message());
  }
  Workshop shop;
  if (const Status ready = Prepare(arguments, &shop, &exit_code); !ready.ok()) {
    const std::string& message = ready.error().message();
    if (exit_code == kCliUsage) {
      std::fprintf(stderr, "%s\n", message.c_str());  // lines that begin with the file's name
      return exit_code;
    }
    return exit_code == kCliRefused ? WriteRefusal(arguments, shop.job, message)
                                    : Complain(exit_code, message);
  }
  // From here on a stop has something to put in order.
  auto signals = StopSignals::Block();
  if (!signals.ok()) {
    return Complain(kCliFailed, signals.error().ToString());
  }
  const auto directory = OpenDirectory(arguments, shop.job);
  if (!directory.ok()) {
    return Complain(kCliFailed, directory.error().ToString());
  }
  const KeyRemoval key_removal(arguments.keep ? "" : directory->KeyFile());
  const auto checkpoints = HoldCheckpoints(shop, *directory);
  if (!checkpoints.ok()) {
    return Complain(kCliFailed, checkpoints.error().message());
  }
  ConsoleOptions console_options;
  console_options.fd = STDOUT_FILENO;
  console_options.is_terminal = ::isatty(STDOUT_FILENO) == 1;
  console_options.is_quiet = arguments.quiet;
  Console console(console_options);
  TellBeginnings(shop, *directory, &console);
  JobNote note(&shop, &*directory);
  if (!ReadEarlierRun(directory->path()).ok()) {
    note.Write();
  }
  if (!note.status().ok()) {
    return Complain(kCliFailed, note.status().error().ToString());
  }
  auto summary = Carry(arguments, &*signals, &note, &console);
  if (!summary.ok()) {
    return Complain(kCliFailed, summary.error().ToString());
  }
  summary->manifest_file = arguments.source.file;
  summary->manifest_changes = ChangesOf(arguments.source);
  return Report(arguments, *summary, *directory, &console);
}

}  // namespace lockstep::control
