#include "operator/api/rules/rules.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/contract/command/python_command.h"
#include "common/contract/environment/cluster_shape.h"
#include "common/contract/environment/environment.h"
#include "common/contract/environment/tf_config.h"
#include "common/contract/environment/topology.h"
#include "common/contract/text/problems.h"
#include "common/json/json.h"
#include "operator/api/fields/fields.h"
#include "operator/api/job/job_topology.h"
#include "operator/api/job/pod_template.h"
#include "operator/api/rules/gang_spread.h"
#include "operator/api/rules/launch_rules.h"
#include "operator/api/rules/recovery_rules.h"
#include "operator/api/rules/scheduling_rules.h"

namespace lockstep::control {
namespace {

std::string ToText(int64_t number) {
  return std::to_string(number);
}

// One check of one job. Fields that were wrong before are not judged again.
class RuleChecker {
 public:
  RuleChecker(const TrainingJob& job, std::vector<Error>* errors)
      : job_(job), spec_(job.spec), errors_(errors), known_count_(errors->size()) {}

  void Run() {
    CheckNamesUnique();
    CheckHasRank();
    CheckStrategy();
    CheckCheckpoints();
    for (std::size_t i = 0; i < spec_.roles.size(); ++i) {
      CheckRole(spec_.roles[i], RolePath(i));
    }
    CheckProcessesEqual();
    CheckTrainerRanks();
    CheckTfConfigFits();
    CheckMasterPorts();
    CheckScheduling();
    CheckBatch();
    CheckCommunication();
    CheckMaxStaleness();
    CheckPrecision();
    CheckElastic();
    CheckRecovery();
  }

 private:
  static std::string RolePath(std::size_t index) {
    return "spec.roles[" + std::to_string(index) + "]";
  }

  // Whether decoding found a mistake at this very field.
  bool HasError(std::string_view path) const {
    return std::any_of(errors_->begin(),
                       errors_->begin() + static_cast<std::ptrdiff_t>(known_count_),
                       [path](const Error& error) { return error.field() == path; });
  }

  // Whether decoding found no mistake at the field, inside it, or at a field around it.
  bool IsTrusted(std::string_view path) const {
    return std::none_of(errors_->begin(),
                        errors_->begin() + static_cast<std::ptrdiff_t>(known_count_),
                        [path](const Error& error) {
                          return IsWithin(error.field(), path) || IsWithin(path, error.field());
                        });
  }

  void Fail(std::string field, std::string message) {
    AddError(errors_, std::move(field), std::move(message));
  }

  std::string StrategyText() const { return Quoted(StrategyName(spec_.strategy)); }

  void CheckNamesUnique() {
    std::map<Role, std::size_t> first;
    for (std::size_t i = 0; i < spec_.roles.size(); ++i) {
      if (!IsTrusted(RolePath(i) + ".name")) {
        continue;
      }
      const auto [earlier, is_new] = first.emplace(spec_.roles[i].name, i);
      if (!is_new) {
        Fail(RolePath(i) + ".name",
             Quoted(RoleName(spec_.roles[i].name)) + " found twice, first in " +
                 RolePath(earlier->second));
      }
    }
  }

  void CheckHasRank() {
    if (IsTrusted("spec.roles") && job_.RankPodCount() == 0) {
      Fail("spec.roles", "no worker and no chief found, expected at least one pod that trains");
    }
  }

  void CheckStrategy() {
    if (!IsTrusted("spec.strategy")) {
      return;
    }
    const bool is_built_in =
        spec_.strategy == Strategy::kMirrored || spec_.strategy == Strategy::kMultiWorkerMirrored ||
        spec_.strategy == Strategy::kCentralStorage || spec_.strategy == Strategy::kIndependent ||
        spec_.strategy == Strategy::kParameterServer;
    if (spec_.training && !is_built_in) {
      Fail("spec.strategy",
           StrategyText() +
               " found, but the built-in trainer supports Mirrored, MultiWorkerMirrored, "
               "CentralStorage, ParameterServer and Independent only; use one of them, or remove "
               "spec.training and run a program of your own");
      return;
    }
    const RoleSpec* ps = job_.FindRole(Role::kPs);
    const bool lacks_ps = ps == nullptr || ps->replicas == 0;
    if (spec_.strategy == Strategy::kParameterServer && lacks_ps && IsTrusted("spec.roles")) {
      Fail("spec.roles",
           "no role ps found, but strategy ParameterServer needs at least one pod with this role");
    }
  }

  // A relative path of such a name would be made in the pod, and be gone with it.
  void CheckCheckpoints() {
    const std::string field = "spec.training.checkpoint.directory";
    if (!spec_.training || !IsTrusted(field)) {
      return;
    }
    const std::string& directory = spec_.training->checkpoint.directory;
    if (directory.find("://") != std::string::npos) {
      Fail(field,
           DescribeJson(directory) +
               " found, expected the path of a folder, not a URL: mount the storage into the pods");
    }
  }

  void CheckRole(const RoleSpec& role, const std::string& path) {
    if (!IsTrusted(path + ".name")) {
      return;
    }
    if (IsTrusted("spec.strategy")) {
      CheckRoleAgainstStrategy(role, path);
    }
    if (IsTrusted(path + ".replicas")) {
      CheckReplicas(role, path);
    }
    CheckProgram(role, path);
    CheckPs(role, path);
    if (IsTrusted(path + ".processes") && IsTrusted(path + ".gpus")) {
      CheckProcesses(role, path);
    }
  }

  void CheckRoleAgainstStrategy(const RoleSpec& role, const std::string& path) {
    const bool is_single_machine =
        spec_.strategy == Strategy::kMirrored || spec_.strategy == Strategy::kCentralStorage;
    const bool takes_ps = spec_.strategy == Strategy::kParameterServer ||
                          (spec_.strategy == Strategy::kIndependent && !spec_.training) ||
                          spec_.strategy == Strategy::kNone;
    if (role.name == Role::kPs && !takes_ps) {
      Fail(path + ".name",
           "\"ps\" found, but " + std::string(StrategyName(spec_.strategy)) +
               " has no parameter servers; remove the role or use strategy: ParameterServer");
    }
    if (!is_single_machine) {
      return;
    }
    const std::string why =
        std::string(StrategyName(spec_.strategy)) +
        " trains on one machine; strategy: MultiWorkerMirrored trains on several";
    if (role.name == Role::kChief) {
      Fail(path + ".name", "\"chief\" found, expected a single worker: " + why);
    }
    if (role.name == Role::kWorker && role.replicas != 1 && IsTrusted(path + ".replicas")) {
      Fail(path + ".replicas",
           ToText(role.replicas) + " workers found, expected exactly 1: " + why);
    }
  }

  void CheckReplicas(const RoleSpec& role, const std::string& path) {
    const bool is_single = role.name == Role::kChief || role.name == Role::kEvaluator;
    if (is_single && role.replicas > 1) {
      Fail(path + ".replicas",
           ToText(role.replicas) + " found, expected at most 1: a job has one " +
               std::string(RoleName(role.name)));
      return;
    }
    if (!IsTrusted("metadata.name") || role.replicas == 0) {
      return;
    }
    const TaskId last{role.name, static_cast<int>(role.replicas - 1)};
    const std::string host = HostName(job_.metadata.name, last);
    if (host.size() > kDnsLabelMax) {
      Fail("metadata.name",
           "gives the host name " + host + ", which has " + std::to_string(host.size()) +
               " characters, expected at most " + std::to_string(kDnsLabelMax) +
               "; shorten the job's name by " + std::to_string(host.size() - kDnsLabelMax));
    }
  }

  void CheckProgram(const RoleSpec& role, const std::string& path) {
    const std::string command_path = path + ".template." + std::string(kContainerPath) + ".command";
    const bool has_template = !role.pod.raw->empty();
    if (spec_.training && role.pod.has_command()) {
      Fail(command_path, "cannot be used with spec.training; use only one of the two");
    }
    if (spec_.training && !role.supervise) {
      Fail(path + ".supervise",
           "false cannot be used with spec.training, because the program is then the runtime "
           "itself; use true");
    }
    if (spec_.training && (role.name == Role::kEvaluator)) {
      Fail(path + ".name",
           "\"evaluator\" found, but the built-in trainer has no evaluator yet; remove the role. "
           "The trainer evaluates at the end, on spec.training.dataset.testSamples");
    }
    CheckWarm(role, path);
    if (!HasError("spec.training")) {
      for (Error& error : LaunchErrors(role, spec_.training.has_value(), path)) {
        errors_->push_back(std::move(error));
      }
    }
    if (HasError("spec.training") || spec_.training || !IsTrusted(path + ".template")) {
      return;
    }
    if (!has_template) {
      Fail(path + ".template",
           "missing; write a pod template with a command, or use spec.training for the built-in "
           "trainer");
    } else if (!role.pod.has_command()) {
      Fail(command_path,
           "missing; write the command that starts the program, or use spec.training for the "
           "built-in trainer");
    }
  }

  // An interpreter is kept by the runtime, and can stand for a plain command of Python's only.
  void CheckWarm(const RoleSpec& role, const std::string& path) {
    const std::string field = path + ".warm";
    if (role.warm.empty() || !IsTrusted(field) || HasError("spec.training")) {
      return;
    }
    if (spec_.training) {
      Fail(field, "is only for jobs that run a command, and cannot be used with spec.training");
    } else if (!role.supervise) {
      Fail(field,
           "cannot be used with supervise: false, because the runtime keeps the warm interpreter; "
           "set supervise: true");
    } else if (role.pod.has_command() && IsTrusted(path + ".template")) {
      std::vector<std::string> command = role.pod.command;
      command.insert(command.end(), role.pod.args.begin(), role.pod.args.end());
      if (const Result<PythonCommand> parsed = ParsePythonCommand(command); !parsed.ok()) {
        Fail(field, "found, but it cannot be used with this command: " + parsed.error().message());
      }
    }
  }

  void CheckPs(const RoleSpec& role, const std::string& path) {
    if (IsOnPs() && role.name == Role::kPs && role.gpus > 0 && IsTrusted(path + ".gpus")) {
      Fail(path + ".gpus",
           ToText(role.gpus) +
               " found, expected 0: the built-in trainer's ps pods update parameters on the CPU");
    }
  }

  void CheckMaxStaleness() {
    const std::string path = "spec.training.maxStaleness";
    if (spec_.training && spec_.training->max_staleness.has_value() && !IsOnPs() &&
        IsTrusted(path) && IsTrusted("spec.strategy")) {
      Fail(path,
           ToText(*spec_.training->max_staleness) + " found, but with strategy " +
               std::string(StrategyName(spec_.strategy)) +
               ", all replicas take each step together; remove it, or use strategy: "
               "ParameterServer");
    }
  }

  void CheckPrecision() {
    if (IsOnPs() && IsTrusted("spec.training.precision") && IsTrusted("spec.strategy") &&
        spec_.training->precision == Precision::kFloat16) {
      Fail("spec.training.precision",
           "Float16 found, but with strategy ParameterServer each worker updates on its own, so "
           "the workers cannot skip a step together; expected BFloat16 or Float32");
    }
  }

  void CheckProcesses(const RoleSpec& role, const std::string& path) {
    if (IsOnPs() && role.processes > 1 && IsTrusted("spec.strategy")) {
      Fail(path + ".processes",
           ToText(role.processes) +
               " found, expected 1: with strategy ParameterServer, each process has its own pod; "
               "use training.replicas, or more replicas of the role");
      return;
    }
    if (!IsRank(role.name) && role.processes > 1) {
      Fail(path + ".processes",
           ToText(role.processes) +
               " found, expected 1: only a chief or worker has several processes in a pod. The one "
               "process sees all GPUs of the pod");
      return;
    }
    const bool is_one_process =
        spec_.strategy == Strategy::kMirrored || spec_.strategy == Strategy::kCentralStorage;
    if (spec_.training && is_one_process && role.processes > 1 && IsTrusted("spec.strategy")) {
      Fail(path + ".processes",
           ToText(role.processes) +
               " processes found, expected 1: " + std::string(StrategyName(spec_.strategy)) +
               " runs in one process; use training.replicas, or strategy: MultiWorkerMirrored");
      return;
    }
    if (role.processes > 1 && role.processes < role.gpus) {
      Fail(path + ".processes",
           ToText(role.processes) + " found, but the pod has " + ToText(role.gpus) +
               " GPUs; expected 1 process, which may use all GPUs, or at least " +
               ToText(role.gpus) + " processes, one for each GPU");
    }
  }

  // Ranks are numbered pod by pod, so pods that train must hold equally many.
  void CheckProcessesEqual() {
    const RoleSpec* chief = job_.FindRole(Role::kChief);
    const RoleSpec* worker = job_.FindRole(Role::kWorker);
    if (chief == nullptr || worker == nullptr || chief->replicas == 0 || worker->replicas == 0 ||
        chief->processes == worker->processes || !AreRolesSound()) {
      return;
    }
    for (std::size_t i = 0; i < spec_.roles.size(); ++i) {
      if (&spec_.roles[i] == worker) {
        Fail(RolePath(i) + ".processes",
             ToText(worker->processes) + " found, but the chief has " + ToText(chief->processes) +
                 ", expected the same number in all pods that train");
      }
    }
  }

  void CheckTrainerRanks() {
    const bool is_independent = spec_.strategy == Strategy::kIndependent;
    const int ranks_max = is_independent ? kModelsMax : kTrainerRanksMax;
    if (spec_.training && AreRolesSound() && job_.WorldSize() > ranks_max) {
      Fail("spec.roles",
           ToText(job_.WorldSize()) + " ranks found, expected at most " + ToText(ranks_max) +
               (is_independent ? ": with strategy Independent, each rank has its own model, and "
                                 "the status has room for no more results"
                               : ": the built-in trainer does not support more yet"));
    }
  }

  // How long TF_CONFIG is where the cluster's domain is the usual one.
  std::size_t TfConfigBytes() const {
    return EstimateTfConfigBytes(TopologyOf(job_, DnsAddressing{"cluster.local"}));
  }

  // A program that nobody supervises can be told by the variable only.
  void CheckTfConfigFits() {
    const bool is_known = AreRolesSound() && IsTrusted("metadata.name");
    for (std::size_t i = 0; is_known && !spec_.training && i < spec_.roles.size(); ++i) {
      const std::size_t bytes = spec_.roles[i].supervise ? 0 : TfConfigBytes();
      if (bytes >= kTfConfigBytesMax) {
        Fail(RolePath(i) + ".supervise",
             "false found, but TF_CONFIG for " + ToText(job_.WorldSize()) +
                 " processes takes about " + ToText(static_cast<int64_t>(bytes)) +
                 " bytes, but Linux allows less than " +
                 ToText(static_cast<int64_t>(kTfConfigBytesMax)) +
                 " in one variable. Set it to true, so that the runtime makes TF_CONFIG from "
                 "LOCKSTEP_CLUSTER, or use fewer pods or shorter names");
      }
    }
  }

  // All ranks meet at one port.
  void CheckMasterPorts() {
    const std::string* first = nullptr;
    std::size_t first_index = 0;
    for (std::size_t i = 0; i < spec_.roles.size(); ++i) {
      const auto& variables = spec_.roles[i].pod.env;
      const auto port = variables.find(env::kTorchMasterPort);
      if (port == variables.end()) {
        continue;
      }
      if (first != nullptr && *first != port->second) {
        Fail(RolePath(i) + ".template." + std::string(kContainerPath) + ".env",
             "MASTER_PORT is " + port->second + ", but " + *first + " in " + RolePath(first_index) +
                 ", expected one port for the job");
      } else if (first == nullptr) {
        first = &port->second;
        first_index = i;
      }
    }
  }

  void CheckScheduling() {
    std::vector<Error> found = SchedulingErrors(spec_);
    FindGangSpread(job_, &found);
    for (const Error& error : found) {
      Fail(error.field(), error.message());
    }
  }

  void CheckBatch() {
    if (!spec_.training || !IsTrusted("spec.training.globalBatchSize") || !AreRolesSound()) {
      return;
    }
    if (!IsTrusted("spec.training.replicas") || !IsTrusted("spec.training.devices")) {
      return;
    }
    // Of several models each takes batches of its own, and on ps each worker whole ones.
    const int64_t sharing_ranks = IsOfSeveralModels() || IsOnPs() ? 1 : job_.WorldSize();
    const auto devices = static_cast<int64_t>(spec_.training->devices.size());
    const int64_t of_rank = std::max(int64_t{spec_.training->replicas}, devices);
    const int64_t replicas = sharing_ranks * of_rank;
    if (spec_.training->global_batch_size < replicas) {
      Fail("spec.training.globalBatchSize",
           ToText(spec_.training->global_batch_size) + " found, expected at least " +
               ToText(replicas) + ": one sample for each replica");
    }
  }

  bool IsOfSeveralModels() const {
    return spec_.training && spec_.strategy == Strategy::kIndependent;
  }

  bool IsOnPs() const { return spec_.training && spec_.strategy == Strategy::kParameterServer; }

  void CheckCommunication() {
    const std::string path = "spec.training.communication.allReduce";
    if ((IsOfSeveralModels() || IsOnPs()) && IsTrusted(path) && IsTrusted("spec.strategy") &&
        spec_.training->communication.all_reduce == AllReduceBackend::kNccl) {
      Fail(path,
           "Nccl found, but strategy " + std::string(StrategyName(spec_.strategy)) +
               " does not add up gradients of workers; expected Auto or Cpu");
    }
  }

  // Whether neither decoding nor a rule found anything wrong with the roles.
  bool AreRolesSound() const {
    return std::none_of(errors_->begin(), errors_->end(), [](const Error& error) {
      return IsWithin(error.field(), "spec.roles") || error.field() == "spec";
    });
  }

  void CheckElastic() {
    if (!spec_.elastic || !IsTrusted("spec.elastic") || !AreRolesSound()) {
      return;
    }
    const RoleSpec* worker = job_.FindRole(Role::kWorker);
    if (worker == nullptr) {
      Fail("spec.elastic", "found, but the job has no role worker, and only workers are elastic");
      return;
    }
    const ElasticSpec& elastic = *spec_.elastic;
    if (elastic.min_replicas > worker->replicas) {
      Fail("spec.elastic.minReplicas",
           ToText(elastic.min_replicas) + " found, expected at most the number of workers, " +
               ToText(worker->replicas));
    }
    if (elastic.max_replicas < worker->replicas) {
      Fail("spec.elastic.maxReplicas",
           ToText(elastic.max_replicas) + " found, expected at least the number of workers, " +
               ToText(worker->replicas));
    }
    const bool is_inside =
        elastic.min_replicas <= worker->replicas && worker->replicas <= elastic.max_replicas;
    if (is_inside && elastic.min_replicas != elastic.max_replicas) {
      Fail("spec.elastic",
           "Lockstep does not change the size of a job by itself yet; set minReplicas and "
           "maxReplicas to the number of workers, " +
               ToText(worker->replicas));
    }
  }

  void CheckRecovery() {
    for (const Error& error : RecoveryErrors(spec_)) {
      if (IsTrusted("spec.recovery")) {
        Fail(error.field(), error.message());
      }
    }
  }

  const TrainingJob& job_;
  const TrainingJobSpec& spec_;
  std::vector<Error>* errors_;
  std::size_t known_count_;
};

}  // namespace

void CheckRules(const TrainingJob& job, std::vector<Error>* errors) {
  RuleChecker(job, errors).Run();
}

}  // namespace lockstep::control
