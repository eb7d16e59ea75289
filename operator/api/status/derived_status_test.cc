#include "operator/api/status/derived_status.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "operator/api/job/encode.h"
#include "operator/api/status/conditions.h"

namespace lockstep::control {
namespace {

// A job of three workers and a ps.
TrainingJob MakeJob() {
  TrainingJob job;
  job.metadata.name = "mnist";
  job.spec.roles.resize(2);
  job.spec.roles[0].replicas = 3;
  job.spec.roles[1].name = Role::kPs;
  return job;
}

void Set(TrainingJob* job, ConditionType type, bool is_true, const std::string& message) {
  SetCondition(&job->status, {type, is_true, "Reason", message}, WallTime{});
}

std::string StateAndReason(const TrainingJob& job) {
  const DerivedStatus derived = DeriveStatus(job);
  return std::string(derived.state) + ": " + derived.reason;
}

TEST(DeriveStatus, CountsPodsRestartsAndWorkers) {
  TrainingJob job = MakeJob();
  job.status.roles = {{Role::kWorker, 1, 1, 1, 0}, {Role::kPs, 0, 1, 0, 0}};
  job.status.restarts = {{"crash", 2}, {"oom", 1}};
  const DerivedStatus derived = DeriveStatus(job);
  EXPECT_EQ(derived.ready, "3/4");
  EXPECT_EQ(derived.restart_count, 3);
  EXPECT_EQ(derived.replicas, 2);
  EXPECT_EQ(derived.selector, "lockstep.dev/job=mnist,lockstep.dev/role=worker");
}

TEST(DeriveStatus, JobThatNobodyHasSeenWaits) {
  const DerivedStatus derived = DeriveStatus(MakeJob());
  EXPECT_EQ(derived.state, "Waiting");
  EXPECT_EQ(derived.ready, "0/4");
  EXPECT_EQ(derived.reason, "not placed yet");
}

TEST(DeriveStatus, WhyAnEarlierGangWentIsNoReasonOfTheNext) {
  for (const std::string_view gone : {kReasonPreempted, kReasonSuspended}) {
    TrainingJob job = MakeJob();
    job.status.placement.resize(4);
    SetCondition(&job.status, {ConditionType::kRunning, false, std::string(gone), "gone"}, {});
    Set(&job, ConditionType::kScheduled, true, "attempt 1: 4 pods on 1 node");
    EXPECT_EQ(StateAndReason(job), "Starting: 0 of 4 pods have started") << gone;
  }
}

TEST(DeriveStatus, GangThatKeepsItsSizeIsCountedAsItIs) {
  TrainingJob job = MakeJob();
  job.status.placement.resize(2);
  job.status.roles = {{Role::kWorker, 0, 2, 0, 0}};
  EXPECT_EQ(DeriveStatus(job).ready, "2/2");
}

TEST(DeriveStatus, JobThatEndedWithoutAGangKeepsTheSizeItHadThen) {
  TrainingJob job = MakeJob();
  job.status.roles = {{Role::kWorker, 3, 0, 0, 0}, {Role::kPs, 1, 0, 0, 0}};
  Set(&job, ConditionType::kFailed, true, "no room");
  job.spec.roles[0].replicas = 7;

  const DerivedStatus derived = DeriveStatus(job);

  EXPECT_EQ(derived.ready, "0/4");
  EXPECT_EQ(derived.replicas, 0) << "nobody will come any more";
}

// One job's life: each line is a state and what people are told about it.
TEST(DeriveStatus, ReasonSaysWhyTheJobDoesNotRunAndNothingWhileItDoes) {
  TrainingJob job = MakeJob();
  Set(&job, ConditionType::kScheduled, false, "needs 5 GPUs, 3 free");
  EXPECT_EQ(StateAndReason(job), "Waiting: needs 5 GPUs, 3 free");
  Set(&job, ConditionType::kScheduled, true, "4 pods on 2 nodes");
  EXPECT_EQ(StateAndReason(job), "Starting: 0 of 4 pods have started");
  Set(&job, ConditionType::kRunning, false, "worker-1 cannot pull tf:2");
  EXPECT_EQ(StateAndReason(job), "Starting: worker-1 cannot pull tf:2");
  Set(&job, ConditionType::kRunning, true, "all ranks run");
  EXPECT_EQ(StateAndReason(job), "Running: ");
  Set(&job, ConditionType::kResized, false, "step 7 would be lost");
  EXPECT_EQ(StateAndReason(job), "Running: step 7 would be lost");
  Set(&job, ConditionType::kResized, true, "accepted");
  EXPECT_EQ(StateAndReason(job), "Running: ");
  Set(&job, ConditionType::kRestarting, true, "worker-1 was killed");
  EXPECT_EQ(StateAndReason(job), "Restarting: worker-1 was killed");
  Set(&job, ConditionType::kScheduled, false, "needs 5 GPUs, 4 free");
  EXPECT_EQ(StateAndReason(job), "Restarting: needs 5 GPUs, 4 free");
  Set(&job, ConditionType::kSuspended, true, "runPolicy.suspend is set");
  EXPECT_EQ(StateAndReason(job), "Suspended: runPolicy.suspend is set");
  Set(&job, ConditionType::kFailed, true, "no restarts left");
  EXPECT_EQ(StateAndReason(job), "Failed: no restarts left");
}

// What is open while the gang runs, and what a gang that starts waits for.
TEST(DeriveStatus, ReasonSaysWhatIsOpenOfAGangThatRunsOrStarts) {
  TrainingJob job = MakeJob();
  const auto schedule = [&](std::string_view reason, const std::string& message) {
    SetCondition(
        &job.status, {ConditionType::kScheduled, true, std::string(reason), message}, WallTime{});
  };
  schedule(kReasonPodWaits, "worker-1 cannot get its image");
  EXPECT_EQ(StateAndReason(job), "Starting: worker-1 cannot get its image");
  schedule("GangPlaced", "4 pods on 2 nodes");
  EXPECT_EQ(StateAndReason(job), "Starting: 0 of 4 pods have started");
  Set(&job, ConditionType::kRunning, true, "all ranks run");
  schedule(kReasonManifestChanged, "the gang runs on");
  EXPECT_EQ(StateAndReason(job), "Running: the gang runs on");
  Set(&job, ConditionType::kRuntimeHeard, false, "2 pods do not take the key");
  EXPECT_EQ(StateAndReason(job), "Running: 2 pods do not take the key");
  Set(&job, ConditionType::kRuntimeHeard, true, "pods take it");
  EXPECT_EQ(StateAndReason(job), "Running: the gang runs on");
}

TEST(DeriveStatus, JobThatIsBeingDeletedSaysSoWhateverElseIsOpen) {
  TrainingJob job = MakeJob();
  Set(&job, ConditionType::kRunning, true, "all ranks run");
  Set(&job, ConditionType::kResized, false, "it would not fit");
  SetCondition(&job.status,
               {ConditionType::kScheduled, true, std::string(kReasonJobDeleted), "it goes"},
               WallTime{});
  EXPECT_EQ(StateAndReason(job), "Running: it goes");
  Set(&job, ConditionType::kSucceeded, true, "worker-0 has finished");
  EXPECT_EQ(StateAndReason(job), "Succeeded: worker-0 has finished");
}

TEST(DeriveStatus, SucceededJobSaysWhatCameOfIt) {
  TrainingJob job = MakeJob();
  Set(&job, ConditionType::kSucceeded, true, "worker-0 has finished");
  EXPECT_EQ(StateAndReason(job), "Succeeded: worker-0 has finished");
}

TableCells CellsOf(const TrainingJob& job) {
  return DeriveStatus(job).cells;
}

TEST(TableCells, JobThatNobodyHasSeenHasItsQueueAlone) {
  const TableCells cells = CellsOf(MakeJob());
  EXPECT_EQ(cells.step + cells.loss + cells.eta, "---");
  EXPECT_EQ(cells.queue, "default");
  EXPECT_EQ(cells.reason, "not placed yet");
}

TEST(TableCells, ProgressIsShortAndTheTimeLeftOnlyOfOneThatRuns) {
  TrainingJob job = MakeJob();
  job.status.progress = JobProgress{.step = 41'200, .steps_total = 90'000, .loss = 1.92345};
  job.status.progress->eta_seconds = 7'835;
  EXPECT_EQ(CellsOf(job).step, "41200/90000");
  EXPECT_EQ(CellsOf(job).loss, "1.923");
  EXPECT_EQ(CellsOf(job).eta, "-");
  Set(&job, ConditionType::kRunning, true, "all pods run");
  for (const auto& [seconds, text] : std::map<double, std::string>{{0.4, "0s"},
                                                                   {59.9, "59s"},
                                                                   {60, "1m"},
                                                                   {3'599, "59m"},
                                                                   {3'600, "1h"},
                                                                   {7'835, "2h10m"},
                                                                   {273'600, "3d4h"},
                                                                   {1e300, "9999d"}}) {
    job.status.progress->eta_seconds = seconds;
    EXPECT_EQ(CellsOf(job).eta, text) << seconds;
  }
  job.status.progress->steps_total = 0;
  job.status.progress->loss = std::nan("");
  EXPECT_EQ(CellsOf(job).step, "41200");
  EXPECT_EQ(CellsOf(job).loss, "nan");
}

TEST(TableCells, QueueIsWithThePlaceInItAndOfAGangTheOneThatItCountsIn) {
  TrainingJob job = MakeJob();
  job.spec.scheduling.queue = "vision";
  EXPECT_EQ(CellsOf(job).queue, "vision");
  job.status.queue = QueuePosition{"vision", 2, std::nullopt};
  EXPECT_EQ(CellsOf(job).queue, "vision #2");
  job.status.queue.reset();
  job.status.placement.resize(1);
  job.status.origin.queue = "nlp";
  EXPECT_EQ(CellsOf(job).queue, "nlp");
}

TEST(TableCells, ReasonIsCutBetweenWordsAndNeverInACharacter) {
  TrainingJob job = MakeJob();
  const auto cut = [&job](const std::string& reason) {
    Set(&job, ConditionType::kScheduled, false, reason);
    return CellsOf(job).reason;
  };
  EXPECT_EQ(cut("4 GPUs over its nominal 16, at most2"), "4 GPUs over its nominal 16, at most2");
  EXPECT_EQ(cut("needs 8 GPUs, 0 free on 2 nodes; would not fit"),
            "needs 8 GPUs, 0 free on 2 nodes;…");
  EXPECT_EQ(cut(std::string(40, 'x')), std::string(35, 'x') + "…");
  std::string umlauts;
  for (int i = 0; i < 40; ++i) {
    umlauts += "ä";
  }
  EXPECT_EQ(cut(umlauts), umlauts.substr(0, 70) + "…");
}

TEST(EncodeStatus, HoldsWhatIsDerived) {
  const Json status = EncodeStatus(MakeJob());
  EXPECT_EQ(status["state"], "Waiting");
  EXPECT_EQ(status["ready"], "0/4");
  EXPECT_EQ(status["restartCount"], 0);
  EXPECT_EQ(status["reason"], "not placed yet");
  EXPECT_EQ(status["replicas"], 0);
  EXPECT_EQ(status["selector"], "lockstep.dev/job=mnist,lockstep.dev/role=worker");
  EXPECT_EQ(status["columns"],
            Json({{"step", "-"},
                  {"loss", "-"},
                  {"eta", "-"},
                  {"queue", "default"},
                  {"reason", "not placed yet"}}));
}

}  // namespace
}  // namespace lockstep::control
