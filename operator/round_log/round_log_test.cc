#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "operator/round_log/round_log_file.h"
#include "operator/round_log/round_log_player.h"
#include "operator/round_log/round_log_writer.h"
#include "operator/scheduler/testing/brute_force.h"
#include "operator/scheduler/testing/fake_gangs.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

// A log in memory, with what was said of its early end.
struct Recording {
  RoundLogWriter::Options OptionsFor(const std::vector<std::string>& levels) {
    RoundLogWriter::Options options;
    options.levels = levels;
    options.bytes_max = bytes_max;
    options.write = [this](std::string_view more) {
      text += more;
      return write_answer;
    };
    options.on_stop = [this](const std::string& why) { stops.push_back(why); };
    return options;
  }

  std::string text;
  std::vector<std::string> stops;
  Status write_answer = OkStatus();
  std::size_t bytes_max = std::size_t{64} << 20U;
};

// "12 rounds, stopped", or what is wrong.
std::string Replay(const std::string& text) {
  std::istringstream input(text);
  RoundLogPlayer player(&input, "rounds.log");
  while (true) {
    const Result<bool> has_round = player.NextRound();
    if (!has_round.ok()) {
      return has_round.error().ToString();
    }
    if (player.difference()) {
      return "round " + std::to_string(player.difference()->round) + ": \"" +
             player.difference()->recorded + "\" is \"" + player.difference()->decided + "\"";
    }
    if (!*has_round) {
      return std::to_string(player.round_count()) + " rounds" +
             (player.end().empty() ? "" : ", " + player.end());
    }
  }
}

// Two gangs, of which one waits, on a node that fills up.
std::string SmallLog() {
  Recording recording;
  RoundLogWriter writer(recording.OptionsFor({"rack"}));
  FakeCluster cluster({{"rack"}, false});
  cluster.state.SetRecorder(&writer);
  cluster.state.SetNode(GpuNode("n1", 4, "r1"));
  cluster.state.Submit(GpuGang("first", 2, 2, 1));
  cluster.Step();
  cluster.state.Submit(GpuGang("second", 2, 1, 2));
  cluster.Step();
  cluster.state.SetRecorder(nullptr);
  return recording.text;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream input(text);
  for (std::string line; std::getline(input, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::string TextOf(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

TEST(RoundLog, RandomClustersWithAllConstraintsAreDecidedAgainToTheByte) {
  int64_t bytes_count = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Recording recording;
    BruteForceTally tally;
    {
      RoundLogWriter writer(recording.OptionsFor(BruteForceLevels()));
      ASSERT_EQ(WrongInCase(seed, &tally, &writer), "");
    }
    ASSERT_NE(Replay(recording.text).find(" rounds, stopped"), std::string::npos)
        << "seed " << seed << ": " << Replay(recording.text);
    bytes_count += static_cast<int64_t>(recording.text.size());
  }
  EXPECT_GT(bytes_count, 100'000);
}

// All members of all events other than by default: what is not written would be another decision,
// or another state.
TEST(RoundLog, EveryEventIsReadAsItWasWritten) {
  GangRequest request = GpuGang("a", 2, 1, 5);
  request.gang.classes.front().node_selector = {{"disk", "ssd"}};
  request.gang.classes.front().tolerations = {
      {"k", true, "v", "NoExecute", std::chrono::seconds(3)}};
  request.gang.classes.front().node_affinity = std::vector<NodeTerm>{
      {{{"zone", NodeOperator::kNotIn, {"a"}}}, {{"metadata.name", NodeOperator::kIn, {"n"}}}}};
  request.gang.classes.front().request = {5, 6, 7, {{"rdma/hca", 1}}};
  request.queue = "q";
  request.topology = {"rack", "block", "host"};
  request.priority = -5;
  request.may_preempt = false;
  request.is_preemptible = false;
  request.fails_to_start = true;
  request.missing_class = "urgent";
  request.standing = Standing::kAside;
  request.run_time_max = std::chrono::seconds(77);
  request.stops_at = AtSecond(9);
  request.suspects = {{"n1", 3}};
  request.permission = {PodsAllowed::kNo, AtSecond(6), AtSecond(7), "the quota is full"};
  SnapshotNode node = GpuNode("n1", 4, "r1");
  node.taints = {{"k", "v", "NoSchedule"}};
  node.used = {1, 2, 3, {}};
  node.pod_count_max = 110;
  node.pod_count = 7;
  node.state = NodeState::kNotReady;
  node.suspicion = 2;
  const QueueSpec queue{"q",
                        "p",
                        {{"cpu", 1}},
                        {{"cpu", 2}},
                        {{"cpu", 3}},
                        4,
                        QueueOrdering::kFairShare,
                        true,
                        true,
                        std::chrono::seconds(5),
                        {"team"}};
  const RunTerms run{AtSecond(1), AtSecond(2), 3, AtSecond(4)};
  const NodeUsage usage{{1, 2, 3, {}}, 4};
  const Operation claim{OperationKind::kClaim, "default/a", "default/b", {{"w-0", "n1"}}};
  const Unschedulable refusal{
      Constraint::kTopology, "needs \"more\"", AtSecond(60), "others ask first"};
  const std::vector<StateEvent> events = {NodeSeen{node},
                                          NodeGone{"n1"},
                                          StrangersSeen{"n1", usage},
                                          QueuesSeen{{queue}, {{"r", "it cannot be read"}}},
                                          PastUseSeen{{{"q", {{"cpu", 1500}}}}},
                                          GangSubmitted{request},
                                          GangRuns{request, {{"w-0", "n1"}}, run},
                                          GangHolds{request, {{"n1", usage}}, run},
                                          GangPromised{"default/a", true},
                                          GangSaved{"default/a", AtSecond(3)},
                                          GangRemoved{"default/a"},
                                          OperationDone{claim, AtSecond(4)},
                                          GangTold{"default/a", refusal},
                                          GangPermitted{"default/a", request.permission},
                                          GangAsks{"default/a", {AskStage::kFailed, AtSecond(5)}}};
  ASSERT_EQ(events.size(), std::variant_size_v<StateEvent>);
  LineChain writer;
  LineChain reader;
  for (const StateEvent& event : events) {
    const std::string line = writer.Write(event);
    const Result<LogLine> read = reader.Read(line);
    ASSERT_TRUE(read.ok()) << line << ": " << read.error().ToString();
    EXPECT_EQ(LineChain().Write(*read), LineChain().Write(event));
  }
  const Result<LogLine> seen = LineChain().Read(LineChain().Write(StateEvent(NodeSeen{node})));
  EXPECT_EQ(std::get<NodeSeen>(std::get<StateEvent>(*seen)).node, node);
  const Result<LogLine> queues =
      LineChain().Read(LineChain().Write(StateEvent(QueuesSeen{{queue}, {}})));
  EXPECT_EQ(std::get<QueuesSeen>(std::get<StateEvent>(*queues)).specs.front(), queue);
  const Result<LogLine> runs =
      LineChain().Read(LineChain().Write(StateEvent(GangRuns{request, {{"w-0", "n1"}}, run})));
  EXPECT_EQ(std::get<GangRuns>(std::get<StateEvent>(*runs)).request, request);
  EXPECT_EQ(std::get<GangRuns>(std::get<StateEvent>(*runs)).run, run);
  const Result<LogLine> done =
      LineChain().Read(LineChain().Write(StateEvent(OperationDone{claim, AtSecond(4)})));
  EXPECT_EQ(std::get<OperationDone>(std::get<StateEvent>(*done)).operation, claim);
  const Result<LogLine> told =
      LineChain().Read(LineChain().Write(StateEvent(GangTold{"default/a", refusal})));
  EXPECT_EQ(std::get<GangTold>(std::get<StateEvent>(*told)).refusal, refusal);
  const Result<LogLine> asks = LineChain().Read(LineChain().Write(events.back()));
  EXPECT_EQ(std::get<GangAsks>(std::get<StateEvent>(*asks)).asking.again_at, AtSecond(5));
}

TEST(RoundLog, AnotherDecisionIsToldWithBothTexts) {
  std::vector<std::string> lines = LinesOf(SmallLog());
  LineChain reader;
  LineChain writer;
  std::string forged;
  for (const std::string& text : lines) {
    Result<LogLine> line = reader.Read(text);
    ASSERT_TRUE(line.ok()) << line.error().ToString();
    if (auto* round = std::get_if<LogRound>(&*line); round != nullptr) {
      for (std::string& decision : round->decisions) {
        decision =
            decision == "start default/first w-0@n1 w-1@n1" ? "start default/second" : decision;
      }
    }
    forged += writer.Write(*line) + "\n";
  }
  EXPECT_EQ(Replay(forged),
            "round 1: \"start default/second\" is \"start default/first w-0@n1 w-1@n1\"");
}

TEST(RoundLog, LineThatWasChangedMovedOrLeftOutIsRefused) {
  const std::vector<std::string> lines = LinesOf(SmallLog());
  ASSERT_GT(lines.size(), 5U);
  const std::string why =
      "the checksum does not match: this line, or a line before it, was changed, moved or removed";
  std::vector<std::string> changed = lines;
  changed[1].replace(changed[1].find("\"gpus\":4"), 8, "\"gpus\":5");
  EXPECT_EQ(Replay(TextOf(changed)), "rounds.log:2: " + why);
  std::vector<std::string> moved = lines;
  std::swap(moved[1], moved[2]);
  EXPECT_EQ(Replay(TextOf(moved)), "rounds.log:2: " + why);
  std::vector<std::string> left_out = lines;
  left_out.erase(left_out.begin() + 3);
  EXPECT_EQ(Replay(TextOf(left_out)), "rounds.log:4: " + why);
  std::vector<std::string> headless = lines;
  headless.erase(headless.begin());
  EXPECT_EQ(Replay(TextOf(headless)), "rounds.log:1: " + why);
}

TEST(RoundLog, LogThatIsCutOffIsRefusedWithItsLine) {
  const std::string whole = SmallLog();
  const std::string cut = whole.substr(0, whole.size() - 5);
  const std::string line = std::to_string(LinesOf(whole).size());
  EXPECT_EQ(Replay(cut).find("rounds.log:" + line + ": cut off after "), 0U) << Replay(cut);
  EXPECT_EQ(Replay(""), "rounds.log is empty");
  // Where a program was killed between two lines, what is there is decided again.
  EXPECT_EQ(Replay(whole), "2 rounds");
}

// One that waits is told when a gang that runs is expected to end, and another passes it.
TEST(RoundLog, WhatEarlierRunsTellIsDecidedAgain) {
  Recording recording;
  {
    RoundLogWriter writer(recording.OptionsFor({}));
    FakeCluster cluster;
    cluster.state.SetRecorder(&writer);
    cluster.state.SetNode(GpuNode("n1", 4));
    GangRequest runs = GpuGang("runs", 2, 1, 1);
    runs.past_runs = {3, std::chrono::seconds(400), std::chrono::seconds(600)};
    cluster.state.Submit(runs);
    EXPECT_EQ(cluster.Step().find("start default/runs"), 0U);
    cluster.state.Submit(GpuGang("waits", 4, 1, 2));
    GangRequest passes = GpuGang("passes", 1, 1, 3);
    passes.run_time_max = std::chrono::seconds(600);
    cluster.state.Submit(passes);
    const std::string said = cluster.Step();
    EXPECT_EQ(said.find("start default/passes"), 0U) << said;
    EXPECT_NE(said.find("the last 3 runs of similar jobs took"), std::string::npos) << said;
    cluster.state.SetRecorder(nullptr);
  }
  EXPECT_EQ(Replay(recording.text), "2 rounds, stopped");
}

TEST(RoundLog, WhatTheServerSaysOfPodsIsDecidedAgain) {
  Recording recording;
  {
    RoundLogWriter writer(recording.OptionsFor({}));
    FakeCluster cluster;
    cluster.state.SetRecorder(&writer);
    QueueSpec queue{.name = "default"};
    queue.preempts_lower_priority = true;
    ASSERT_TRUE(cluster.state.SetQueues({queue}).ok());
    cluster.state.SetNode(GpuNode("n1", 4));
    AddRunning("low", 4, 0, &cluster);
    GangRequest urgent = GpuGang("urgent", 1, 4, 1);
    urgent.priority = 1;
    urgent.permission.answer = PodsAllowed::kUnasked;
    cluster.state.Submit(urgent);
    EXPECT_NE(cluster.Step().find("ask whether default/urgent"), std::string::npos);
    cluster.state.SetPermission(
        "default/urgent", {PodsAllowed::kYes, cluster.now, cluster.now + std::chrono::hours(1)});
    EXPECT_NE(cluster.Step().find("claim default/urgent"), std::string::npos);
    cluster.state.SetRecorder(nullptr);
  }
  EXPECT_EQ(Replay(recording.text), "2 rounds, stopped");
}

TEST(RoundLog, LineThatIsTooLongOrOfAnotherVersionIsRefused) {
  EXPECT_EQ(Replay(std::string(kLogLineBytesMax + 1, 'x')),
            "rounds.log:1: longer than 33554432 bytes");
  EXPECT_EQ(Replay(LineChain().Write(LogBegin{2, {}, false}) + "\n"),
            "rounds.log:1: version 2 found, expected 3");
  EXPECT_EQ(Replay("hello\n"),
            "rounds.log:1: no checksum of 16 digits found at the start of the line");
}

TEST(RoundLog, EventOfWhatWasNeverSeenIsRefusedRatherThanDone) {
  LineChain chain;
  const std::string begin = chain.Write(LogBegin{kRoundLogVersion, {}, false}) + "\n";
  const auto with = [&](const StateEvent& event) {
    return Replay(begin + LineChain(chain).Write(event) + "\n");
  };
  EXPECT_EQ(with(GangTold{"a/b", {}}), "rounds.log:2: gang a/b is unknown");
  EXPECT_EQ(with(GangPromised{"a/b", true}), "rounds.log:2: gang a/b is unknown");
  EXPECT_EQ(with(OperationDone{{OperationKind::kStart, "a/b"}, {}}),
            "rounds.log:2: gang a/b is unknown");
  LineChain more = chain;
  const std::string seen = more.Write(StateEvent(GangSubmitted{GpuGang("a", 1, 1, 1)})) + "\n";
  EXPECT_EQ(Replay(begin + seen +
                   more.Write(StateEvent(OperationDone{{OperationKind::kEvict, "default/a"}, {}})) +
                   "\n"),
            "rounds.log:3: \"evict default/a\" does not fit the state of its gang");
}

TEST(RoundLog, LogThatIsFullSaysSoAndCanBeReadUpToThere) {
  Recording recording;
  recording.bytes_max = 2000;
  {
    RoundLogWriter writer(recording.OptionsFor({}));
    FakeCluster cluster;
    cluster.state.SetRecorder(&writer);
    cluster.state.SetNode(GpuNode("n1", 400));
    for (int i = 0; i < 30; ++i) {
      cluster.state.Submit(GpuGang("g" + std::to_string(i), 2, 2, i));
      cluster.Step();
    }
  }
  ASSERT_EQ(recording.stops.size(), 1U);
  EXPECT_NE(recording.stops.front().find("bytes would exceed its limit of 2000"),
            std::string::npos);
  EXPECT_LE(recording.text.size(), 2000U);
  EXPECT_NE(Replay(recording.text).find(" rounds, full"), std::string::npos)
      << Replay(recording.text);
}

TEST(RoundLog, DiskThatTakesNoMoreIsSaidOnceAndEndsTheLog) {
  Recording recording;
  recording.write_answer = Error(ErrorCode::kResourceExhausted, "no space left");
  {
    RoundLogWriter writer(recording.OptionsFor({}));
    writer.OnRound(AtSecond(1), {}, {});
    writer.OnRound(AtSecond(2), {}, {});
  }
  EXPECT_EQ(recording.stops, std::vector<std::string>{"no space left"});
  EXPECT_EQ(LinesOf(recording.text).size(), 1U);
}

TEST(RoundLog, LogOfTheProgramBeforeIsKept) {
  const std::string folder = testing::TempDir() + "round_log_test";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(MakeDirectories(folder).ok());
  const std::string path = folder + "/rounds.log";
  for (const char* const text : {"first", "second"}) {
    const Result<RoundLogFile> file = RoundLogFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.error().ToString();
    ASSERT_TRUE(file->Write(text).ok());
  }
  EXPECT_EQ(ReadFile(path, 100).value(), "second");
  EXPECT_EQ(ReadFile(path + ".1", 100).value(), "first");
  EXPECT_FALSE(RoundLogFile::Create(folder + "/none/rounds.log").ok());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::control
