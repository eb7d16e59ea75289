#include "common/contract/environment/tf_config.h"

#include <charconv>
#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "common/contract/text/problems.h"
#include "common/json/json.h"

namespace lockstep {
namespace {

// An index above every job that CheckTopology admits.
constexpr int64_t kTaskIndexMax = int64_t{kReplicasMax} * kProcessesMax;

// Alphabetical, as legacy programs saw the cluster's keys.
constexpr std::array<Role, 4> kEncodingOrder = {
    Role::kChief, Role::kEvaluator, Role::kPs, Role::kWorker};

int CountOf(const TfConfig& config, Role role) {
  const auto found = config.cluster.find(role);
  return found == config.cluster.end() ? 0 : static_cast<int>(found->second.size());
}

// The task of a rank as TensorFlow numbers it.
TaskId TaskOfRank(bool has_chief, int rank) {
  if (has_chief) {
    return rank == 0 ? TaskId{Role::kChief, 0} : TaskId{Role::kWorker, rank - 1};
  }
  return {Role::kWorker, rank};
}

TaskId TaskOf(const JobTopology& topology, const RankPlace& place) {
  const std::optional<int> rank = FirstRankOf(topology, place.task);
  return rank.has_value()
             ? TaskOfRank(ProcessesOf(topology, Role::kChief) > 0, *rank + place.local_rank)
             : place.task;
}

// Every process of the job under its task.
std::map<Role, TaskAddresses> WholeCluster(const JobTopology& topology) {
  std::map<Role, TaskAddresses> cluster;
  for (const TaskId& pod : AllTasks(topology)) {
    for (int l = 0; l < ProcessesOf(topology, pod.role); ++l) {
      const TaskId task = TaskOf(topology, {pod, l});
      cluster[task.role][task.index] = MeshAddress(topology, {pod, l});
    }
  }
  return cluster;
}

// What is left of `cluster` in the sparse document of `task`.
void MakeSparse(const TaskId& task, std::map<Role, TaskAddresses>* cluster) {
  for (auto role = cluster->begin(); role != cluster->end();) {
    const bool is_whole =
        role->first == Role::kChief || (role->first == Role::kPs && task.role != Role::kPs);
    if (!is_whole) {
      std::erase_if(role->second, [&](const auto& entry) {
        return TaskId{role->first, entry.first} != task;
      });
    }
    role = role->second.empty() ? cluster->erase(role) : std::next(role);
  }
}

// What a parse has found out so far.
struct Parse {
  TfConfig config;
  std::map<HostPort, std::string> path_of_address;
  std::vector<Error> errors;
};

// A task index as TensorFlow reads it, by int(): a number, or its digits as a string.
std::optional<int64_t> ReadIndex(const Json& value) {
  int64_t index = 0;
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, index);
    return problem == std::errc() && stop == end ? std::optional(index) : std::nullopt;
  }
  if (value.is_number_float()) {
    const double number = value.get<double>();
    const bool is_whole = number >= -1e9 && number <= 1e9 &&
                          static_cast<double>(static_cast<int64_t>(number)) == number;
    return is_whole ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
  }
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})) {
    return std::nullopt;
  }
  return value.get<int64_t>();
}

void ReadAddress(const Json& value, const TaskId& task, const std::string& path, Parse* parse) {
  if (!value.is_string()) {
    parse->errors.push_back(Problem(path, DescribeJson(value), "an address \"host:port\""));
    return;
  }
  Result<HostPort> address = ParseHostPort(value.get<std::string>());
  if (!address.ok()) {
    parse->errors.push_back(std::move(address).error().WithField(path));
    return;
  }
  const auto [first, is_new] = parse->path_of_address.emplace(*address, path);
  if (!is_new) {
    parse->errors.push_back(
        Problem(path,
                DescribeJson(value),
                "a different address; " + first->second + " already uses this one"));
  }
  parse->config.cluster[task.role][task.index] = std::move(address).value();
}

void ReadSparseRole(const Json& value, Role role, const std::string& path, Parse* parse) {
  parse->config.is_sparse = true;
  for (const auto& [key, address] : value.items()) {
    const std::optional<int64_t> index = ReadIndex(Json(key));
    const std::string entry_path = path + "." + key;
    if (!index.has_value() || *index < 0 || *index > kTaskIndexMax) {
      parse->errors.push_back(
          Problem(entry_path, "index " + Quoted(key), "a whole number of at least 0"));
      continue;
    }
    const TaskId task{role, static_cast<int>(*index)};
    if (const auto known = parse->config.cluster.find(role);
        known != parse->config.cluster.end() && known->second.count(task.index) > 0) {
      parse->errors.push_back(Problem(entry_path, "index " + Quoted(key), "each index once"));
      continue;
    }
    ReadAddress(address, task, entry_path, parse);
  }
}

void ReadRole(const std::string& name, const Json& value, Parse* parse) {
  const std::string path = "TF_CONFIG.cluster." + name;
  const std::optional<Role> role = ParseRole(name);
  if (!role.has_value()) {
    const bool is_legacy_chief = name == "master";
    parse->errors.push_back(Problem(path,
                                    "role " + Quoted(name),
                                    std::string("one of chief, worker, ps, evaluator") +
                                        (is_legacy_chief ? "; \"master\" is now \"chief\"" : "")));
    return;
  }
  if (value.is_object()) {
    ReadSparseRole(value, *role, path, parse);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      ReadAddress(
          value[i], {*role, static_cast<int>(i)}, path + "[" + std::to_string(i) + "]", parse);
    }
  } else {
    parse->errors.push_back(
        Problem(path, DescribeJson(value), "a list of addresses, or an object {index: address}"));
    return;
  }
  const bool is_single = *role == Role::kChief || *role == Role::kEvaluator;
  if (is_single && value.size() > 1) {
    parse->errors.push_back(
        Problem(path, std::to_string(value.size()) + " addresses", "at most one " + name));
  }
}

void ReadCluster(const Json& value, const TfConfigRules& rules, Parse* parse) {
  if (!value.is_object()) {
    parse->errors.push_back(
        Problem("TF_CONFIG.cluster", DescribeJson(value), "an object {role: addresses}"));
    return;
  }
  for (const auto& [name, addresses] : value.items()) {
    ReadRole(name, addresses, parse);
  }
  if (!rules.allow_ps && CountOf(parse->config, Role::kPs) > 0) {
    parse->errors.push_back(
        Problem("TF_CONFIG.cluster.ps",
                std::to_string(CountOf(parse->config, Role::kPs)) + " addresses",
                "none: a mirrored strategy has no parameter servers"));
  }
}

// The task's type and index, whatever the cluster says.
void ReadTask(const Json& value, Parse* parse) {
  ObjectReader reader(value, "TF_CONFIG.task", &parse->errors);
  if (!value.is_object()) {
    return;
  }
  const Json* type = reader.Require("type", "one of chief, worker, ps, evaluator");
  const Json* index = reader.Require("index", "a whole number of at least 0");
  std::optional<Role> role;
  if (type != nullptr) {
    role = type->is_string() ? ParseRole(type->get<std::string>()) : std::nullopt;
    if (!role.has_value()) {
      reader.Fail("type",
                  DescribeJson(*type) + " found, expected one of chief, worker, ps, evaluator");
    }
  }
  std::optional<int64_t> number;
  if (index != nullptr) {
    number = ReadIndex(*index);
    if (!number.has_value() || *number < 0 || *number > kTaskIndexMax) {
      reader.Fail("index", DescribeJson(*index) + " found, expected a whole number of at least 0");
      number.reset();
    }
  }
  if (role.has_value() && number.has_value()) {
    parse->config.task = TaskId{*role, static_cast<int>(*number)};
  }
}

// Whether the task is one that the cluster has.
void CheckTaskInCluster(Parse* parse) {
  if (parse->config.cluster.empty()) {
    parse->errors.push_back(Problem("TF_CONFIG.cluster", "no address", "at least one"));
    return;
  }
  const TaskId task = *parse->config.task;
  const std::string name(RoleName(task.role));
  const auto found = parse->config.cluster.find(task.role);
  if (found == parse->config.cluster.end()) {
    // The evaluator stands outside the training cluster and need not be listed.
    if (task != TaskId{Role::kEvaluator, 0}) {
      parse->errors.push_back(Problem(
          "TF_CONFIG.task.type", Quoted(name), "a role of TF_CONFIG.cluster that has addresses"));
    }
    return;
  }
  if (found->second.count(task.index) > 0) {
    return;
  }
  const std::string expected = parse->config.is_sparse
                                   ? "an index that TF_CONFIG.cluster." + name + " lists"
                                   : "less than " + std::to_string(found->second.size()) +
                                         ", the number of " + name + " addresses";
  parse->errors.push_back(Problem("TF_CONFIG.task.index", std::to_string(task.index), expected));
}

// A document without cluster: TensorFlow runs it locally whatever its task says. We refuse a task
// that cannot be alone.
void CheckLocalTask(Parse* parse) {
  const std::optional<TaskId>& task = parse->config.task;
  if (task.has_value() && (task->index != 0 || task->role == Role::kPs)) {
    parse->errors.push_back(Error(ErrorCode::kInvalidArgument,
                                  "missing, expected the addresses of all tasks: task " +
                                      TaskName(*task) + " cannot run alone")
                                .WithField("TF_CONFIG.cluster"));
  }
}

bool HasNoGap(const TaskAddresses& addresses) {
  return addresses.rbegin()->first == static_cast<int>(addresses.size()) - 1;
}

Json EncodeAddresses(const TaskAddresses& addresses, bool as_list) {
  Json json = as_list ? Json::array() : Json::object();
  for (const auto& [index, address] : addresses) {
    if (as_list) {
      json.push_back(FormatHostPort(address));
    } else {
      json[std::to_string(index)] = FormatHostPort(address);
    }
  }
  return json;
}

Json EncodeDocument(const TfConfig& config, const TaskId& task) {
  Json cluster = Json::object();
  for (const Role role : kEncodingOrder) {
    const auto found = config.cluster.find(role);
    if (found == config.cluster.end()) {
      continue;
    }
    // In the sparse documents of chief and workers all ps are known, and were always a list.
    const bool is_list =
        !config.is_sparse || (role == Role::kPs && IsRank(task.role) && HasNoGap(found->second));
    cluster[std::string(RoleName(role))] = EncodeAddresses(found->second, is_list);
  }
  Json json = Json::object();
  json["cluster"] = std::move(cluster);
  json["task"]["type"] = std::string(RoleName(task.role));
  json["task"]["index"] = task.index;
  if (!config.environment.empty()) {
    json["environment"] = config.environment;
  }
  return json;
}

}  // namespace

Result<TfConfig> MakeTfConfig(const JobTopology& topology,
                              const RankPlace& place,
                              const TfConfigOptions& options) {
  TfConfig config;
  config.cluster = WholeCluster(topology);
  const TaskId task = TaskOf(topology, place);
  const auto own_role = config.cluster.find(task.role);
  LOCKSTEP_CHECK(own_role != config.cluster.end() && own_role->second.count(task.index) > 0,
                 TaskName(place.task) + " is not in the job");
  const bool is_lone = config.cluster.size() == 1 && own_role->second.size() == 1;
  if (is_lone) {
    return TfConfig{};
  }
  config.task = task;
  if (!options.include_evaluator && task.role != Role::kEvaluator) {
    config.cluster.erase(Role::kEvaluator);
  }
  if (options.sparse) {
    if (IsRank(place.task.role) && ProcessesOf(topology, place.task.role) > 1) {
      return Error(ErrorCode::kInvalidArgument,
                   "a sparse TF_CONFIG cannot be used with several processes in each pod, because "
                   "it cannot list the other processes of a pod");
    }
    MakeSparse(task, &config.cluster);
    config.is_sparse = true;
  } else if (options.include_environment) {
    config.environment = "cloud";
  }
  return config;
}

Result<std::string> EncodeTfConfig(const TfConfig& config) {
  if (config.is_local()) {
    return std::string();
  }
  LOCKSTEP_CHECK(config.task.has_value(), "the cluster has no task");
  std::string text = DumpJson(EncodeDocument(config, *config.task));
  if (text.size() >= kTfConfigBytesMax) {
    return Error(ErrorCode::kResourceExhausted,
                 std::to_string(text.size()) + " bytes found, expected less than " +
                     std::to_string(kTfConfigBytesMax) +
                     ", the longest environment variable that Linux accepts: use fewer pods or "
                     "shorter names")
        .WithField("TF_CONFIG");
  }
  return text;
}

std::string EncodeServedTfConfig(const TfConfig& config,
                                 const TaskId& task,
                                 const GangStart& start) {
  Json json = EncodeDocument(config, config.task.value_or(task));
  json["attempt"] = start.attempt.value();
  json["epoch"] = start.epoch.value();
  return DumpJson(json);
}

Result<TfConfig> ParseTfConfig(std::string_view text, const TfConfigRules& rules) {
  if (text.empty()) {
    return TfConfig{};
  }
  if (text.size() >= kTfConfigBytesMax) {
    return Problem("TF_CONFIG",
                   std::to_string(text.size()) + " bytes",
                   "less than " + std::to_string(kTfConfigBytesMax));
  }
  Result<Json> json = ParseJson(text);
  if (!json.ok()) {
    return std::move(json).error().WithField("TF_CONFIG");
  }
  Parse parse;
  ObjectReader reader(*json, "TF_CONFIG", &parse.errors);
  const Json* cluster = reader.Find("cluster");
  const Json* task = reader.Find("task");
  const bool has_cluster = cluster != nullptr && !(cluster->is_object() && cluster->empty());
  if (has_cluster) {
    ReadCluster(*cluster, rules, &parse);
    parse.config.environment = reader.String("environment").value_or("");
    reader.Require("task", "{type, index} of this process's task in the cluster");
  }
  if (task != nullptr && !(task->is_object() && task->empty() && !has_cluster)) {
    ReadTask(*task, &parse);
  }
  if (parse.errors.empty() && has_cluster) {
    CheckTaskInCluster(&parse);
  } else if (parse.errors.empty()) {
    CheckLocalTask(&parse);
  }
  if (!parse.errors.empty()) {
    return CombineProblems(parse.errors);
  }
  return std::move(parse.config);
}

std::optional<int> TaskNumber(const TfConfig& config) {
  if (config.is_local()) {
    return 0;
  }
  switch (config.task->role) {
    case Role::kChief:
    case Role::kEvaluator:
      return config.task->index;
    case Role::kWorker:
      return config.task->index + CountOf(config, Role::kChief);
    case Role::kPs:
      return std::nullopt;
  }
  return std::nullopt;
}

Result<std::vector<HostPort>> RankAddresses(const TfConfig& config) {
  if (config.is_sparse) {
    return Problem("TF_CONFIG.cluster", "a list of only some tasks", "a list of all tasks");
  }
  std::vector<HostPort> addresses;
  for (const Role role : {Role::kChief, Role::kWorker}) {
    if (const auto found = config.cluster.find(role); found != config.cluster.end()) {
      for (const auto& [index, address] : found->second) {
        addresses.push_back(address);
      }
    }
  }
  return addresses;
}

TfConfig TfConfigOfRank(const TfConfig& config, int rank) {
  LOCKSTEP_CHECK(!config.is_sparse, "a sparse document describes only one task");
  LOCKSTEP_CHECK(rank >= 0 && rank < CountOf(config, Role::kChief) + CountOf(config, Role::kWorker),
                 "rank " + std::to_string(rank) + " is not in the cluster");
  TfConfig other = config;
  other.task = TaskOfRank(CountOf(config, Role::kChief) > 0, rank);
  return other;
}

}  // namespace lockstep
