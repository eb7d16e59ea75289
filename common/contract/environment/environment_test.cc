#include "common/contract/environment/environment.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

JobTopology TwoByTwo() {
  return {"m", "n", {{Role::kWorker, 2, 2}}, LoopbackAddressing{"127.4.5"}};
}

PodIdentity Identity(const TaskId& task) {
  return {task, {Attempt(1), Incarnation(2)}, Epoch(5), "uid-1"};
}

// A pod's environment with every field set to something else than its default.
WorkerEnvironment Sample(const JobTopology& topology, const TaskId& task) {
  WorkerEnvironment environment = MakeWorkerEnvironment(topology, Identity(task)).value();
  environment.status_port = 3333;
  environment.job_key_file = "/keys/job";
  environment.training = R"({"epochs":8})";
  environment.checkpoint_directory = "checkpoints";
  environment.data_directory = "/data";
  environment.grace = std::chrono::seconds(7);
  environment.termination_message_file = "/dev/termination-log";
  environment.rendezvous_timeout = std::chrono::seconds(42);
  environment.silent_after = std::chrono::milliseconds(900);
  environment.hung_after = std::chrono::milliseconds(2500);
  environment.hold = std::chrono::seconds(61);
  environment.launcher = ProcessLauncher::kTorchrun;
  environment.gpu_visibility = GpuVisibility::kOne;
  environment.control_counter = 17;
  environment.ps_incarnations = {Incarnation(0), Incarnation(12)};
  return environment;
}

TEST(Environment, HoldsEveryVariableOfTheContract) {
  const EnvironmentMap expected = {
      {"LOCKSTEP_JOB", "m"},
      {"LOCKSTEP_NAMESPACE", "n"},
      {"LOCKSTEP_JOB_UID", "uid-1"},
      {"LOCKSTEP_ATTEMPT", "1"},
      {"LOCKSTEP_EPOCH", "5"},
      {"LOCKSTEP_INCARNATION", "2"},
      {"LOCKSTEP_POD", "m-worker-1-a1-r2"},
      {"LOCKSTEP_ROLE", "worker"},
      {"LOCKSTEP_INDEX", "1"},
      {"LOCKSTEP_RANK", "2"},
      {"LOCKSTEP_WORLD_SIZE", "4"},
      {"LOCKSTEP_PROCESSES", "2"},
      {"LOCKSTEP_HOST", "127.4.5.2"},
      {"LOCKSTEP_BIND_ADDRESS", "127.4.5.2"},
      {"LOCKSTEP_STATUS_PORT", "3333"},
      {"LOCKSTEP_JOB_KEY_FILE", "/keys/job"},
      {"LOCKSTEP_TRAINING", R"({"epochs":8})"},
      {"LOCKSTEP_CHECKPOINT_DIR", "checkpoints"},
      {"LOCKSTEP_DATA_DIR", "/data"},
      {"LOCKSTEP_GRACE_SECONDS", "7"},
      {"LOCKSTEP_TERMINATION_MESSAGE_FILE", "/dev/termination-log"},
      {"LOCKSTEP_RENDEZVOUS_TIMEOUT_SECONDS", "42"},
      {"LOCKSTEP_SILENT_AFTER_MS", "900"},
      {"LOCKSTEP_HUNG_AFTER_MS", "2500"},
      {"LOCKSTEP_HOLD_SECONDS", "61"},
      {"LOCKSTEP_LAUNCHER", "Torchrun"},
      {"LOCKSTEP_GPU_VISIBILITY", "One"},
      {"LOCKSTEP_CONTROL_COUNTER", "17"},
      {"LOCKSTEP_PS_INCARNATIONS", "0,12"},
      {"TF_CONFIG",
       R"({"cluster":{"worker":["127.4.5.1:2222","127.4.5.1:2231","127.4.5.2:2222",)"
       R"("127.4.5.2:2231"]},"task":{"type":"worker","index":3}})"},
      {"RANK", "3"},
      {"WORLD_SIZE", "4"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "127.4.5.1"},
      {"MASTER_PORT", "29500"},
      {"NODE_RANK", "1"},
      {"GROUP_RANK", "1"},
      {"TORCHELASTIC_RUN_ID", "uid-1"},
      {"TORCHELASTIC_RESTART_COUNT", "1"},
      {"HOROVOD_RANK", "3"},
      {"HOROVOD_SIZE", "4"},
      {"HOROVOD_LOCAL_RANK", "1"},
      {"HOROVOD_LOCAL_SIZE", "2"},
      {"HOROVOD_CROSS_RANK", "1"},
      {"HOROVOD_CROSS_SIZE", "2"},
      {"HOROVOD_HOSTNAME", "127.4.5.2"},
      {"HOROVOD_CONTROLLER", "gloo"},
      {"HOROVOD_CPU_OPERATIONS", "gloo"},
      {"HOROVOD_GLOO_IFACE", "lo"},
      {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.4.5.1"},
      {"HOROVOD_GLOO_RENDEZVOUS_PORT", "2224"},
  };
  const WorkerEnvironment environment = Sample(TwoByTwo(), {Role::kWorker, 1});
  EXPECT_EQ(RenderEnvironmentForProcess(environment, 1).value(), expected);
}

TEST(Environment, PodAndItsFirstProcessSeeTheSame) {
  const WorkerEnvironment environment = Sample(TwoByTwo(), {Role::kWorker, 0});
  EXPECT_EQ(RenderEnvironment(environment).value(),
            RenderEnvironmentForProcess(environment, 0).value());
}

std::vector<JobTopology> Topologies() {
  return {
      TwoByTwo(),
      {"lone", "n", {{Role::kWorker, 1, 1}}, DnsAddressing{}},
      {"all",
       "n",
       {{Role::kChief, 1, 1}, {Role::kWorker, 2, 1}, {Role::kPs, 2, 1}, {Role::kEvaluator, 1, 1}},
       DnsAddressing{"cluster.local"}}};
}

TEST(Environment, RoundTripsForEveryPodAndForm) {
  for (const JobTopology& topology : Topologies()) {
    for (const TaskId& task : AllTasks(topology)) {
      const WorkerEnvironment environment = Sample(topology, task);
      const EnvironmentMap variables = RenderEnvironment(environment).value();
      const Result<WorkerEnvironment> read = ParseEnvironment(variables);
      ASSERT_TRUE(read.ok()) << TaskName(task) << ": " << read.error().ToString();
      EXPECT_EQ(*read, environment) << topology.job << " " << TaskName(task);
    }
  }
  WorkerEnvironment sparse = Sample(Topologies()[2], {Role::kWorker, 1});
  sparse.tf_config =
      MakeTfConfig(Topologies()[2], {{Role::kWorker, 1}, 0}, {false, false, true}).value();
  EXPECT_EQ(ParseEnvironment(RenderEnvironment(sparse).value()).value(), sparse);
}

TEST(Environment, ProcessesOfAJobSeeDistinctConsistentRanks) {
  const JobTopology topology = TwoByTwo();
  for (int rank = 0; rank < WorldSize(topology); ++rank) {
    const RankPlace place = PlaceOfRank(topology, rank).value();
    const EnvironmentMap variables =
        RenderEnvironmentForProcess(Sample(topology, place.task), place.local_rank).value();
    EXPECT_EQ(variables.at("RANK"), std::to_string(rank));
    EXPECT_EQ(variables.at("HOROVOD_RANK"), std::to_string(rank));
    EXPECT_EQ(variables.at("LOCAL_RANK"), std::to_string(place.local_rank));
    EXPECT_EQ(TaskNumber(ParseTfConfig(variables.at("TF_CONFIG")).value()), rank);
  }
}

TEST(Environment, WhoHasNoRankIsToldNone) {
  const EnvironmentMap variables =
      RenderEnvironment(Sample(Topologies()[2], {Role::kEvaluator, 0})).value();
  for (const char* name : {"LOCKSTEP_RANK", "RANK", "WORLD_SIZE", "MASTER_ADDR", "HOROVOD_RANK"}) {
    EXPECT_EQ(variables.count(name), 0U) << name;
  }
  EXPECT_EQ(variables.at("LOCKSTEP_WORLD_SIZE"), "3");
}

TEST(Environment, ALoneWorkerHasNoTfConfigButATorchEnvironment) {
  const EnvironmentMap variables =
      RenderEnvironment(Sample(Topologies()[1], {Role::kWorker, 0})).value();
  EXPECT_EQ(variables.count("TF_CONFIG"), 0U);
  EXPECT_EQ(variables.at("RANK"), "0");
  EXPECT_EQ(variables.at("WORLD_SIZE"), "1");
  EXPECT_EQ(variables.at("MASTER_ADDR"), "lone-worker-0.lone.n.svc");
  EXPECT_EQ(variables.at("LOCKSTEP_BIND_ADDRESS"), "0.0.0.0");
}

TEST(Environment, RefusesAVariableLongerThanLinuxPassesOn) {
  WorkerEnvironment environment = Sample(TwoByTwo(), {Role::kWorker, 0});
  const std::size_t value_max = 131072 - std::string_view("LOCKSTEP_TRAINING=").size() - 1;
  environment.training = std::string(value_max, 'x');
  EXPECT_TRUE(RenderEnvironment(environment).ok());
  environment.training += 'x';
  const Result<EnvironmentMap> variables = RenderEnvironment(environment);
  ASSERT_FALSE(variables.ok());
  EXPECT_EQ(variables.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(variables.error().field(), "LOCKSTEP_TRAINING");
}

TEST(EnvironmentParse, OptionalVariablesHaveDefaults) {
  const Result<WorkerEnvironment> read = ParseEnvironment({{"LOCKSTEP_JOB", "m"},
                                                           {"LOCKSTEP_NAMESPACE", "n"},
                                                           {"LOCKSTEP_JOB_UID", "u"},
                                                           {"LOCKSTEP_ATTEMPT", "0"},
                                                           {"LOCKSTEP_EPOCH", "0"},
                                                           {"LOCKSTEP_INCARNATION", "0"},
                                                           {"LOCKSTEP_POD", "m-worker-0"},
                                                           {"LOCKSTEP_ROLE", "worker"},
                                                           {"LOCKSTEP_INDEX", "0"},
                                                           {"LOCKSTEP_RANK", "0"},
                                                           {"LOCKSTEP_WORLD_SIZE", "1"},
                                                           {"LOCKSTEP_DATA_DIR", ""},
                                                           {"PATH", "/bin"}});
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->processes, 1);
  EXPECT_EQ(read->bind_address, "0.0.0.0");
  EXPECT_EQ(read->status_port, 2223);
  EXPECT_EQ(read->grace, kDefaultGrace);
  EXPECT_EQ(read->rendezvous_timeout, kDefaultRendezvousTimeout);
  EXPECT_TRUE(read->tf_config.is_local());
}

TEST(EnvironmentParse, NamesEachMissingVariable) {
  const EnvironmentMap whole = RenderEnvironment(Sample(TwoByTwo(), {Role::kWorker, 1})).value();
  for (const char* name : {"LOCKSTEP_JOB",
                           "LOCKSTEP_NAMESPACE",
                           "LOCKSTEP_JOB_UID",
                           "LOCKSTEP_ATTEMPT",
                           "LOCKSTEP_EPOCH",
                           "LOCKSTEP_INCARNATION",
                           "LOCKSTEP_POD",
                           "LOCKSTEP_ROLE",
                           "LOCKSTEP_INDEX",
                           "LOCKSTEP_RANK",
                           "LOCKSTEP_WORLD_SIZE"}) {
    EnvironmentMap variables = whole;
    variables.erase(name);
    const Result<WorkerEnvironment> read = ParseEnvironment(variables);
    ASSERT_FALSE(read.ok()) << name;
    EXPECT_THAT(read.error().ToString(), HasSubstr(std::string(name) + ": missing, expected"));
  }
}

// The other processes of the pod could not be listed, nor could they list this one.
TEST(EnvironmentParse, SparseTfConfigIsOfOneProcessOnly) {
  EnvironmentMap variables = RenderEnvironment(Sample(TwoByTwo(), {Role::kWorker, 1})).value();
  variables["TF_CONFIG"] =
      R"({"cluster":{"worker":{"2":"127.4.5.2:2222"}},"task":{"type":"worker","index":2}})";
  const Result<WorkerEnvironment> read = ParseEnvironment(variables);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(
      read.error().ToString(),
      HasSubstr("TF_CONFIG: a list of only some tasks found, expected LOCKSTEP_PROCESSES = 1"));
}

// torch and Lightning number the pods that train, whatever their roles are.
TEST(Environment, TorchCountsPodsAndRestartsAsItsOwnLauncherDoes) {
  const JobTopology topology = {
      "m", "n", {{Role::kChief, 1, 2}, {Role::kWorker, 2, 2}}, DnsAddressing{}};
  const EnvironmentMap variables =
      RenderEnvironmentForProcess(Sample(topology, {Role::kWorker, 1}), 1).value();
  EXPECT_EQ(variables.at("NODE_RANK"), "2");
  EXPECT_EQ(variables.at("GROUP_RANK"), "2");
  EXPECT_EQ(variables.at("TORCHELASTIC_RUN_ID"), "uid-1");
  EXPECT_EQ(variables.at("TORCHELASTIC_RESTART_COUNT"), "1");
}

EnvironmentMap BriefOf(const JobTopology& topology, const WorkerEnvironment& environment) {
  return RenderBriefEnvironment(topology, environment).value();
}

TEST(BriefEnvironment, HoldsWhoThePodIsAndWhatIsNotAsUsual) {
  const JobTopology topology = {
      "m", "n", {{Role::kWorker, 3, 2}}, DnsAddressing{"cluster.local"}, 31000};
  WorkerEnvironment environment =
      MakeWorkerEnvironment(topology, Identity({Role::kWorker, 1})).value();
  environment.rendezvous_timeout = std::chrono::seconds(60);
  environment.job_key_file = "/keys/job";
  const EnvironmentMap expected = {
      {"LOCKSTEP_POD", "m-worker-1-a1-r2"},
      {"LOCKSTEP_NAMESPACE", "n"},
      {"LOCKSTEP_JOB_UID", "uid-1"},
      {"LOCKSTEP_EPOCH", "5"},
      {"LOCKSTEP_PROCESSES", "2"},
      {"LOCKSTEP_JOB_KEY_FILE", "/keys/job"},
      {"LOCKSTEP_RENDEZVOUS_TIMEOUT_SECONDS", "60"},
      {"LOCKSTEP_CLUSTER",
       R"({"roles":{"worker":{"replicas":3,"processes":2}},)"
       R"("domain":"cluster.local","masterPort":31000})"},
  };
  EXPECT_EQ(BriefOf(topology, environment), expected);
}

std::vector<JobTopology> TopologiesOfClusters() {
  std::vector<JobTopology> topologies = {
      Topologies()[1],
      Topologies()[2],
      {"m", "n", {{Role::kWorker, 3, 2}}, DnsAddressing{"cluster.local"}, 31000},
      {"m", "n", {{Role::kChief, 1, 2}, {Role::kWorker, 2, 2}}, DnsAddressing{}},
      {"large", "n", {{Role::kWorker, 500, 1}, {Role::kEvaluator, 1, 1}}, DnsAddressing{}}};
  return topologies;
}

// The pods of a large job differ in their index alone: ten at each end stand for all.
std::vector<TaskId> EndsOf(std::vector<TaskId> tasks) {
  if (tasks.size() > 20) {
    tasks.erase(tasks.begin() + 10, tasks.end() - 10);
  }
  return tasks;
}

TEST(BriefEnvironment, TellsTheRuntimeAsMuchAsTheWholeOne) {
  for (const JobTopology& topology : TopologiesOfClusters()) {
    for (const TaskId& task : EndsOf(AllTasks(topology))) {
      for (const bool is_usual : {true, false}) {
        WorkerEnvironment environment =
            is_usual ? MakeWorkerEnvironment(topology, Identity(task)).value()
                     : Sample(topology, task);
        const EnvironmentMap variables = BriefOf(topology, environment);
        environment.cluster = variables.at("LOCKSTEP_CLUSTER");

        const Result<WorkerEnvironment> read = ParseEnvironment(variables);

        ASSERT_TRUE(read.ok()) << TaskName(task) << ": " << read.error().ToString();
        EXPECT_EQ(*read, environment) << topology.job << " " << TaskName(task);
      }
    }
  }
}

// An image, or a map of the template, may have variables of these names: programs never saw them.
TEST(BriefEnvironment, NothingThatFollowsFromTheShapeIsRead) {
  const JobTopology topology = TopologiesOfClusters()[2];
  const EnvironmentMap variables = BriefOf(topology, Sample(topology, {Role::kWorker, 1}));
  EnvironmentMap strange = variables;
  strange.insert({{"RANK", "9"},
                  {"TF_CONFIG", "{"},
                  {"MASTER_ADDR", "elsewhere"},
                  {"MASTER_PORT", "0"},
                  {"HOROVOD_GLOO_IFACE", "ens5"},
                  {"HOROVOD_GLOO_RENDEZVOUS_PORT", "1"}});
  EXPECT_EQ(ParseEnvironment(strange).value(), ParseEnvironment(variables).value());
}

// A runtime from before the field reads that shape, beside MASTER_PORT.
TEST(BriefEnvironment, MasterPortIsInItsShapeOnly) {
  JobTopology topology = TopologiesOfClusters()[4];
  topology.master_port = 31000;
  const PodIdentity identity = Identity({Role::kWorker, 1});
  const auto whole = MakeWorkerEnvironment(topology, identity, TfConfigForm::kShapeWhenLong);

  EXPECT_THAT(whole->cluster, Not(HasSubstr("masterPort")));
  EXPECT_EQ(RenderEnvironment(*whole)->at("MASTER_PORT"), "31000");
  EXPECT_THAT(BriefOf(topology, *whole).at("LOCKSTEP_CLUSTER"), HasSubstr(R"("masterPort":31000)"));
}

TEST(BriefEnvironment, IsRefusedWithTheVariableAtFault) {
  const JobTopology topology = TopologiesOfClusters()[2];
  const EnvironmentMap whole = BriefOf(topology, Sample(topology, {Role::kWorker, 1}));
  const std::vector<std::array<const char*, 3>> cases = {
      {"LOCKSTEP_POD", "", "LOCKSTEP_POD: missing"},
      {"LOCKSTEP_POD", "m", "LOCKSTEP_POD: \"m\" found"},
      {"LOCKSTEP_POD", "m-worker-3", "LOCKSTEP_CLUSTER: worker-3 is not in this cluster"},
      {"LOCKSTEP_NAMESPACE", "", "LOCKSTEP_NAMESPACE: missing"},
      {"LOCKSTEP_JOB_UID", "", "LOCKSTEP_JOB_UID: missing"},
      {"LOCKSTEP_EPOCH", "", "LOCKSTEP_EPOCH: missing"},
      {"LOCKSTEP_EPOCH", "x", "LOCKSTEP_EPOCH: \"x\" found"},
      {"LOCKSTEP_CLUSTER", "{", "LOCKSTEP_CLUSTER: not valid JSON"},
      {"LOCKSTEP_CLUSTER", "", "LOCKSTEP_WORLD_SIZE: missing"},
  };
  for (const auto& [name, value, expected] : cases) {
    EnvironmentMap variables = whole;
    variables[name] = value;
    const Result<WorkerEnvironment> read = ParseEnvironment(variables);
    ASSERT_FALSE(read.ok()) << name << "=" << value;
    EXPECT_THAT(read.error().ToString(), HasSubstr(expected)) << name << "=" << value;
  }
}

struct BadVariable {
  const char* name;
  const char* value;
  ErrorCode code;
  const char* error;
};

TEST(EnvironmentParse, NamesVariableValueAndExpectation) {
  const EnvironmentMap whole = RenderEnvironment(Sample(TwoByTwo(), {Role::kWorker, 1})).value();
  const ErrorCode invalid = ErrorCode::kInvalidArgument;
  const std::vector<BadVariable> cases = {
      {"LOCKSTEP_ATTEMPT", "one", invalid, "\"one\" found, expected a whole number of at least 0"},
      {"LOCKSTEP_ATTEMPT", "-1", invalid, "\"-1\" found"},
      {"LOCKSTEP_ATTEMPT", "1 ", invalid, "\"1 \" found"},
      {"LOCKSTEP_EPOCH", "99999999999999999999", invalid, "\"99999999999999999999\" found"},
      {"LOCKSTEP_INCARNATION", "0x1", invalid, "\"0x1\" found"},
      {"LOCKSTEP_ROLE", "gardener", invalid, "\"gardener\" found, expected one of chief, worker"},
      {"LOCKSTEP_ROLE",
       "ps",
       invalid,
       "LOCKSTEP_RANK: \"2\" found, expected none: a pod of role ps has no rank"},
      {"LOCKSTEP_ROLE",
       "chief",
       ErrorCode::kMismatch,
       "task worker-2 found, expected LOCKSTEP_ROLE"},
      {"LOCKSTEP_RANK", "0", ErrorCode::kMismatch, "expected the task of LOCKSTEP_RANK = 0"},
      {"LOCKSTEP_RANK",
       "3",
       invalid,
       "LOCKSTEP_RANK: 3 found, expected a lower rank: the ranks of all"},
      {"LOCKSTEP_WORLD_SIZE", "0", invalid, "\"0\" found, expected a whole number from 1"},
      {"LOCKSTEP_WORLD_SIZE", "5", ErrorCode::kMismatch, "4 addresses of chief and workers found"},
      {"LOCKSTEP_PROCESSES", "65", invalid, "\"65\" found, expected a whole number from 1 to 64"},
      {"LOCKSTEP_STATUS_PORT", "65536", invalid, "expected a whole number from 0 to 65535"},
      {"LOCKSTEP_GRACE_SECONDS", "soon", invalid, "\"soon\" found"},
      {"LOCKSTEP_RENDEZVOUS_TIMEOUT_SECONDS", "0", invalid, "\"0\" found"},
      {"LOCKSTEP_SILENT_AFTER_MS", "0", invalid, "\"0\" found"},
      {"LOCKSTEP_HUNG_AFTER_MS", "0", invalid, "\"0\" found"},
      {"MASTER_PORT", "0", invalid, "\"0\" found"},
      {"TF_CONFIG", "{", invalid, "TF_CONFIG: not valid JSON"},
      {"TF_CONFIG", "", ErrorCode::kMismatch, "no cluster found, expected the addresses of 4"},
  };
  for (const BadVariable& bad : cases) {
    EnvironmentMap variables = whole;
    variables[bad.name] = bad.value;
    const Result<WorkerEnvironment> read = ParseEnvironment(variables);
    ASSERT_FALSE(read.ok()) << bad.name << "=" << bad.value;
    EXPECT_EQ(read.error().code(), bad.code) << bad.name << "=" << bad.value;
    EXPECT_THAT(read.error().ToString(), HasSubstr(bad.error)) << bad.name << "=" << bad.value;
  }
}

TEST(EnvironmentParse, IncarnationsOfPsAreWholeNumbersWithCommas) {
  EnvironmentMap variables = RenderEnvironment(Sample(TwoByTwo(), {Role::kWorker, 1})).value();
  for (const char* text : {"x", "1,", ",1", "1,,2", "-1", "1 2", "1.5"}) {
    variables["LOCKSTEP_PS_INCARNATIONS"] = text;
    EXPECT_EQ(ParseEnvironment(variables).error().ToString(),
              "LOCKSTEP_PS_INCARNATIONS: \"" + std::string(text) +
                  "\" found, expected whole numbers separated by commas");
  }
}

TEST(EnvironmentParse, TellsAllProblemsAtOnce) {
  const Result<WorkerEnvironment> read =
      ParseEnvironment({{"LOCKSTEP_ROLE", "worker"}, {"LOCKSTEP_INDEX", "x"}});
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().ToString(),
              AllOf(HasSubstr("LOCKSTEP_JOB: missing"), HasSubstr("LOCKSTEP_EPOCH: missing")));
}

}  // namespace
}  // namespace lockstep
