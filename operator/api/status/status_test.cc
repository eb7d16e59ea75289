#include "operator/api/status/status.h"

#include <string>

#include <gtest/gtest.h>

#include "operator/api/decode_job.h"
#include "operator/api/job/encode.h"
#include "operator/api/status/conditions.h"

namespace lockstep::control {
namespace {

// A job with this status.
DecodedJob JobWithStatus(const std::string& status) {
  return DecodeTrainingJob(*ParseJson(R"({"apiVersion": "lockstep.dev/v1", "kind": "TrainingJob",
      "metadata": {"name": "mnist"},
      "spec": {"roles": [{"name": "worker", "template": {"spec": {"containers": [
          {"name": "trainer", "image": "a", "command": ["b"]}]}}}]},
      "status": )" + status + "}"));
}

TEST(DecodeStatus, WhatANewerVersionWroteIsKeptAndWrittenBack) {
  const DecodedJob decoded = JobWithStatus(R"({"attempt": 2, "novelty": {"a": [1]},
      "conditions": [{"type": "Created", "status": "True", "observedGeneration": 3},
                     {"type": "Novel", "status": "Unknown"}],
      "placement": [{"role": "worker", "index": 0, "node": "a", "zone": "b"}]})");
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(decoded.status_errors.empty());
  EXPECT_EQ(decoded.job.status.attempt, Attempt(2));
  EXPECT_EQ(decoded.job.status.placement.at(0).node, "a");

  const Json written = EncodeStatus(decoded.job);
  EXPECT_EQ(written["novelty"], *ParseJson(R"({"a": [1]})"));
  EXPECT_EQ(written["conditions"][0]["observedGeneration"], 3);
  EXPECT_EQ(written["conditions"][1], *ParseJson(R"({"type": "Novel", "status": "Unknown"})"));
  EXPECT_EQ(written["placement"][0]["zone"], "b");
}

TEST(DecodeStatus, WhatCannotBeReadIsWrittenBackWithNothingButTheReason) {
  DecodedJob decoded = JobWithStatus(R"({"attempt": 2, "placement": "elsewhere", "state": "Running",
      "conditions": [{"type": "Running", "status": "True"}]})");
  EXPECT_TRUE(decoded.ok());
  ASSERT_EQ(decoded.status_errors.size(), 1U);
  EXPECT_EQ(decoded.status_errors[0].field(), "status.placement");

  SetCondition(&decoded.job.status, {ConditionType::kStalled, true, "A", "b"}, WallTime{});
  const Json written = EncodeStatus(decoded.job);
  EXPECT_EQ(written["attempt"], 2);
  EXPECT_EQ(written["placement"], "elsewhere");
  EXPECT_EQ(written["state"], "Stalled");
  ASSERT_EQ(written["conditions"].size(), 2U);
  EXPECT_EQ(written["conditions"][0]["type"], "Running");
  EXPECT_EQ(written["conditions"][1]["type"], "Stalled");

  SetCondition(&decoded.job.status, {ConditionType::kStalled, true, "A", "c"}, WallTime{});
  EXPECT_EQ(EncodeStatus(decoded.job)["conditions"].size(), 2U);
}

TEST(DecodeStatus, AskOfAutoscalersIsReadAsItWasWritten) {
  const WallTime time{std::chrono::seconds(1'700'000'000)};
  TrainingJob job = JobWithStatus("{}").job;
  EXPECT_FALSE(EncodeStatus(job).contains("provisioning"));
  for (const CapacityAsk& ask :
       {CapacityAsk{3, OpenAsk{ProvisioningClass::kAtomicScaleUp, "abc", time, true}, 0, {}, ""},
        CapacityAsk{5, OpenAsk{ProvisioningClass::kPlaceholderPods, "abc", time}, 0, {}, ""},
        CapacityAsk{
            6, OpenAsk{ProvisioningClass::kCheckCapacity, "d", time, false, time}, 1, {}, ""},
        CapacityAsk{4, std::nullopt, 2, time, "no quota"}}) {
    job.status.provisioning = ask;
    const DecodedJob again = JobWithStatus(DumpJson(EncodeStatus(job)));
    EXPECT_TRUE(again.status_errors.empty());
    EXPECT_EQ(again.job.status.provisioning, ask);
  }
  const DecodedJob bad =
      JobWithStatus(R"({"provisioning": {"count": -1, "open": {"className": "mine"}}})");
  ASSERT_EQ(bad.status_errors.size(), 2U);
  EXPECT_EQ(bad.status_errors[0].field(), "status.provisioning.count");
  EXPECT_EQ(bad.status_errors[1].field(), "status.provisioning.open.className");
}

TEST(DecodeStatus, PodGroupIsReadAsItWasWritten) {
  TrainingJob job = JobWithStatus("{}").job;
  EXPECT_FALSE(EncodeStatus(job).contains("podGroup"));
  job.status.pod_group = "mnist-0123-1";

  EXPECT_EQ(JobWithStatus(DumpJson(EncodeStatus(job))).job.status.pod_group, "mnist-0123-1");
}

TEST(DecodeStatus, ClaimIsReadAsItWasWritten) {
  TrainingJobStatus status;
  status.claim = RoomClaim{WallTime{std::chrono::seconds(1'700'000'000)},
                           {{"team/low", "uid-low", Attempt(3)}},
                           {{"worker-0", "node-a"}, {"worker-1", "node-b"}}};
  status.preemptions = 2;
  status.progress = JobProgress{};
  status.progress->checkpoint_at = WallTime{std::chrono::seconds(1'700'000'001)};
  status.progress->steps_skipped = 3;
  status.progress->steps_repeated = 210;
  status.progress->models = {{0, 70, {}}, {1, 64, {Attempt(2), Incarnation(1)}, 50}};
  TrainingJob job = JobWithStatus("{}").job;
  job.status = status;

  const DecodedJob again = JobWithStatus(DumpJson(EncodeStatus(job)));
  EXPECT_TRUE(again.status_errors.empty());
  EXPECT_EQ(again.job.status.claim, status.claim);
  EXPECT_EQ(again.job.status.preemptions, 2);
  EXPECT_EQ(again.job.status.progress, status.progress);

  const DecodedJob bad = JobWithStatus(R"({"claim": {"since": "now", "gangs": [{"job": 1}]}})");
  ASSERT_EQ(bad.status_errors.size(), 2U);
  EXPECT_EQ(bad.status_errors[0].field(), "status.claim.since");
  EXPECT_EQ(bad.status_errors[1].field(), "status.claim.gangs[0].job");
}

TEST(DecodeStatus, PositionInTheQueueIsReadAsItWasWritten) {
  TrainingJob job = JobWithStatus("{}").job;
  for (const QueuePosition& queue :
       {QueuePosition{"vision", 3, WallTime{std::chrono::seconds(1'700'000'040)}},
        QueuePosition{"vision", std::nullopt, std::nullopt}}) {
    job.status.queue = queue;
    const DecodedJob again = JobWithStatus(DumpJson(EncodeStatus(job)));
    EXPECT_TRUE(again.status_errors.empty());
    EXPECT_EQ(again.job.status.queue, queue);
  }
  job.status.queue.reset();
  EXPECT_FALSE(EncodeStatus(job).contains("queue"));

  const DecodedJob bad = JobWithStatus(R"({"queue": {"position": 0, "estimatedStart": "soon"}})");
  ASSERT_EQ(bad.status_errors.size(), 2U);
  EXPECT_EQ(bad.status_errors[0].field(), "status.queue.position");
  EXPECT_EQ(bad.status_errors[1].field(), "status.queue.estimatedStart");
}

TEST(DecodeStatus, ShareOfKueueIsReadAsItWasWritten) {
  TrainingJob job = JobWithStatus("{}").job;
  const std::vector<Toleration> tolerations = {
      {"spot", true, "", "NoSchedule", std::nullopt},
      {"spot", false, "yes", "NoExecute", std::chrono::seconds(60)}};
  job.status.kueue = {"uid",
                      "gpus",
                      {{Role::kPs, {}, {}, {}, {}},
                       {Role::kWorker, {{"a", "b"}}, tolerations, {{"c", "d"}}, {{"e", "f"}}}}};
  const DecodedJob again = JobWithStatus(DumpJson(EncodeStatus(job)));
  EXPECT_TRUE(again.status_errors.empty());
  EXPECT_EQ(again.job.status.kueue, job.status.kueue);

  const DecodedJob bad = JobWithStatus(R"({"kueue": {"podSets": [{"role": "boss"}]}})");
  ASSERT_EQ(bad.status_errors.size(), 1U);
  EXPECT_EQ(bad.status_errors[0].field(), "status.kueue.podSets[0].role");
}

// Of a status from before `hasRun` two times say it, and of a newer one nothing but the field.
TEST(DecodeStatus, WhetherTheGangHasRunIsReadOrElseInferred) {
  const auto status = [](const std::string& has_run, const std::string& running_at) {
    return R"({"placement": [{"role": "worker", "index": 0}], )" + has_run +
           R"("conditions": [
        {"type": "Scheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
        {"type": "Running", "status": "False", "lastTransitionTime": "2026-01-01T00:00:0)" +
           running_at + R"(Z"}]})";
  };
  EXPECT_TRUE(JobWithStatus(status("", "2")).job.status.has_run);
  EXPECT_FALSE(JobWithStatus(status("", "0")).job.status.has_run);
  EXPECT_TRUE(JobWithStatus(status(R"("hasRun": true, )", "0")).job.status.has_run);
  EXPECT_FALSE(JobWithStatus(status(R"("hasRun": false, )", "2")).job.status.has_run);
}

TEST(DecodeStatus, WhatIsKnownOfAGangIsReadAsItWasWritten) {
  DecodedJob decoded = JobWithStatus(R"({"placement": [{"role": "worker", "index": 0}]})");
  for (const bool is_so : {true, false}) {
    decoded.job.status.has_run = is_so;
    decoded.job.status.placement.at(0).has_moved = is_so;
    EXPECT_EQ(JobWithStatus(EncodeStatus(decoded.job).dump()).job.status, decoded.job.status)
        << is_so;
  }
}

}  // namespace
}  // namespace lockstep::control
