// Reading back what environment.cc has rendered.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "common/contract/environment/cluster_shape.h"
#include "common/contract/environment/environment.h"
#include "common/contract/text/problems.h"

namespace lockstep {
namespace {

constexpr int64_t kSecondsMax = 10LL * 365 * 24 * 3600;  // choice: ten years is for ever
constexpr int64_t kRankMax = int64_t{kReplicasMax} * kProcessesMax;

// Reads variables one by one and records what is wrong with each. An empty variable counts as
// absent: a shell cannot tell the two apart.
class VariableReader {
 public:
  VariableReader(const EnvironmentMap& variables, std::vector<Error>* errors)
      : variables_(variables), errors_(errors) {}

  std::string Text(const char* name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? std::string() : found->second;
  }

  std::string RequiredText(const char* name, std::string_view expected) {
    std::string text = Text(name);
    if (text.empty()) {
      FailMissing(name, expected);
    }
    return text;
  }

  int64_t Number(const char* name, int64_t min, int64_t max, int64_t otherwise) {
    const std::string text = Text(name);
    if (text.empty()) {
      return otherwise;
    }
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    if (problem != std::errc() || stop != end || value < min || value > max) {
      const std::string expected =
          max == kUnbounded
              ? "a whole number of at least " + std::to_string(min)
              : "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
      errors_->push_back(Problem(name, Quoted(text), expected));
      return otherwise;
    }
    return value;
  }

  // Whole numbers from 0 with commas between them; none where the variable is not there.
  std::vector<int64_t> Numbers(const char* name) {
    const std::string text = Text(name);
    std::vector<int64_t> numbers;
    const char* next = text.data();
    const char* const end = text.data() + text.size();
    bool is_list = true;
    while (is_list && next != end) {
      int64_t value = 0;
      const auto [stop, problem] = std::from_chars(next, end, value);
      is_list = problem == std::errc() && value >= 0 && (stop == end || *stop == ',');
      next = stop == end ? end : stop + 1;
      is_list = is_list && (next != end || stop == end);
      numbers.push_back(value);
    }
    if (!is_list) {
      errors_->push_back(Problem(name, Quoted(text), "whole numbers separated by commas"));
      numbers.clear();
    }
    return numbers;
  }

  // The value of the variable's word; null where it is not there or wrong (wrong is recorded).
  template <typename Enum, std::size_t N>
  std::optional<Enum> Word(const char* name, const EnumNames<Enum, N>& names) {
    const std::string word = Text(name);
    const std::optional<Enum> value = ValueOf(names, word);
    if (!word.empty() && !value.has_value()) {
      std::string expected = "one of";
      for (const std::string_view known : WordsOf(names)) {
        expected += (expected == "one of" ? " " : ", ") + std::string(known);
      }
      errors_->push_back(Problem(name, Quoted(word), expected));
    }
    return value;
  }

  int64_t RequiredNumber(const char* name, int64_t min, int64_t max = kUnbounded) {
    if (Text(name).empty()) {
      FailMissing(name, "a whole number");
    }
    return Number(name, min, max, min);
  }

  int Int(const char* name, int min, int64_t max, int otherwise) {
    return static_cast<int>(Number(name, min, max, otherwise));
  }

  void FailMissing(const char* name, std::string_view expected) {
    errors_->push_back(
        Error(ErrorCode::kInvalidArgument, "missing, expected " + std::string(expected))
            .WithField(name));
  }

 private:
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

  const EnvironmentMap& variables_;
  std::vector<Error>* errors_;
};

void ReadIdentity(VariableReader* reader,
                  WorkerEnvironment* environment,
                  std::vector<Error>* errors) {
  environment->job = reader->RequiredText(env::kJob, "the job's name");
  environment->namespace_name = reader->RequiredText(env::kNamespace, "the job's namespace");
  environment->job_uid = reader->RequiredText(env::kJobUid, "the job's unique id");
  environment->attempt = Attempt(reader->RequiredNumber(env::kAttempt, 0));
  environment->epoch = Epoch(reader->RequiredNumber(env::kEpoch, 0));
  environment->incarnation = Incarnation(reader->RequiredNumber(env::kIncarnation, 0));
  environment->pod = reader->RequiredText(env::kPod, "the pod's name");
  const std::string role = reader->RequiredText(env::kRole, "chief, worker, ps or evaluator");
  if (const std::optional<Role> known = ParseRole(role)) {
    environment->task.role = *known;
  } else if (!role.empty()) {
    errors->push_back(Problem(env::kRole, Quoted(role), "one of chief, worker, ps, evaluator"));
  }
  environment->task.index =
      static_cast<int>(reader->RequiredNumber(env::kIndex, 0, kReplicasMax - 1));
}

void ReadRanks(VariableReader* reader, WorkerEnvironment* environment, std::vector<Error>* errors) {
  environment->world_size = static_cast<int>(reader->RequiredNumber(env::kWorldSize, 1, kRankMax));
  environment->processes = reader->Int(env::kProcesses, 1, kProcessesMax, 1);
  const std::string rank = reader->Text(env::kRank);
  if (!IsRank(environment->task.role)) {
    if (!rank.empty()) {
      errors->push_back(Problem(
          env::kRank,
          Quoted(rank),
          "none: a pod of role " + std::string(RoleName(environment->task.role)) + " has no rank"));
    }
    return;
  }
  environment->rank = static_cast<int>(reader->RequiredNumber(env::kRank, 0, kRankMax));
  if (*environment->rank + environment->processes > environment->world_size) {
    errors->push_back(Problem(env::kRank,
                              std::to_string(*environment->rank),
                              "a lower rank: the ranks of all " +
                                  std::to_string(environment->processes) +
                                  " processes must be below LOCKSTEP_WORLD_SIZE = " +
                                  std::to_string(environment->world_size)));
  }
  environment->master.host = reader->Text(env::kTorchMasterAddress);
  if (!environment->master.host.empty()) {
    environment->master.port = reader->Int(env::kTorchMasterPort, 1, 65535, kMasterPort);
    environment->horovod_port = reader->Int(env::kHorovodRendezvousPort, 1, 65535, kHorovodPort);
  }
  environment->network = reader->Text(env::kHorovodGlooInterface);
}

Status CheckIsInShape(const JobTopology& topology, const TaskId& task) {
  const std::vector<TaskId> tasks = AllTasks(topology);
  if (std::find(tasks.begin(), tasks.end(), task) == tasks.end()) {
    return Error(ErrorCode::kMismatch, TaskName(task) + " is not in this cluster")
        .WithField(env::kCluster);
  }
  return OkStatus();
}

// What a brief environment leaves out, by the function that the operator would have used.
Result<WorkerEnvironment> MakeFromShape(const std::string& pod, VariableReader* reader) {
  const std::optional<PodNameParts> parts = ParsePodName(pod);
  if (!parts.has_value()) {
    return Problem(env::kPod, Quoted(pod), "a name of the form job-role-index[-aN][-rN]");
  }
  const std::string cluster = reader->Text(env::kCluster);
  LOCKSTEP_ASSIGN_OR_RETURN(const JobTopology topology,
                            ParseClusterShape(cluster, parts->job, reader->Text(env::kNamespace)));
  LOCKSTEP_RETURN_IF_ERROR(CheckIsInShape(topology, parts->task));
  LOCKSTEP_ASSIGN_OR_RETURN(WorkerEnvironment environment,
                            MakeWorkerEnvironment(topology,
                                                  {parts->task,
                                                   parts->number,
                                                   Epoch(reader->RequiredNumber(env::kEpoch, 0)),
                                                   reader->Text(env::kJobUid)}));
  environment.cluster = cluster;
  return environment;
}

void ReadBrief(VariableReader* reader, WorkerEnvironment* environment, std::vector<Error>* errors) {
  const std::string pod = reader->RequiredText(env::kPod, "the pod's name");
  const std::string space = reader->RequiredText(env::kNamespace, "the job's namespace");
  const std::string uid = reader->RequiredText(env::kJobUid, "the job's unique id");
  if (pod.empty() || space.empty() || uid.empty()) {
    return;
  }
  Result<WorkerEnvironment> made = MakeFromShape(pod, reader);
  if (made.ok()) {
    *environment = std::move(made).value();
  } else {
    errors->push_back(std::move(made).error());
  }
}

void ReadSettings(VariableReader* reader, WorkerEnvironment* environment) {
  if (const std::string bind = reader->Text(env::kBindAddress); !bind.empty()) {
    environment->bind_address = bind;
  }
  environment->status_port = reader->Int(env::kStatusPort, 0, 65535, kStatusPort);
  environment->job_key_file = reader->Text(env::kJobKeyFile);
  environment->training = reader->Text(env::kTraining);
  environment->checkpoint_directory = reader->Text(env::kCheckpointDirectory);
  environment->data_directory = reader->Text(env::kDataDirectory);
  environment->grace = std::chrono::seconds(
      reader->Number(env::kGraceSeconds, 0, kSecondsMax, kDefaultGrace.count()));
  environment->termination_message_file = reader->Text(env::kTerminationMessageFile);
  environment->rendezvous_timeout = std::chrono::seconds(reader->Number(
      env::kRendezvousTimeoutSeconds, 1, kSecondsMax, kDefaultRendezvousTimeout.count()));
  environment->silent_after = std::chrono::milliseconds(
      reader->Number(env::kSilentAfterMs, 1, kSecondsMax * 1000, kDefaultSilentAfter.count()));
  const int64_t hung_after = reader->Number(env::kHungAfterMs, 1, kSecondsMax * 1000, 0);
  if (hung_after > 0) {
    environment->hung_after = std::chrono::milliseconds(hung_after);
  }
  environment->hold = std::chrono::seconds(reader->Number(env::kHoldSeconds, 0, kSecondsMax, 0));
  environment->launcher = reader->Word(env::kLauncher, kProcessLauncherNames);
  environment->gpu_visibility = reader->Word(env::kGpuVisibility, kGpuVisibilityNames);
  environment->control_counter =
      reader->Number(env::kControlCounter, 0, std::numeric_limits<int64_t>::max(), 0);
  for (const int64_t incarnation : reader->Numbers(env::kPsIncarnations)) {
    environment->ps_incarnations.emplace_back(incarnation);
  }
}

// TF_CONFIG as it stands, or as it follows from the job's shape.
Result<TfConfig> ReadTfConfig(const std::string& text, const WorkerEnvironment& environment) {
  const bool has_own = !text.empty() && text != kTfConfigTooLong;
  if (has_own || environment.cluster.empty()) {
    return ParseTfConfig(text);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const JobTopology topology,
      ParseClusterShape(environment.cluster, environment.job, environment.namespace_name));
  LOCKSTEP_RETURN_IF_ERROR(CheckIsInShape(topology, environment.task));
  return MakeTfConfig(topology, {environment.task, 0});
}

void ReadFull(VariableReader* reader, WorkerEnvironment* environment, std::vector<Error>* errors) {
  ReadIdentity(reader, environment, errors);
  ReadRanks(reader, environment, errors);
  environment->host = reader->Text(env::kHost);
  environment->cluster = reader->Text(env::kCluster);
  Result<TfConfig> tf_config = ReadTfConfig(reader->Text(env::kTfConfig), *environment);
  if (tf_config.ok()) {
    environment->tf_config = std::move(tf_config).value();
  } else {
    errors->push_back(std::move(tf_config).error());
  }
}

Error Contradiction(const char* field, const std::string& found, const std::string& expected) {
  return Error(ErrorCode::kMismatch, found + " found, expected " + expected).WithField(field);
}

// Whether TF_CONFIG tells the same story as LOCKSTEP_*.
Status CheckAgainstTfConfig(const WorkerEnvironment& environment) {
  const TfConfig& config = environment.tf_config;
  const std::string world_size = std::to_string(environment.world_size);
  if (config.is_local()) {
    if (environment.rank.has_value() && environment.world_size > 1) {
      return Contradiction(
          env::kTfConfig, "no cluster", "the addresses of " + world_size + " ranks");
    }
    return OkStatus();
  }
  if (config.task->role != environment.task.role) {
    return Contradiction(env::kTfConfig,
                         "task " + TaskName(*config.task),
                         "LOCKSTEP_ROLE = " + std::string(RoleName(environment.task.role)));
  }
  if (config.is_sparse && environment.processes > 1) {
    return Contradiction(
        env::kTfConfig, "a list of only some tasks", std::string(env::kProcesses) + " = 1");
  }
  if (config.is_sparse) {
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<HostPort> addresses, RankAddresses(config));
  if (addresses.size() != static_cast<std::size_t>(environment.world_size)) {
    return Contradiction(env::kTfConfig,
                         std::to_string(addresses.size()) + " addresses of chief and workers",
                         "LOCKSTEP_WORLD_SIZE = " + world_size);
  }
  const int number = environment.rank.value_or(environment.task.index);
  if (TaskNumber(config).value_or(config.task->index) != number) {
    return Contradiction(env::kTfConfig,
                         "task " + TaskName(*config.task),
                         environment.rank.has_value()
                             ? "the task of LOCKSTEP_RANK = " + std::to_string(number)
                             : "LOCKSTEP_INDEX = " + std::to_string(number));
  }
  return OkStatus();
}

}  // namespace

Result<WorkerEnvironment> ParseEnvironment(const EnvironmentMap& variables) {
  WorkerEnvironment environment;
  std::vector<Error> errors;
  VariableReader reader(variables, &errors);
  if (!reader.Text(env::kCluster).empty() && reader.Text(env::kWorldSize).empty()) {
    ReadBrief(&reader, &environment, &errors);
  } else {
    ReadFull(&reader, &environment, &errors);
  }
  ReadSettings(&reader, &environment);
  if (!errors.empty()) {
    return CombineProblems(errors);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckAgainstTfConfig(environment));
  return environment;
}

}  // namespace lockstep
