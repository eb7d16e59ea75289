#include "common/contract/environment/tf_config.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobTopology Job(std::vector<RoleTopology> roles) {
  return {"m", "n", std::move(roles), LoopbackAddressing{"127.1.2"}};
}

std::string Render(const JobTopology& topology,
                   const TaskId& task,
                   const TfConfigOptions& options = {}) {
  const Result<TfConfig> config = MakeTfConfig(topology, {task, 0}, options);
  EXPECT_TRUE(config.ok()) << config.error().ToString();
  return EncodeTfConfig(*config).value();
}

TfConfig Parsed(std::string_view text) {
  Result<TfConfig> config = ParseTfConfig(text);
  EXPECT_TRUE(config.ok()) << text << ": " << config.error().ToString();
  return config.ok() ? std::move(config).value() : TfConfig{};
}

// Cluster and task, both JSON, put into a document.
std::string Document(const std::string& cluster, const std::string& task) {
  return "{\"cluster\":" + cluster + ",\"task\":" + task + "}";
}

const TaskId kChief0{Role::kChief, 0};
const TaskId kWorker0{Role::kWorker, 0};
const TaskId kWorker1{Role::kWorker, 1};
const TaskId kPs1{Role::kPs, 1};
const TaskId kEvaluator0{Role::kEvaluator, 0};

JobTopology WholeJob() {
  return Job(
      {{Role::kChief, 1, 1}, {Role::kWorker, 2, 1}, {Role::kPs, 2, 1}, {Role::kEvaluator, 1, 1}});
}

TEST(TfConfigRender, LoneWorkerHasNone) {
  EXPECT_EQ(Render(Job({{Role::kWorker, 1, 1}}), kWorker0), "");
}

TEST(TfConfigRender, ListsAllTrainingTasksButNotTheEvaluator) {
  EXPECT_EQ(Render(WholeJob(), kWorker1),
            R"({"cluster":{"chief":["127.1.2.1:2222"],"ps":["127.1.2.4:2222","127.1.2.5:2222"],)"
            R"("worker":["127.1.2.2:2222","127.1.2.3:2222"]},"task":{"type":"worker","index":1}})");
}

TEST(TfConfigRender, EvaluatorSeesItselfBesideTheTrainingTasks) {
  EXPECT_EQ(Render(Job({{Role::kWorker, 1, 1}, {Role::kEvaluator, 1, 1}}), kEvaluator0),
            R"({"cluster":{"evaluator":["127.1.2.2:2222"],"worker":["127.1.2.1:2222"]},)"
            R"("task":{"type":"evaluator","index":0}})");
}

TEST(TfConfigRender, EvaluatorIsShownToAllWhereAskedFor) {
  TfConfigOptions options;
  options.include_evaluator = true;
  EXPECT_EQ(Render(Job({{Role::kWorker, 1, 1}, {Role::kEvaluator, 1, 1}}), kWorker0, options),
            R"({"cluster":{"evaluator":["127.1.2.2:2222"],"worker":["127.1.2.1:2222"]},)"
            R"("task":{"type":"worker","index":0}})");
}

TEST(TfConfigRender, LegacyEnvironmentComesLast) {
  TfConfigOptions options;
  options.include_environment = true;
  EXPECT_EQ(Render(Job({{Role::kWorker, 2, 1}}), kWorker0, options),
            R"({"cluster":{"worker":["127.1.2.1:2222","127.1.2.2:2222"]},)"
            R"("task":{"type":"worker","index":0},"environment":"cloud"})");
}

TEST(TfConfigRender, SparseFormShowsEachTaskWhatItNeeds) {
  TfConfigOptions options;
  options.sparse = true;
  options.include_environment = true;  // the legacy operator left it out of this form
  const JobTopology topology = WholeJob();
  EXPECT_EQ(Render(topology, kWorker1, options),
            R"({"cluster":{"chief":{"0":"127.1.2.1:2222"},)"
            R"("ps":["127.1.2.4:2222","127.1.2.5:2222"],"worker":{"1":"127.1.2.3:2222"}},)"
            R"("task":{"type":"worker","index":1}})");
  EXPECT_EQ(Render(topology, kPs1, options),
            R"({"cluster":{"chief":{"0":"127.1.2.1:2222"},"ps":{"1":"127.1.2.5:2222"}},)"
            R"("task":{"type":"ps","index":1}})");
  EXPECT_EQ(Render(topology, kChief0, options),
            R"({"cluster":{"chief":{"0":"127.1.2.1:2222"},)"
            R"("ps":["127.1.2.4:2222","127.1.2.5:2222"]},"task":{"type":"chief","index":0}})");
}

TEST(TfConfigRender, ProcessesOfAPodAreTasksWhoseIdIsTheirRank) {
  const JobTopology topology = Job({{Role::kChief, 1, 2}, {Role::kWorker, 2, 2}});
  const std::vector<RankPlace> order = RankOrder(topology);
  for (int rank = 0; rank < WorldSize(topology); ++rank) {
    const RankPlace& place = order[static_cast<std::size_t>(rank)];
    const TfConfig config = MakeTfConfig(topology, place).value();
    EXPECT_EQ(TaskNumber(config), rank);
    EXPECT_EQ(RankAddresses(config).value()[static_cast<std::size_t>(rank)],
              MeshAddress(topology, place));
    EXPECT_EQ(TfConfigOfRank(MakeTfConfig(topology, order[0]).value(), rank), config);
  }
}

TEST(TfConfigRender, SparseFormCannotListProcessesOfAPod) {
  TfConfigOptions options;
  options.sparse = true;
  const Result<TfConfig> config =
      MakeTfConfig(Job({{Role::kWorker, 2, 2}}), {kWorker0, 0}, options);
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message(),
              HasSubstr("cannot be used with several processes in each pod"));
}

TEST(TfConfigRender, RefusesWhatLinuxWouldNotPassOn) {
  JobTopology topology = {
      std::string(40, 'j'), std::string(63, 'n'), {{Role::kWorker, 2000, 1}}, DnsAddressing{}};
  const Result<std::string> text = EncodeTfConfig(MakeTfConfig(topology, {kWorker0, 0}).value());
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(text.error().field(), "TF_CONFIG");
}

TEST(TfConfig, WhatIsRenderedIsReadBack) {
  for (int bits = 0; bits < 8; ++bits) {
    TfConfigOptions options;
    options.include_evaluator = (bits & 1) != 0;
    options.include_environment = (bits & 2) != 0;
    options.sparse = (bits & 4) != 0;
    const JobTopology topology = WholeJob();
    for (const TaskId& task : AllTasks(topology)) {
      const TfConfig config = MakeTfConfig(topology, {task, 0}, options).value();
      const std::string text = EncodeTfConfig(config).value();
      EXPECT_EQ(Parsed(text), config) << text;
    }
  }
}

TEST(TfConfigParse, WithoutClusterTheProgramIsAlone) {
  for (const char* text : {"",
                           "{}",
                           R"({"cluster":{}})",
                           R"({"cluster":null,"task":{}})",
                           R"({"task":{"type":"worker","index":0}})",
                           R"({"task":{"type":"chief","index":"0"}})",
                           R"({"environment":"cloud"})"}) {
    const TfConfig config = Parsed(text);
    EXPECT_TRUE(config.is_local()) << text;
    EXPECT_EQ(TaskNumber(config), 0) << text;
    EXPECT_TRUE(RankAddresses(config).value().empty()) << text;
  }
}

TEST(TfConfigParse, TakesAnIndexAsPythonsIntDoes) {
  for (const char* index : {"1", "\"1\"", "1.0"}) {
    const TfConfig config =
        Parsed(R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":)" +
               std::string(index) + "}}");
    EXPECT_EQ(config.task, kWorker1) << index;
  }
}

TEST(TfConfigParse, IgnoresKeysItDoesNotKnow) {
  const TfConfig config =
      Parsed(R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0,"trial":"7"},)"
             R"("rpc_layer":"grpc","session_master":"","job":{}})");
  EXPECT_EQ(config.task, kWorker0);
}

TEST(TfConfigParse, SparseFormMayHaveGaps) {
  const TfConfig config = Parsed(
      R"({"cluster":{"worker":{"7":"a:1"},"ps":{"2":"b:1"}},"task":{"type":"worker","index":7}})");
  EXPECT_TRUE(config.is_sparse);
  EXPECT_EQ(TaskNumber(config), 7);
  EXPECT_EQ(Parsed(EncodeTfConfig(config).value()), config);
  const Result<std::vector<HostPort>> addresses = RankAddresses(config);
  ASSERT_FALSE(addresses.ok());
  EXPECT_EQ(addresses.error().field(), "TF_CONFIG.cluster");
}

TEST(TfConfigParse, EvaluatorNeedNotBeInTheCluster) {
  const TfConfig config =
      Parsed(R"({"cluster":{"worker":["a:1"]},"task":{"type":"evaluator","index":0}})");
  EXPECT_EQ(TaskNumber(config), 0);
}

struct Derived {
  const char* cluster;
  TaskId task;
  std::optional<int> number;
};

TEST(TfConfigQueries, FollowTensorFlow) {
  const char* with_chief = R"({"chief":["c:1"],"worker":["a:1","b:1"],"ps":["p:1","q:1"]})";
  const char* without_chief = R"({"worker":["a:1","b:1"]})";
  const char* with_evaluator = R"({"worker":["a:1","b:1"],"evaluator":["e:1"]})";
  const std::vector<Derived> cases = {
      {with_chief, kChief0, 0},
      {with_chief, kWorker0, 1},
      {with_chief, kWorker1, 2},
      {with_chief, kPs1, std::nullopt},
      {without_chief, kWorker0, 0},
      {without_chief, kWorker1, 1},
      {with_evaluator, kEvaluator0, 0},
      {with_evaluator, kWorker1, 1},
  };
  for (const Derived& derived : cases) {
    const TfConfig config =
        Parsed(Document(derived.cluster,
                        R"({"type":")" + std::string(RoleName(derived.task.role)) +
                            R"(","index":)" + std::to_string(derived.task.index) + "}"));
    EXPECT_EQ(TaskNumber(config), derived.number) << TaskName(derived.task);
  }
}

TEST(TfConfigQueries, AddressesAreInRankOrder) {
  const TfConfig config =
      Parsed(R"({"cluster":{"worker":["a:1","b:2"],"chief":["c:3"],"ps":["d:4"]},)"
             R"("task":{"type":"ps","index":0}})");
  EXPECT_THAT(RankAddresses(config).value(),
              ElementsAre(HostPort{"c", 3}, HostPort{"a", 1}, HostPort{"b", 2}));
}

struct BadDocument {
  std::string text;
  const char* field;
  const char* found;
  const char* expected;
};

constexpr const char* kRoleList = "expected one of chief, worker, ps, evaluator";

const std::vector<BadDocument> kBadDocuments = {
    {"{", "TF_CONFIG", "not valid JSON", "line 1, column 1"},
    {"[]", "TF_CONFIG", "a list found", "expected an object"},
    {R"({"cluster":{},"cluster":{}})", "TF_CONFIG", "not valid JSON", "appears twice"},
    {Document("5", "{}"), "TF_CONFIG.cluster", "5 found", "expected an object {role: addresses}"},
    {R"({"cluster":{"worker":["a:1"]}})", "TF_CONFIG.task", "missing", "expected {type, index}"},
    {Document(R"({"worker":["a:1"]})", "[]"), "TF_CONFIG.task", "a list found", "an object"},
    {Document(R"({"worker":["a:1"]})", "{\"index\":0}"),
     "TF_CONFIG.task.type",
     "missing",
     kRoleList},
    {Document(R"({"worker":["a:1"]})", "{\"type\":\"worker\"}"),
     "TF_CONFIG.task.index",
     "missing",
     "expected a whole number of at least 0"},
    {Document(R"({"worker":["a:1"]})", R"({"type":"master","index":0})"),
     "TF_CONFIG.task.type",
     "\"master\" found",
     kRoleList},
    {Document(R"({"worker":["a:1"]})", R"({"type":3,"index":0})"),
     "TF_CONFIG.task.type",
     "3 found",
     kRoleList},
    {Document(R"({"worker":["a:1"]})", R"({"type":"worker","index":-1})"),
     "TF_CONFIG.task.index",
     "-1 found",
     "at least 0"},
    {Document(R"({"worker":["a:1"]})", R"({"type":"worker","index":"-1"})"),
     "TF_CONFIG.task.index",
     "\"-1\" found",
     "at least 0"},
    {Document(R"({"worker":["a:1"]})", R"({"type":"worker","index":"one"})"),
     "TF_CONFIG.task.index",
     "\"one\" found",
     "a whole number"},
    {Document(R"({"worker":["a:1"]})", R"({"type":"worker","index":0.5})"),
     "TF_CONFIG.task.index",
     "0.5 found",
     "a whole number"},
    {Document(R"({"worker":["a:1"]})", R"({"type":"worker","index":true})"),
     "TF_CONFIG.task.index",
     "true found",
     "a whole number"},
    {Document(R"({"worker":["a:1"]})", R"({"type":"worker","index":18446744073709551615})"),
     "TF_CONFIG.task.index",
     "18446744073709551615 found",
     "a whole number"},
    {Document(R"({"worker":["a:1","b:1"]})", R"({"type":"worker","index":2})"),
     "TF_CONFIG.task.index",
     "2 found",
     "less than 2, the number of worker addresses"},
    {Document(R"({"worker":["a:1"]})", R"({"type":"ps","index":0})"),
     "TF_CONFIG.task.type",
     "\"ps\" found",
     "a role of TF_CONFIG.cluster that has addresses"},
    {Document(R"({"worker":[],"ps":["a:1"]})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.task.type",
     "\"worker\" found",
     "that has addresses"},
    {Document(R"({"worker":[]})", R"({"type":"evaluator","index":0})"),
     "TF_CONFIG.cluster",
     "no address found",
     "at least one"},
    {Document(R"({"worker":["a:1"]})", R"({"type":"evaluator","index":1})"),
     "TF_CONFIG.task.type",
     "\"evaluator\" found",
     "a role of TF_CONFIG.cluster"},
    {Document(R"({"worker":{"1":"a:1"}})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.task.index",
     "0 found",
     "an index that TF_CONFIG.cluster.worker lists"},
    {Document(R"({"gardener":["a:1"]})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.cluster.gardener",
     "role \"gardener\" found",
     kRoleList},
    {Document(R"({"master":["a:1"]})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.cluster.master",
     "role \"master\" found",
     "\"master\" is now \"chief\""},
    {Document(R"({"worker":"a:1"})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.cluster.worker",
     "\"a:1\" found",
     "a list of addresses"},
    {Document(R"({"chief":["a:1","b:1"]})", R"({"type":"chief","index":0})"),
     "TF_CONFIG.cluster.chief",
     "2 addresses found",
     "at most one chief"},
    {Document(R"({"worker":["a:1"],"evaluator":["b:1","c:1"]})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.cluster.evaluator",
     "2 addresses found",
     "at most one evaluator"},
    {Document(R"({"worker":["a:1",7]})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.cluster.worker[1]",
     "7 found",
     "an address \"host:port\""},
    {Document(R"({"worker":["a"]})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.cluster.worker[0]",
     "\"a\" found",
     "missing port"},
    {Document(R"({"worker":["a:70000"]})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.cluster.worker[0]",
     "\"a:70000\" found",
     "a port from 1 to 65535"},
    {Document(R"({"worker":["a:1","b:1"],"ps":["a:1"]})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.cluster.ps[0]",
     "\"a:1\" found",
     "a different address; TF_CONFIG.cluster.worker[0] already uses this one"},
    {Document(R"({"worker":{"x":"a:1"}})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.cluster.worker.x",
     "index \"x\" found",
     "a whole number of at least 0"},
    {Document(R"({"worker":{"-1":"a:1"}})", R"({"type":"worker","index":0})"),
     "TF_CONFIG.cluster.worker.-1",
     "index \"-1\" found",
     "a whole number of at least 0"},
    {Document(R"({"worker":{"1":"a:1","01":"b:1"}})", R"({"type":"worker","index":1})"),
     "TF_CONFIG.cluster.worker.01",
     "index \"01\" found",
     "each index once"},
    {Document(R"({"worker":["a:1"]})", R"({"type":"worker","index":0},"environment":3)"),
     "TF_CONFIG.environment",
     "3 found",
     "a string"},
    {R"({"task":{"type":"worker","index":1}})",
     "TF_CONFIG.cluster",
     "missing",
     "the addresses of all tasks: task worker-1 cannot run alone"},
    {R"({"task":{"type":"ps","index":0}})",
     "TF_CONFIG.cluster",
     "missing",
     "task ps-0 cannot run alone"},
};

TEST(TfConfigParse, NamesFieldValueAndExpectation) {
  for (const BadDocument& bad : kBadDocuments) {
    const Result<TfConfig> config = ParseTfConfig(bad.text);
    ASSERT_FALSE(config.ok()) << bad.text;
    EXPECT_EQ(config.error().code(), ErrorCode::kInvalidArgument) << bad.text;
    EXPECT_EQ(config.error().field(), bad.field) << bad.text;
    EXPECT_THAT(config.error().message(), AllOf(HasSubstr(bad.found), HasSubstr(bad.expected)))
        << bad.text;
  }
}

TEST(TfConfigParse, MirroredStrategyAdmitsNoParameterServer) {
  TfConfigRules rules;
  rules.allow_ps = false;
  const Result<TfConfig> config = ParseTfConfig(
      R"({"cluster":{"worker":["a:1"],"ps":["b:1"]},"task":{"type":"worker","index":0}})", rules);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().ToString(),
            "TF_CONFIG.cluster.ps: 1 addresses found, expected none: a mirrored strategy has no "
            "parameter servers");
}

TEST(TfConfigParse, TellsAllProblemsAtOnce) {
  const Result<TfConfig> config =
      ParseTfConfig(R"({"cluster":{"worker":["a","b"]},"task":{"type":"x","index":-1}})");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message(),
              AllOf(HasSubstr("\"a\""),
                    HasSubstr("TF_CONFIG.cluster.worker[1]: \"b\""),
                    HasSubstr("TF_CONFIG.task.type: \"x\""),
                    HasSubstr("TF_CONFIG.task.index: -1")));
}

TEST(TfConfigParse, RefusesATextLongerThanAnyVariable) {
  const Result<TfConfig> config = ParseTfConfig(std::string(kTfConfigBytesMax, ' '));
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message(), HasSubstr("131072 bytes found"));
}

}  // namespace
}  // namespace lockstep
