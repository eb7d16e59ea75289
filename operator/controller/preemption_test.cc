// Gangs that go so that others can start, from the round that decides it to the room that comes
// free: what statuses say, who is told, and who gets the room.

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/controller/testing/round_bench.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/gang/queue.h"

namespace lockstep::control {
namespace {

class PreemptionTest : public RoundBench {
 protected:
  void SetUp() override {
    AddNode("node-a", 2);
    AddClass("urgent", 1000);
    StoredQueue queue = QueueOf("vision", 4, 0);
    queue.queue.preempts_lower_priority = true;
    queue.queue.order = QueueOrder::kPriority;
    Tell(queue);
  }

  void AddJobOf(const std::string& name, const std::string& queue, const std::string& class_name) {
    AddJob(name, 2);
    TrainingJob job = Stored(name);
    job.spec.scheduling.queue = queue;
    job.spec.scheduling.priority_class_name = class_name;
    Store(job);
  }

  // The job's status is written so.
  void Write(const std::string& name, const TrainingJobStatus& status) {
    view_.Reserve(KeyOf(name), status);
    view_.NoteStatus(KeyOf(name), status, NextVersion(), &news_);
    view_.EndReservation(KeyOf(name), &news_);
  }

  void Place(const std::string& name) {
    const std::string node = Ask(name);
    ASSERT_EQ(node, "node-a");
    Write(name, Take(name, node));
  }

  // "low" has the only node, and "high" comes, which is more urgent.
  void RunLowBeforeHigh() {
    AddJobOf("low", "vision", "");
    Place("low");
    AddJobOf("high", "vision", "urgent");
  }

  // And its claim is stored: "low" is to go for it.
  void ClaimRoomOfLow() {
    RunLowBeforeHigh();
    Ask("high");
    Write("high", WithClaim("high"));
  }

  void RunLowOnTwoNodes() {
    AddNode("node-b", 2);
    AddJobOf("low-1", "vision", "");
    Write("low-1", Take("low-1", "node-a"));
    AddJobOf("low-2", "vision", "");
    Write("low-2", Take("low-2", "node-b"));
  }

  // So long at least, before they may go for others.
  void LetGangsRunFor(std::chrono::seconds min_runtime) {
    StoredQueue queue = QueueOf("vision", 4, 0);
    queue.queue.preempts_lower_priority = true;
    queue.queue.min_runtime = min_runtime;
    Tell(queue);
  }

  TrainingJobStatus WithClaim(const std::string& name) {
    TrainingJobStatus status = Stored(name).status;
    status.observed_generation = Stored(name).metadata.generation;
    status.claim = rounds_.ClaimFor(KeyOf(name));
    return status;
  }

  // As EvictGang does it, or what else makes a gang go.
  void GiveUp(const std::string& name, std::string_view reason = kReasonPreempted) {
    TrainingJobStatus status = Stored(name).status;
    status.placement.clear();
    status.attempt = status.attempt.Next();
    SetCondition(&status, {ConditionType::kScheduled, false, std::string(reason), "it went"}, now_);
    Write(name, status);
  }

  // The job is gone; its pods are there still.
  void RemoveJob(const std::string& name) {
    view_.LearnJobIsGone(KeyOf(name), "uid-" + name, &news_);
  }

  GangState StateOf(const std::string& name) {
    return view_.Scheduling(now_).state().Find("default/" + name)->state;
  }

  // A pod of the job's first gang is on the node, and goes.
  void AddLeavingPod(const std::string& job) {
    kube::Pod pod;
    pod.name = job + "-worker-0";
    pod.namespace_name = "default";
    pod.uid = "uid-of-" + pod.name;
    pod.labels = EncodePodLabels({job, "uid-" + job, {Role::kWorker, 0}, 0, {}});
    pod.owner_uid = "uid-" + job;
    pod.owner_job = job;
    pod.spec.node_name = "node-a";
    pod.spec.container.requests.gpu_count = 2;
    pod.status.phase = kube::PodPhase::kRunning;
    pod.is_deleting = true;
    pod.deletion_due = now_ + std::chrono::seconds(30);
    pod_ = {{"default", pod.name},
            pod.uid,
            NextVersion(),
            std::make_shared<const kube::Pod>(std::move(pod))};
    view_.Apply(kube::ObjectUpdate<kube::Pod>(kube::Upserted<kube::Pod>{pod_}), &news_);
  }

  void RemovePod() {
    pod_.resource_version = NextVersion();
    view_.Apply(kube::ObjectUpdate<kube::Pod>(kube::Deleted<kube::Pod>{pod_}), &news_);
  }

  kube::Item<kube::Pod> pod_;
};

TEST_F(PreemptionTest, NobodyIsToldBeforeTheClaimIsStored) {
  RunLowBeforeHigh();
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low");
  EXPECT_FALSE(view_.EvictionOf(KeyOf("low"), now_).has_value());
  const TrainingJobStatus status = WithClaim("high");
  ASSERT_TRUE(status.claim.has_value());
  EXPECT_EQ(status.claim->gangs, (std::vector<ClaimedGang>{{"default/low", "uid-low", Attempt()}}));
  EXPECT_EQ(status.claim->places, (std::vector<ClaimedPlace>{{"worker-0", "node-a"}}));
  view_.Reserve(KeyOf("high"), status);
  EXPECT_FALSE(view_.EvictionOf(KeyOf("low"), now_).has_value());

  news_ = News();
  view_.NoteStatus(KeyOf("high"), status, NextVersion(), &news_);
  view_.EndReservation(KeyOf("high"), &news_);
  EXPECT_EQ(news_.urgent.count(KeyOf("low")), 1U) << "it has its turn at once";
  EXPECT_EQ(view_.EvictionOf(KeyOf("low"), now_),
            (EvictionOrder{"default/high", 1000, "vision", false}));
}

TEST_F(PreemptionTest, RoomIsKeptForTheOneForWhomOthersGo) {
  ClaimRoomOfLow();
  AddJobOf("sly", "", "");  // another queue, which comes in between
  AddLeavingPod("low");
  GiveUp("low");
  EXPECT_EQ(Ask("sly"), "needs 2 GPUs, 0 free on 1 node");
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low");

  news_ = News();
  RemovePod();
  EXPECT_TRUE(news_.frees_room);
  rounds_.Plan(now_, &news_);
  EXPECT_EQ(news_.urgent.count(KeyOf("high")), 1U);
  EXPECT_EQ(Ask("sly"), "needs 2 GPUs, 0 free on 1 node");
  EXPECT_EQ(Ask("low").find("needs 2 GPUs, 0 free on 1 node"), 0U);
  EXPECT_EQ(Ask("high"), "node-a");
}

TEST_F(PreemptionTest, WhoLeadsNextAsksNobodyTwice) {
  RunLowOnTwoNodes();
  AddJobOf("high", "vision", "urgent");
  Ask("high");
  Write("high", WithClaim("high"));
  const std::string gone = Stored("high").status.claim->gangs.at(0).job;

  RoundKeeper next(&view_);
  next.Reset(now_);
  next.Plan(now_, &news_);
  int asked = 0;
  for (const std::string name : {"low-1", "low-2"}) {
    const auto order = view_.EvictionOf(KeyOf(name), now_);
    asked += order.has_value() ? 1 : 0;
    EXPECT_EQ(order.has_value(), gone == "default/" + name);
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(next.ClaimFor(KeyOf("high")), Stored("high").status.claim);
}

// The edit is for the next gang: its queue pays until then, and its class protects it.
TEST_F(PreemptionTest, GangCountsAsItWasPlacedThoughItsJobWasMoved) {
  AddClass("low", -10);
  AddJobOf("held", "vision", "urgent");
  TrainingJobStatus status = Take("held", Ask("held"));
  status.origin = {1, "r", "", "vision", "urgent"};
  Write("held", status);
  TrainingJob moved = Stored("held");
  moved.spec.scheduling.queue = "speech";
  moved.spec.scheduling.priority_class_name = "low";
  Store(moved);

  AddJobOf("next", "vision", "");
  EXPECT_TRUE(Ask("next").starts_with("needs 2 GPUs, 0 free on 1 node")) << Ask("next");
  const ClusterState& state = view_.Scheduling(now_).state();
  EXPECT_EQ(state.Find("default/held")->request.priority, 1000);
  EXPECT_EQ(state.queues().HeldBy(*state.queues().Find("vision")).AmountOf("nvidia.com/gpu"), 2);

  GiveUp("held", "SpecChanged");
  Ask("held");
  EXPECT_EQ(view_.Scheduling(now_).state().Find("default/held")->request.queue, "speech");
}

TEST_F(PreemptionTest, ClaimThatIsNotWrittenIsNone) {
  RunLowBeforeHigh();
  Ask("high");
  view_.Reserve(KeyOf("high"), WithClaim("high"));
  view_.Scheduling(now_);
  view_.EndReservation(KeyOf("high"), &news_);  // the write has failed

  EXPECT_EQ(view_.Scheduling(now_).state().Find("default/low")->state, GangState::kRunning);
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low") << "it is decided anew";
}

TEST_F(PreemptionTest, ClaimOfAJobThatIsSuspendedIsGivenUpAndItsVictimsStay) {
  ClaimRoomOfLow();
  TrainingJob high = Stored("high");
  high.spec.run_policy.suspend = true;
  ++high.metadata.generation;
  Store(high);

  EXPECT_FALSE(view_.EvictionOf(KeyOf("low"), now_).has_value());
  EXPECT_EQ(view_.Scheduling(now_).state().Find("default/low")->state, GangState::kRunning);
}

// Its pod does not end: its node may be dead.
TEST_F(PreemptionTest, WhoNeverGoesIsNotWaitedForAnyLonger) {
  ClaimRoomOfLow();
  AddLeavingPod("low");
  GiveUp("low");
  AddNode("node-b", 2);
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low");
  TrainingJobStatus stuck = Stored("low").status;
  SetCondition(
      &stuck, {ConditionType::kScheduled, false, std::string(kReasonPodStuck), "stuck"}, now_);
  Write("low", stuck);

  news_ = News();
  rounds_.Plan(now_, &news_);
  EXPECT_EQ(news_.urgent.count(KeyOf("high")), 1U);
  EXPECT_EQ(Ask("high"), "node-b");
}

// It would be told to go before it has come, and might take the room that it is to leave.
TEST_F(PreemptionTest, NobodyGoesWhosePlacesAreNotStored) {
  AddJobOf("low", "vision", "");
  const std::string node = Ask("low");
  AddJobOf("high", "vision", "urgent");
  const TrainingJobStatus status = Take("low", node);
  EXPECT_EQ(Ask("high"), "needs 2 GPUs, 0 free on 1 node");

  Write("low", status);
  rounds_.Plan(now_, &news_);
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low");
}

// Whoever goes for whatever reason: its room is enough.
TEST_F(PreemptionTest, NobodyGoesForRoomThatComesFreeByItself) {
  RunLowOnTwoNodes();
  AddLeavingPod("low-1");
  TrainingJob job = Stored("low-1");
  job.spec.run_policy.suspend = true;
  Store(job);
  GiveUp("low-1", "Suspended");
  AddJobOf("high", "vision", "urgent");
  EXPECT_EQ(Ask("high"), "waits for pods that are ending");
  EXPECT_EQ(StateOf("low-2"), GangState::kRunning);
  Write("high", WithClaim("high"));
  ASSERT_TRUE(Stored("high").status.claim.has_value());
  EXPECT_TRUE(Stored("high").status.claim->gangs.empty());

  RemovePod();
  EXPECT_EQ(Ask("high"), "node-a");
}

TEST_F(PreemptionTest, NobodyElseGoesWhereAVictimIsSuspendedOrDeletedMeanwhile) {
  RunLowOnTwoNodes();
  AddJobOf("high", "vision", "urgent");
  ASSERT_EQ(Ask("high"), "waits for 1 gang to end: default/low-1");
  Write("high", WithClaim("high"));
  const RoomClaim claim = *Stored("high").status.claim;

  TrainingJob job = Stored("low-1");
  job.spec.run_policy.suspend = true;
  Store(job);
  AddLeavingPod("low-1");
  GiveUp("low-1", "Suspended");
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low-1");
  RemoveJob("low-1");
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low-1");
  EXPECT_EQ(StateOf("low-2"), GangState::kRunning);
  EXPECT_EQ(*rounds_.ClaimFor(KeyOf("high")), claim);
}

// Nobody says so of a job that is gone, or has ended.
TEST_F(PreemptionTest, RoomOfPodsThatShouldHaveGoneIsNotWaitedForAnyLonger) {
  RunLowOnTwoNodes();
  AddLeavingPod("low-1");
  RemoveJob("low-1");
  AddJobOf("high", "vision", "urgent");
  ASSERT_EQ(Ask("high"), "waits for pods that are ending");
  EXPECT_EQ(rounds_.look_again_at(), now_ + std::chrono::seconds(60)) << "its grace, and 30 s more";

  now_ += std::chrono::seconds(60);
  rounds_.Plan(now_, &news_);
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low-2");
  EXPECT_FALSE(rounds_.look_again_at().has_value());
}

// The only ones who say so, where the job of the pods is gone.
TEST_F(PreemptionTest, WhoWaitsForRoomOfPodsThatDoNotEndIsToldWhoseTheyAre) {
  AddJobOf("low", "vision", "");
  Place("low");
  AddLeavingPod("low");
  RemoveJob("low");
  AddJobOf("high", "vision", "");
  EXPECT_EQ(Ask("high"), "waits for pods that are ending");

  now_ += std::chrono::seconds(60);
  rounds_.Plan(now_, &news_);
  EXPECT_EQ(Ask("high"),
            "needs 2 GPUs, 0 free on 1 node; with 0 free on nodes and at most 0 available from "
            "other jobs, 2 GPUs are missing; 2 GPUs are held by pods that do not end: pods of "
            "default/low on node-a");
  RemovePod();
  EXPECT_EQ(Ask("high"), "node-a");
}

TEST_F(PreemptionTest, BorrowedRoomIsTakenBackInTheNameOfTheQueue) {
  StoredQueue speech = QueueOf("speech", 2, 0);
  speech.queue.reclaims = true;
  Tell(speech);
  Tell(QueueOf("vision", 0, 2));
  AddJobOf("guest", "vision", "urgent");
  Place("guest");
  AddJobOf("owner", "speech", "");
  EXPECT_EQ(Ask("owner"), "waits for 1 gang to end: default/guest");
  Write("owner", WithClaim("owner"));

  EXPECT_EQ(view_.EvictionOf(KeyOf("guest"), now_),
            (EvictionOrder{"default/owner", 0, "speech", true}));
}

TEST_F(PreemptionTest, GangThatHasNotRunLongEnoughGoesLaterAndTheMomentIsKnown) {
  LetGangsRunFor(std::chrono::seconds(60));
  RunLowBeforeHigh();
  const WallTime until = now_ + std::chrono::seconds(60);
  EXPECT_EQ(
      Ask("high"),
      "needs 2 GPUs, 0 free on 1 node; minRuntimeSeconds protects other jobs from eviction until " +
          FormatRfc3339(until).substr(0, 19) + "Z");
  EXPECT_EQ(rounds_.look_again_at(), until);

  now_ += std::chrono::seconds(60);
  news_ = News();
  rounds_.Plan(now_, &news_);
  EXPECT_EQ(news_.urgent.count(KeyOf("high")), 1U);
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low");
}

TEST_F(PreemptionTest, ClaimEndsWithTheClassThatItWasMadeBy) {
  RunLowBeforeHigh();
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low");
  Write("high", WithClaim("high"));
  ASSERT_TRUE(view_.EvictionOf(KeyOf("low"), now_).has_value());

  TrainingJob job = Stored("high");
  job.spec.scheduling.priority_class_name = "gone";
  Store(job);
  EXPECT_EQ(Ask("high"), "priority class gone does not exist");
  EXPECT_FALSE(view_.EvictionOf(KeyOf("low"), now_).has_value());
}

TEST_F(PreemptionTest, ClaimEndsWhenTheQueueIsForOthers) {
  ClaimRoomOfLow();
  StoredQueue queue = QueueOf("vision", 4, 0);
  queue.queue.preempts_lower_priority = true;
  queue.queue.namespaces = {"blue"};
  Tell(queue);

  EXPECT_EQ(Ask("high"), "queue vision is for jobs of namespace blue; this job is in default");
  EXPECT_EQ(StateOf("low"), GangState::kRunning) << "who runs already runs on";
}

TEST_F(PreemptionTest, GangThatWasGivenUpTwiceHasNobodyGo) {
  RunLowBeforeHigh();
  TrainingJobStatus status = Stored("high").status;
  status.rollbacks = 2;
  Write("high", status);
  EXPECT_EQ(Ask("high").find("needs 2 GPUs, 0 free on 1 node; no gang is evicted for this job"),
            0U);

  status.rollbacks = 1;
  Write("high", status);
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low");
}

// What was to be looked at again is not known to a leader that begins anew.
TEST_F(PreemptionTest, NothingIsLookedAtAgainAfterAReset) {
  LetGangsRunFor(std::chrono::seconds(60));
  RunLowBeforeHigh();
  Ask("high");
  ASSERT_TRUE(rounds_.look_again_at().has_value());

  rounds_.Reset(now_);
  EXPECT_FALSE(rounds_.look_again_at().has_value());
}

TEST_F(PreemptionTest, ClassMayKeepItsGangsFromGoingAndFromAskingOthersTo) {
  PriorityClass kept{10};
  kept.is_preemptible = false;
  Tell("kept", kept);
  PriorityClass patient{1000};
  patient.may_preempt = false;
  Tell("patient", patient);
  AddJobOf("low", "vision", "kept");
  Place("low");
  AddJobOf("high", "vision", "urgent");
  EXPECT_EQ(Ask("high"), "needs 2 GPUs, 0 free on 1 node");

  Tell("kept", PriorityClass{10});
  AddJobOf("calm", "vision", "patient");
  EXPECT_EQ(Ask("calm"), "needs 2 GPUs, 0 free on 1 node");
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low");
}

// As pods keep theirs.
TEST_F(PreemptionTest, GangGoesByThePriorityThatItWasPlacedWithWhenItsClassIsDeleted) {
  AddClass("usual", 10);
  AddJobOf("low", "vision", "usual");
  ASSERT_EQ(Ask("low"), "node-a");
  TrainingJobStatus status = Take("low", "node-a");
  status.origin.queue = "vision";
  status.origin.priority_class = "usual";
  status.origin.priority = GrantedPriority{10, true};
  Write("low", status);
  news_ = News();

  view_.Apply(
      kube::ObjectUpdate<PriorityClass>(kube::Deleted<PriorityClass>{
          {{"", "usual"}, "usual", NextVersion(), std::make_shared<const PriorityClass>()}}),
      &news_);
  EXPECT_TRUE(news_.urgent.contains(KeyOf("low"))) << "people are to be told";
  AddJobOf("high", "vision", "urgent");
  EXPECT_EQ(Ask("high"), "waits for 1 gang to end: default/low");
  EXPECT_EQ(view_.Scheduling(now_).state().Find("default/low")->request.priority, 10);
}

}  // namespace
}  // namespace lockstep::control
