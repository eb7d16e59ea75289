#include "operator/cmd/operator_metrics.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/failure/restart_cause.h"
#include "operator/reconcile/failure/start_problem.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(OperatorMetrics, EverySeriesIsThereBeforeAnythingHappened) {
  const std::string page = OperatorMetrics("api:443", "lockstep").RenderText();

  for (const char* series :
       {"controller_runtime_reconcile_total{controller=\"trainingjob\",result=\"error\"} 0\n",
        "workqueue_depth{name=\"trainingjob\"} 0\n",
        "leader_election_master_status{lease=\"lockstep\",name=\"lockstep-operator\"} 0\n",
        "lockstep_jobs{state=\"Waiting\"} 0\n",
        "lockstep_restarts_total{cause=\"hang\"} 0\n",
        "lockstep_restarts_total{cause=\"oom\"} 0\n",
        "lockstep_lost_seconds_total{cause=\"oom\"} 0\n",
        "lockstep_jobs_finished_total{outcome=\"failed\"} 0\n",
        "lockstep_gang_wait_seconds_count{queue=\"default\"} 0\n",
        "lockstep_round_seconds_count 0\n",
        "lockstep_preemptions_total{queue=\"default\",reason=\"priority\"} 0\n"}) {
    EXPECT_THAT(page, HasSubstr(series));
  }
}

TEST(OperatorMetrics, EveryCauseOfARestartHasItsSeries) {
  const std::string page = OperatorMetrics("api:443", "lockstep").RenderText();
  for (const std::string_view cause : RestartCauses()) {
    EXPECT_THAT(page,
                HasSubstr("lockstep_restarts_total{cause=\"" + std::string(cause) + "\"} 0\n"));
  }
  for (const char* cause : {"oom", "deleted", "evicted", "not_started", "stuck", "unknown"}) {
    EXPECT_THAT(page, HasSubstr("lockstep_restarts_total{cause=\"" + std::string(cause) + "\"}"));
  }
}

TEST(OperatorMetrics, EveryReasonOfARollbackHasItsSeries) {
  const std::string page = OperatorMetrics("api:443", "lockstep").RenderText();
  for (const std::string_view reason : kRollbackReasons) {
    EXPECT_THAT(
        page,
        HasSubstr("lockstep_gang_rollbacks_total{reason=\"" + std::string(reason) + "\"} 0\n"));
  }
}

TEST(OperatorMetrics, CountersFollowWhatIsReported) {
  OperatorMetrics metrics("api:443", "lockstep");
  metrics.TurnDone({{"default", "mnist"}, TurnResult::kFailed, {}, std::chrono::milliseconds(3)});
  metrics.Count({Metric::kRestarts, "killed", 2});
  metrics.Count({Metric::kRollbacks, "PodRefused", 3});
  metrics.Count({Metric::kRefusedWrites, "status", 2});
  metrics.SetMissingFields("TrainingJob", 2);
  metrics.SetClockOffset(std::chrono::minutes(-10));
  metrics.SetJobs({"Running", "Running", "Waiting"});
  metrics.SetQueue(4, 10, 3);
  metrics.SetQueue(1, 12, 3);
  CallRecord call;
  call.method = "POST";
  call.http_status = 409;
  metrics.OnCall(call);

  const std::string page = metrics.RenderText();

  for (const char* series :
       {"controller_runtime_reconcile_errors_total{controller=\"trainingjob\"} 1\n",
        "lockstep_restarts_total{cause=\"killed\"} 2\n",
        "lockstep_gang_rollbacks_total{reason=\"PodRefused\"} 3\n",
        "lockstep_refused_writes_total{what=\"status\"} 2\n",
        "lockstep_crd_missing_fields{kind=\"TrainingJob\"} 2\n",
        "lockstep_clock_offset_seconds -600\n",
        "lockstep_jobs{state=\"Running\"} 2\n",
        "workqueue_depth{name=\"trainingjob\"} 1\n",
        "workqueue_adds_total{name=\"trainingjob\"} 12\n",
        "rest_client_requests_total{code=\"409\",host=\"api:443\",method=\"POST\"} 1\n"}) {
    EXPECT_THAT(page, HasSubstr(series));
  }
  EXPECT_THAT(page, Not(HasSubstr("mnist")));
}

TEST(OperatorMetrics, WhatHappensInAQueueIsCountedThere) {
  OperatorMetrics metrics("api:443", "lockstep");
  metrics.Count({Metric::kPreemptions, "borrowed", 2, "vision"});
  metrics.GangPlaced("vision", std::chrono::seconds(20));
  metrics.RoundDone(std::chrono::microseconds(300));
  const std::string page = metrics.RenderText();
  for (const char* series : {"lockstep_preemptions_total{queue=\"vision\",reason=\"borrowed\"} 2\n",
                             "lockstep_gang_wait_seconds_bucket{queue=\"vision\",le=\"15\"} 0\n",
                             "lockstep_gang_wait_seconds_bucket{queue=\"vision\",le=\"60\"} 1\n",
                             "lockstep_gang_wait_seconds_count{queue=\"default\"} 0\n",
                             "lockstep_round_seconds_bucket{le=\"0.00025\"} 0\n",
                             "lockstep_round_seconds_bucket{le=\"0.0005\"} 1\n"}) {
    EXPECT_THAT(page, HasSubstr(series));
  }
}

TEST(OperatorMetrics, AsksForRoomAreCountedByQueueAndClassAndWhatBecameOfThem) {
  OperatorMetrics metrics("api:443", "lockstep");
  const std::string check = "check-capacity.autoscaling.x-k8s.io";
  metrics.Count({Metric::kCapacityAsks, "", 1, "vision", check});
  metrics.Count({Metric::kCapacityAnswers, "no_room", 1, "vision", check});
  metrics.CapacityCame("vision", ProvisioningClass::kAtomicScaleUp, std::chrono::minutes(4));
  const std::string page = metrics.RenderText();
  const std::string of_check = "class=\"" + check + "\"";
  const std::string of_scale_up = "class=\"best-effort-atomic-scale-up.autoscaling.x-k8s.io\"";
  for (const std::string& series :
       {"lockstep_capacity_asks_total{" + of_check + ",queue=\"vision\"} 1\n",
        "lockstep_capacity_answers_total{answer=\"no_room\"," + of_check + ",queue=\"vision\"} 1\n",
        "lockstep_capacity_wait_seconds_bucket{" + of_scale_up + ",queue=\"vision\",le=\"60\"} 0\n",
        "lockstep_capacity_wait_seconds_bucket{" + of_scale_up +
            ",queue=\"vision\",le=\"300\"} 1\n",
        // Those of the default queue are there before anything happens.
        "lockstep_capacity_asks_total{" + of_check + ",queue=\"default\"} 0\n",
        "lockstep_capacity_answers_total{answer=\"revoked\"," + of_scale_up +
            ",queue=\"default\"} 0\n",
        "lockstep_capacity_wait_seconds_count{" + of_check + ",queue=\"default\"} 0\n"}) {
    EXPECT_THAT(page, HasSubstr(series));
  }
}

TEST(OperatorMetrics, QueuesAreToldWhileTheyAreThere) {
  OperatorMetrics metrics("api:443", "lockstep");
  QueueStatus vision;
  vision.nominal = {{"nvidia.com/gpu", 4}};
  vision.used = {{"cpu", 1500}, {"nvidia.com/gpu", 6}};
  vision.borrowed = {{"nvidia.com/gpu", 2}};
  vision.waiting = 3;
  const WallTime now{std::chrono::hours(1000)};
  vision.oldest_wait = now - std::chrono::minutes(90);
  metrics.SetQueues({{"vision", vision}}, now);
  metrics.SetRounds(7);
  const std::string page = metrics.RenderText();
  for (const char* series :
       {"lockstep_queue_nominal{queue=\"vision\",resource=\"nvidia.com/gpu\"} 4\n",
        "lockstep_queue_used{queue=\"vision\",resource=\"cpu\"} 1.5\n",
        "lockstep_queue_borrowed{queue=\"vision\",resource=\"nvidia.com/gpu\"} 2\n",
        "lockstep_queue_waiting_jobs{queue=\"vision\"} 3\n",
        "lockstep_queue_oldest_wait_seconds{queue=\"vision\"} 5400\n",
        "lockstep_rounds_total 7\n"}) {
    EXPECT_THAT(page, HasSubstr(series));
  }

  vision.nominal["memory"] = 1024;
  vision.used.clear();
  vision.borrowed.clear();
  vision.oldest_wait = now + std::chrono::seconds(1);  // a clock that was set back
  metrics.SetQueues({{"vision", vision}}, now);
  const std::string idle = metrics.RenderText();
  for (const char* gauge : {"lockstep_queue_used", "lockstep_queue_borrowed"}) {
    for (const char* resource : {"cpu", "memory", "nvidia.com/gpu"}) {
      EXPECT_THAT(
          idle,
          HasSubstr(std::string(gauge) + "{queue=\"vision\",resource=\"" + resource + "\"} 0\n"));
    }
  }
  EXPECT_THAT(idle, Not(HasSubstr("lockstep_queue_nominal{queue=\"vision\",resource=\"cpu\"}")));
  EXPECT_THAT(idle, HasSubstr("lockstep_queue_oldest_wait_seconds{queue=\"vision\"} 0\n"));
  vision.oldest_wait.reset();
  metrics.SetQueues({{"vision", vision}}, now);
  EXPECT_THAT(metrics.RenderText(),
              HasSubstr("lockstep_queue_oldest_wait_seconds{queue=\"vision\"} 0\n"));
  metrics.SetQueues({}, now);
  EXPECT_THAT(metrics.RenderText(), Not(HasSubstr("lockstep_queue_used{queue=\"vision\"")));
  EXPECT_THAT(metrics.RenderText(), Not(HasSubstr("oldest_wait_seconds{queue=\"vision\"")));
}

// So the first gang of a queue counts in a rate. Alerts tell by it which queues jobs can name.
TEST(OperatorMetrics, QueuesThatJobsMayNameHaveAHistogramOfWaitsFromTheStart) {
  OperatorMetrics metrics("api:443", "lockstep");
  QueueStatus above;
  above.has_queues_below = true;
  metrics.SetQueues({{"vision", {}}, {"research", above}}, WallTime{});
  const std::string page = metrics.RenderText();
  EXPECT_THAT(page, HasSubstr("lockstep_gang_wait_seconds_count{queue=\"vision\"} 0\n"));
  EXPECT_THAT(page, Not(HasSubstr("lockstep_gang_wait_seconds_count{queue=\"research\"}")));
}

TEST(OperatorMetrics, VersionAndSuspectNodesAreTold) {
  OperatorMetrics metrics("api:443", "lockstep");
  EXPECT_THAT(metrics.RenderText(), HasSubstr("lockstep_suspect_nodes 0\n"));
  metrics.SetSuspectNodes(2);
  EXPECT_THAT(metrics.RenderText(), HasSubstr("lockstep_suspect_nodes 2\n"));
  EXPECT_THAT(
      metrics.RenderText(),
      ::testing::MatchesRegex("(.|\n)*lockstep_build_info.version=\"[0-9.]+\". 1\n(.|\n)*"));
}

}  // namespace
}  // namespace lockstep::control
