#include "common/contract/status/status_document.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/json/json.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

StatusDocument Sample() {
  StatusDocument document;
  document.job = "mnist";
  document.job_uid = "3f2a";
  document.pod = "mnist-worker-1-r2";
  document.task = {Role::kWorker, 1};
  document.rank = 1;
  document.world_size = 3;
  document.incarnation = Incarnation(2);
  document.attempt = Attempt(1);
  document.epoch = Epoch(4);
  document.pid = 4711;
  document.phase = Phase::kTraining;
  document.step = Step(60);
  document.steps_total = 800;
  document.data_epoch = 1;
  document.loss = 0.25;
  document.accuracy = 0.9375;
  document.samples_per_second = 5120.5;
  document.eta_seconds = 12.5;
  document.peers = {{0, Incarnation(0), PeerState::kConnected, "", 0.125},
                    {2, Incarnation(1), PeerState::kLost, "connection closed", 1.5}};
  document.devices = {{"GPU-5d2c", "00000000:3B:00.0", {0, 1}}, {"GPU-77aa", "", {2}}};
  document.samples = {5760, 5760, 0, 0};
  document.result = TestResult{0.125, 0.96875};
  document.last_checkpoint_step = Step(50);
  document.checkpoint_directory = "checkpoints";
  document.checkpoints = {3, 1, 2, "write: No space left on device", Step(40)};
  document.step_phase_seconds = {0.001, 0.004, 0.002, 0.0005};
  document.backend = "nccl";
  document.backend_detail = "NCCL 2.28.9 (/usr/lib/libnccl.so.2): revoke, on GPU-5d2c";
  document.backend_reason = "no-library";
  document.mismatch = "rank 1 called barrier";
  document.history = {{0, 30, 2880, 0.5, 0.875, 1.25, 960},
                      {1, 60, 2880, 0.25, std::nullopt, 1, {}, 2784}};
  document.relaunches = 2;
  document.held = HeldEnd{137, 9, 0.5, R"({"outcome":"retryable","reason":"killed"})", 93450000000};
  document.timeline = {
      {TimelineEventKind::kProcessStart, Epoch(0), Step(0), std::nullopt, 100},
      {TimelineEventKind::kPeerLost, Epoch(3), Step(59), 2, 9'000'000'000'000'000'000}};
  document.hang_evidence = {{3, false, true, "f (a.py:1)", {{"0", "group pg", 7, 6, "all_reduce"}}},
                            {4, true, false, "", {{"1", "group dp", 0, 0, ""}}}};
  document.models = {{1, Incarnation(2001), Step(40), Step(60), Step(50), 80},
                     {2, Incarnation(2000), Step(0), Step(55), std::nullopt}};
  return document;
}

Json SampleJson() {
  return ParseJson(EncodeStatusDocument(Sample())).value();
}

TEST(StatusDocument, RoundTrips) {
  EXPECT_EQ(DecodeStatusDocument(EncodeStatusDocument(Sample())).value(), Sample());
  EXPECT_EQ(DecodeStatusDocument(EncodeStatusDocument(StatusDocument{})).value(), StatusDocument{});
}

TEST(StatusDocument, EveryWordRoundTrips) {
  StatusDocument document = Sample();
  for (const Phase phase : kPhases) {
    document.phase = phase;
    EXPECT_EQ(DecodeStatusDocument(EncodeStatusDocument(document)).value().phase, phase);
  }
  for (const PeerState state : kPeerStates) {
    document.peers[0].state = state;
    EXPECT_EQ(DecodeStatusDocument(EncodeStatusDocument(document)).value().peers[0].state, state);
  }
  for (const TimelineEventKind kind : kTimelineEventKinds) {
    document.timeline[0].event = kind;
    EXPECT_EQ(DecodeStatusDocument(EncodeStatusDocument(document)).value().timeline[0].event, kind);
  }
  for (const Role role : kRoles) {
    document.task.role = role;
    EXPECT_EQ(DecodeStatusDocument(EncodeStatusDocument(document)).value().task.role, role);
  }
}

TEST(StatusDocument, HasTheFieldsTheContractNames) {
  const Json json = SampleJson();
  for (const char* key : {"schemaVersion",
                          "job",
                          "jobUid",
                          "pod",
                          "role",
                          "index",
                          "rank",
                          "worldSize",
                          "incarnation",
                          "attempt",
                          "epoch",
                          "pid",
                          "phase",
                          "step",
                          "stepsTotal",
                          "stepsSkipped",
                          "dataEpoch",
                          "loss",
                          "accuracy",
                          "samplesPerSecond",
                          "peers",
                          "samples",
                          "result",
                          "lastCheckpointStep",
                          "checkpointDirectory",
                          "checkpoints",
                          "stepPhaseSeconds",
                          "backend",
                          "backendDetail",
                          "backendReason",
                          "mismatch",
                          "devices",
                          "history",
                          "timeline"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["peers"][1]["state"], "lost");
  EXPECT_EQ(json["timeline"][1]["event"], "peer_lost");
  EXPECT_EQ(json["result"]["testAccuracy"], 0.96875);
}

TEST(StatusDocument, NumbersThatAreNotFiniteBecomeNothing) {
  StatusDocument document = Sample();
  document.loss = std::numeric_limits<double>::quiet_NaN();
  document.result->test_loss = std::numeric_limits<double>::infinity();
  document.samples_per_second = std::numeric_limits<double>::infinity();
  document.step_phase_seconds.data = -1;
  const StatusDocument read = DecodeStatusDocument(EncodeStatusDocument(document)).value();
  EXPECT_FALSE(read.loss.has_value());
  EXPECT_FALSE(read.result->test_loss.has_value());
  EXPECT_EQ(read.samples_per_second, 0);
  EXPECT_EQ(read.step_phase_seconds.data, 0);
}

TEST(StatusDocument, KeepsTheNewestOfALongTimeline) {
  StatusDocument document = Sample();
  document.timeline.clear();
  for (int i = 0; i < 100; ++i) {
    document.timeline.push_back({TimelineEventKind::kFirstStep, Epoch(i), Step(i), {}, i});
  }
  const StatusDocument read = DecodeStatusDocument(EncodeStatusDocument(document)).value();
  ASSERT_EQ(read.timeline.size(), kStatusTimelineMax);
  EXPECT_EQ(read.timeline.front().epoch, Epoch(36));
  EXPECT_EQ(read.timeline.back().epoch, Epoch(99));
}

TEST(StatusDocument, CutsLongAndBrokenTexts) {
  StatusDocument document = Sample();
  document.checkpoint_directory = std::string(5000, '\xff');
  document.peers[1].reason = std::string(5000, 'x');
  const StatusDocument read = DecodeStatusDocument(EncodeStatusDocument(document)).value();
  EXPECT_TRUE(read.checkpoint_directory.ends_with("..."));
  EXPECT_EQ(read.peers[1].reason.size(), 128U);
}

TEST(StatusDocument, TheLargestDocumentWeWriteCanBeRead) {
  StatusDocument document = Sample();
  document.peers.assign(
      kStatusPeersMax + 5,
      {int{1} << 30, Incarnation(1000), PeerState::kLost, std::string(200, 'x'), 1.0 / 3});
  const Result<StatusDocument> read = DecodeStatusDocument(EncodeStatusDocument(document));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->peers.size(), kStatusPeersMax);
}

TEST(StatusDocument, AnotherSchemaVersionIsToldApart) {
  Json json = SampleJson();
  json["schemaVersion"] = 2;
  json["novelty"] = true;
  const Result<StatusDocument> read = DecodeStatusDocument(DumpJson(json));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), ErrorCode::kMismatch);
  EXPECT_EQ(read.error().ToString(), "schemaVersion: 2 found, expected 1");
}

TEST(StatusDocument, EachFieldButTheOptionalOnesIsRequired) {
  const std::vector<std::string> optional = {"rank",
                                             "stepsTotal",
                                             "stepsSkipped",
                                             "loss",
                                             "accuracy",
                                             "etaSeconds",
                                             "result",
                                             "lastCheckpointStep",
                                             "backend",
                                             "backendDetail",
                                             "backendReason",
                                             "mismatch",
                                             "models",
                                             "hangEvidence",
                                             "relaunches",
                                             "held"};
  const Json sample = SampleJson();
  for (const auto& [key, value] : sample.items()) {
    Json json = sample;
    json.erase(key);
    const Result<StatusDocument> read = DecodeStatusDocument(DumpJson(json));
    const bool is_optional = std::find(optional.begin(), optional.end(), key) != optional.end();
    ASSERT_EQ(read.ok(), is_optional) << key;
    if (!is_optional) {
      EXPECT_THAT(read.error().ToString(), HasSubstr(key + ": missing"));
    }
  }
}

TEST(StatusDocument, AWrongTypeAnywhereIsNamedByItsPath) {
  const Json sample = SampleJson();
  const Json flat = sample.flatten();
  for (const auto& [path, value] : flat.items()) {
    Json json = sample;
    json[Json::json_pointer(path)] = Json::parse("[{}]");  // right for no field
    const Result<StatusDocument> read = DecodeStatusDocument(DumpJson(json));
    ASSERT_FALSE(read.ok()) << path;
    const std::string leaf = path.substr(path.rfind('/') + 1);
    const bool is_index = std::isdigit(static_cast<unsigned char>(leaf.front())) != 0;
    EXPECT_TRUE(read.error().field().ends_with(is_index ? "[" + leaf + "]" : leaf))
        << path << ": " << read.error().ToString();
  }
}

TEST(StatusDocument, RefusesWhatIsOutOfBounds) {
  struct Case {
    const char* pointer;
    Json value;
    const char* error;
  };

  const Json event = SampleJson()["timeline"][0];
  const std::vector<Case> cases = {
      {"/step", -1, "step: -1 found"},
      {"/worldSize", 0, "worldSize: 0 found"},
      {"/rank", -1, "rank: -1 found"},
      {"/index", 4294967296, "index: 4294967296 found"},
      {"/phase", "resting", "phase: \"resting\" found, expected one of starting"},
      {"/peers/0/state", "shy", "peers[0].state: \"shy\" found"},
      {"/devices/0/localRanks/1", -1, "devices[0].localRanks[1]: -1 found, expected a local rank"},
      {"/devices/0/uuid", 7, "devices[0].uuid: 7 found"},
      {"/samples/lost", -1, "samples.lost: -1 found"},
      {"/checkpoints/failed", -1, "checkpoints.failed: -1 found"},
      {"/stepPhaseSeconds/data", -0.5, "stepPhaseSeconds.data: -0.5 found"},
      {"/history/0/loss", "low", "history[0].loss: \"low\" found"},
      {"/history/0/seconds", -1, "history[0].seconds: -1 found"},
      {"/history/0/timedSampleCount", -1, "history[0].timedSampleCount: -1 found"},
      {"/history/0/lossSampleCount", -1, "history[0].lossSampleCount: -1 found"},
      {"/history",
       Json(std::vector<Json>(65, SampleJson()["history"][0])),
       "65 elements found, expected at most 64"},
      {"/timeline", Json(std::vector<Json>(65, event)), "65 elements found, expected at most 64"},
  };
  for (const Case& bad : cases) {
    Json json = SampleJson();
    json[Json::json_pointer(bad.pointer)] = bad.value;
    const Result<StatusDocument> read = DecodeStatusDocument(DumpJson(json));
    ASSERT_FALSE(read.ok()) << bad.pointer;
    EXPECT_THAT(read.error().ToString(), HasSubstr(bad.error)) << bad.pointer;
  }
}

// Pods outlive an operator that is rolled back.
TEST(StatusDocument, OfALaterReleaseSaysWhatIsKnownToday) {
  Json json = SampleJson();
  const StatusDocument known = DecodeStatusDocument(DumpJson(json)).value();
  for (const char* pointer : {"/extra",
                              "/peers/0/extra",
                              "/devices/0/extra",
                              "/timeline/0/extra",
                              "/history/0/extra",
                              "/samples/extra",
                              "/checkpoints/extra",
                              "/stepPhaseSeconds/extra"}) {
    json[Json::json_pointer(pointer)] = "new";
  }
  const Result<StatusDocument> read = DecodeStatusDocument(DumpJson(json));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(*read, known);
}

TEST(StatusDocument, RefusesATextLongerThanTheBound) {
  const Result<StatusDocument> read = DecodeStatusDocument(std::string(kStatusBytesMax + 1, ' '));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep
