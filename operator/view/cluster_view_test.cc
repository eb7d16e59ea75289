#include "operator/view/cluster_view.h"

#include <memory>

#include <gtest/gtest.h>

#include "operator/api/job/encode.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/testing/fake_world.h"
#include "operator/view/pods/going_pods.h"

namespace lockstep::control {
namespace {

using JobUpsert = kube::Upserted<StoredJob>;
using PodUpsert = kube::Upserted<kube::Pod>;
using PodList = kube::Replaced<kube::Pod>;

const JobId kMnist{"default", "mnist"};

kube::Item<StoredJob> JobItem(const TrainingJob& job,
                              const std::string& version,
                              const std::string& created = "2026-01-01T00:00:00Z") {
  Json object = EncodeTrainingJob(job);
  object["metadata"]["creationTimestamp"] = created;
  object["metadata"]["resourceVersion"] = version;
  return DecodeStoredJob(DumpJson(object)).value();
}

// A gang of one worker whose place is promised on `node`.
TrainingJob PlacedJob(const std::string& name, const std::string& node, int64_t gpus) {
  TrainingJob job = MakeTrainingJob(1);
  job.metadata.name = name;
  job.metadata.uid = "uid-" + name;
  job.spec.roles.front().gpus = gpus;
  job.spec.training->dataset.train.images = "images";
  job.spec.training->dataset.train.labels = "labels";
  if (!node.empty()) {
    PodPlacement placement;
    placement.node = node;
    job.status.placement = {placement};
  }
  return job;
}

kube::Item<kube::Pod> PodItem(const std::string& job,
                              const std::string& uid,
                              const std::string& version,
                              kube::PodPhase phase = kube::PodPhase::kRunning) {
  kube::Pod pod;
  pod.name = job + "-worker-0";
  pod.namespace_name = "default";
  pod.uid = uid;
  pod.labels = EncodePodLabels({job, "uid-" + job, {Role::kWorker, 0}, 0, {}});
  pod.owner_uid = "uid-" + job;
  pod.spec.node_name = "a";
  pod.spec.container.requests.gpu_count = 2;
  pod.status.phase = phase;
  return {{"default", pod.name}, uid, version, std::make_shared<const kube::Pod>(pod)};
}

const kube::ObjectKey kPod{"default", "mnist-worker-0"};

kube::Item<kube::Pod> SecondPod(const std::string& version, kube::PodPhase phase) {
  kube::Item<kube::Pod> item = PodItem("mnist", "u2", version, phase);
  kube::Pod pod = *item.object;
  pod.name = item.key.name = "mnist-worker-1";
  item.object = std::make_shared<const kube::Pod>(std::move(pod));
  return item;
}

class ClusterViewTest : public testing::Test {
 protected:
  // Applies it and returns what is new.
  template <typename Update>
  News Apply(const Update& update) {
    News news;
    view_.Apply(update, &news);
    return news;
  }

  // What else holds GPUs on node a, as `job` sees it.
  int64_t GpusElsewhere(const std::string& job) {
    return UsedElsewhereOn("a", view_.UsedBesides({"default", job})).resources.gpu_count;
  }

  ClusterView view_;
  News ignored_;
};

TEST(ResourceVersions, AreComparedAsNumbersOfAnyLength) {
  EXPECT_TRUE(IsOlderVersion("9", "10"));
  EXPECT_FALSE(IsOlderVersion("10", "9"));
  EXPECT_FALSE(IsOlderVersion("10", "10"));
  EXPECT_TRUE(IsOlderVersion("18446744073709551615", "18446744073709551616"));
  EXPECT_TRUE(IsOlderVersion("", "1"));
}

TEST_F(ClusterViewTest, WatchThatLagsDoesNotTakeBackWhatAReplyHasShown) {
  view_.LearnPod(PodItem("mnist", "u1", "20", kube::PodPhase::kFailed), &ignored_);

  const News news = Apply(PodUpsert{PodItem("mnist", "u1", "19")});

  EXPECT_TRUE(news.urgent.empty() && news.calm.empty());
  EXPECT_EQ(view_.FindPod(kPod)->object->status.phase, kube::PodPhase::kFailed);
}

TEST_F(ClusterViewTest, PodThatIsGoneDoesNotComeBackWithALateEvent) {
  Apply(PodUpsert{PodItem("mnist", "u1", "20")});
  view_.LearnPodIsGone(kPod, "u1", &ignored_);

  Apply(PodUpsert{PodItem("mnist", "u1", "21")});

  EXPECT_EQ(view_.FindPod(kPod), nullptr);
}

TEST_F(ClusterViewTest, LateEventsOfAPredecessorDoNotHideItsSuccessor) {
  Apply(PodUpsert{PodItem("mnist", "old", "20")});
  view_.LearnPod(PodItem("mnist", "new", "30"), &ignored_);

  Apply(PodUpsert{PodItem("mnist", "old", "31")});
  Apply(kube::Deleted<kube::Pod>{PodItem("mnist", "old", "32")});

  ASSERT_NE(view_.FindPod(kPod), nullptr);
  EXPECT_EQ(view_.FindPod(kPod)->uid, "new");
}

TEST_F(ClusterViewTest, ListThatIsOlderThanOurCreateMakesThePodUncertain) {
  Apply(JobUpsert{JobItem(PlacedJob("mnist", "a", 2), "10")});
  view_.LearnPod(PodItem("mnist", "u1", "20"), &ignored_);

  const News news = Apply(PodList{});

  EXPECT_NE(view_.FindPod(kPod), nullptr);
  EXPECT_EQ(view_.UncertainPods(kMnist), std::vector<std::string>{"mnist-worker-0"});
  EXPECT_TRUE(news.urgent.count(kMnist) > 0);

  view_.LearnPodIsMissing(kMnist, "mnist-worker-0", "u1", &ignored_);
  EXPECT_EQ(view_.FindPod(kPod), nullptr);
  EXPECT_TRUE(view_.UncertainPods(kMnist).empty());
}

TEST_F(ClusterViewTest, ListThatMissesAWatchedPodMeansItsEnd) {
  Apply(PodList{{PodItem("mnist", "u1", "20")}});

  const News news = Apply(PodList{});

  EXPECT_EQ(view_.FindPod(kPod), nullptr);
  EXPECT_TRUE(news.urgent.count(kMnist) > 0);
  EXPECT_TRUE(news.frees_room);
}

TEST_F(ClusterViewTest, SeenPodThatIsNotThereIsUncertainUntilItsEndWasSeen) {
  TrainingJob job = PlacedJob("mnist", "a", 2);
  job.status.placement.front().pod_uid = "u1";
  Apply(JobUpsert{JobItem(job, "10")});
  EXPECT_EQ(view_.UncertainPods(kMnist).size(), 1U);

  Apply(kube::Deleted<kube::Pod>{PodItem("mnist", "u1", "20")});

  EXPECT_TRUE(view_.UncertainPods(kMnist).empty());
}

// Names come back: a pod that was never written down may be made anew, and a view that lags has the
// first of the two.
TEST_F(ClusterViewTest, PodIsUncertainWhileItsForerunnerHasItsName) {
  TrainingJob job = PlacedJob("mnist", "a", 2);
  job.status.placement.front().pod_uid = "u2";
  Apply(JobUpsert{JobItem(job, "30")});
  Apply(PodUpsert{PodItem("mnist", "u1", "10", kube::PodPhase::kFailed)});
  EXPECT_EQ(view_.UncertainPods(kMnist).size(), 1U);

  view_.LearnPodOfName(kMnist, PodItem("mnist", "u2", "20"), &ignored_);

  EXPECT_TRUE(view_.UncertainPods(kMnist).empty());
  EXPECT_EQ(view_.FindPod(kPod)->uid, "u2");
}

TEST_F(ClusterViewTest, PodWhoseNameAnotherHasIsGone) {
  TrainingJob job = PlacedJob("mnist", "a", 2);
  job.status.placement.front().pod_uid = "u1";
  Apply(JobUpsert{JobItem(job, "10")});
  Apply(PodUpsert{PodItem("mnist", "u2", "20")});
  EXPECT_EQ(view_.UncertainPods(kMnist).size(), 1U);

  view_.LearnPodOfName(kMnist, PodItem("mnist", "u2", "20"), &ignored_);

  EXPECT_TRUE(view_.UncertainPods(kMnist).empty()) << "asked once";
  EXPECT_EQ(view_.FindPod(kPod)->uid, "u2");
}

TEST_F(ClusterViewTest, ProgressOfPodsIsCalmNewsAndTheirEndIsUrgent) {
  EXPECT_TRUE(
      Apply(PodUpsert{PodItem("mnist", "u1", "1", kube::PodPhase::kPending)}).calm.count(kMnist));
  EXPECT_TRUE(Apply(PodUpsert{PodItem("mnist", "u1", "2")}).calm.count(kMnist));
  const News same = Apply(PodUpsert{PodItem("mnist", "u1", "3")});
  EXPECT_TRUE(same.calm.empty() && same.urgent.empty());

  const News end = Apply(PodUpsert{PodItem("mnist", "u1", "4", kube::PodPhase::kFailed)});

  EXPECT_TRUE(end.urgent.count(kMnist) > 0);
  EXPECT_TRUE(end.frees_room);
}

TEST_F(ClusterViewTest, PodThatHasEndedLeavesCalmly) {
  const auto leaving = [](const std::string& version, kube::PodPhase phase) {
    kube::Item<kube::Pod> item = PodItem("mnist", "u1", version, phase);
    kube::Pod pod = *item.object;
    pod.is_deleting = true;
    item.object = std::make_shared<const kube::Pod>(std::move(pod));
    return item;
  };
  Apply(PodUpsert{PodItem("mnist", "u1", "1", kube::PodPhase::kRunning)});
  EXPECT_TRUE(Apply(PodUpsert{leaving("2", kube::PodPhase::kRunning)}).urgent.count(kMnist) > 0);

  Apply(PodUpsert{PodItem("mnist", "u1", "3", kube::PodPhase::kFailed)});
  const News leaves = Apply(PodUpsert{leaving("4", kube::PodPhase::kFailed)});
  EXPECT_TRUE(leaves.urgent.empty());
  EXPECT_TRUE(leaves.calm.count(kMnist) > 0);
  const News gone = Apply(kube::Deleted<kube::Pod>{leaving("5", kube::PodPhase::kFailed)});
  EXPECT_TRUE(gone.urgent.empty());
  EXPECT_TRUE(gone.calm.count(kMnist) > 0);
}

TEST_F(ClusterViewTest, LastPodToRunIsUrgentNews) {
  TrainingJob job = PlacedJob("mnist", "a", 2);
  job.status.placement.push_back(job.status.placement.front());
  job.status.placement.back().index = 1;
  Apply(JobUpsert{JobItem(job, "10")});
  EXPECT_TRUE(Apply(PodUpsert{PodItem("mnist", "u1", "11")}).urgent.empty())
      << "the other is not even there";
  EXPECT_TRUE(Apply(PodUpsert{SecondPod("12", kube::PodPhase::kPending)}).urgent.empty());

  EXPECT_TRUE(Apply(PodUpsert{SecondPod("13", kube::PodPhase::kRunning)}).urgent.count(kMnist) > 0);

  EXPECT_TRUE(Apply(PodUpsert{SecondPod("14", kube::PodPhase::kRunning)}).urgent.empty())
      << "once is enough";
}

TEST_F(ClusterViewTest, LastPodToRunIsUrgentNewsBesideOneThatHasEnded) {
  Apply(JobUpsert{JobItem(PlacedJob("mnist", "a", 1), "10")});
  Apply(PodUpsert{SecondPod("11", kube::PodPhase::kFailed)});
  Apply(PodUpsert{PodItem("mnist", "u1", "12", kube::PodPhase::kPending)});

  EXPECT_TRUE(Apply(PodUpsert{PodItem("mnist", "u1", "13")}).urgent.count(kMnist) > 0);

  const kube::Deleted<kube::Pod> gone{SecondPod("14", kube::PodPhase::kFailed)};
  EXPECT_TRUE(Apply(gone).urgent.empty());
}

TEST_F(ClusterViewTest, ServiceOfAReplyIsCalmNewsAndOfTheWatchUrgent) {
  const auto service = [](const std::string& version) {
    return kube::Item<kube::Service>{
        {"default", "mnist"}, "uid-service", version, std::make_shared<const kube::Service>()};
  };
  News reply;
  view_.LearnService(service("1"), &reply);
  EXPECT_TRUE(reply.urgent.empty());
  EXPECT_TRUE(reply.calm.count(kMnist) > 0);

  EXPECT_TRUE(Apply(kube::Upserted<kube::Service>{service("2")}).urgent.count(kMnist) > 0);
}

TEST_F(ClusterViewTest, PromisedPlacesCountForOthersBeforeAnyPodIsThere) {
  Apply(JobUpsert{JobItem(PlacedJob("mnist", "a", 3), "10")});

  EXPECT_EQ(GpusElsewhere("other"), 3);
  EXPECT_EQ(GpusElsewhere("mnist"), 0);
}

TEST_F(ClusterViewTest, PodAndItsPromisedPlaceCountOnce) {
  Apply(JobUpsert{JobItem(PlacedJob("mnist", "a", 2), "10")});
  Apply(PodUpsert{PodItem("mnist", "u1", "11")});
  EXPECT_EQ(GpusElsewhere("other"), 2);

  // Its successor will need the place.
  Apply(PodUpsert{PodItem("mnist", "u1", "12", kube::PodPhase::kFailed)});
  EXPECT_EQ(GpusElsewhere("other"), 2);
}

TEST_F(ClusterViewTest, EndedJobHoldsOnlyWhatItsPodsHold) {
  TrainingJob job = PlacedJob("mnist", "a", 2);
  Apply(JobUpsert{JobItem(job, "10")});
  Apply(PodUpsert{PodItem("mnist", "u1", "11")});
  SetCondition(&job.status, {ConditionType::kSucceeded, true, "Done", ""}, WallTime{});
  Apply(JobUpsert{JobItem(job, "12")});
  EXPECT_EQ(GpusElsewhere("other"), 2);

  Apply(PodUpsert{PodItem("mnist", "u1", "13", kube::PodPhase::kSucceeded)});
  EXPECT_EQ(GpusElsewhere("other"), 0);
}

// A webhook may refuse our deletion, and nobody's else comes.
TEST_F(ClusterViewTest, PodThatIsToGoAndIsNeverAskedToIsStuckAfterAWhile) {
  const WallTime begin{std::chrono::hours(1)};
  TrainingJob job = PlacedJob("mnist", "", 2);
  SetCondition(&job.status, {ConditionType::kCreated, true, "JobCreated", ""}, WallTime{});
  Apply(JobUpsert{JobItem(job, "10")});
  kube::Item<kube::Pod> item = PodItem("mnist", "u1", "11");
  Apply(PodUpsert{item});
  view_.Scheduling(begin);
  EXPECT_EQ(view_.StuckFrom(), begin + kUnaskedAfter);

  view_.Reconsider(kMnist);
  view_.Scheduling(begin + std::chrono::seconds(20));
  EXPECT_EQ(view_.StuckFrom(), begin + kUnaskedAfter) << "that is counted once";
  view_.Scheduling(begin + kUnaskedAfter);
  EXPECT_FALSE(view_.StuckFrom().has_value()) << "it has been told";

  kube::Pod pod = *item.object;
  pod.is_deleting = true;
  pod.deletion_due = begin + std::chrono::hours(1);
  item.resource_version = "12";
  item.object = std::make_shared<const kube::Pod>(pod);
  Apply(PodUpsert{item});
  view_.Scheduling(begin + std::chrono::minutes(2));
  EXPECT_EQ(view_.StuckFrom(), *pod.deletion_due + kOverdueAfter) << "it was asked after all";
}

TEST_F(ClusterViewTest, PodThatNeverGotANodeAndIsToGoHoldsNothing) {
  TrainingJob job = PlacedJob("mnist", "a", 2);
  SetCondition(&job.status, {ConditionType::kSucceeded, true, "Done", ""}, WallTime{});
  Apply(JobUpsert{JobItem(job, "10")});
  kube::Item<kube::Pod> item = PodItem("mnist", "u1", "11", kube::PodPhase::kPending);
  kube::Pod pod = *item.object;
  pod.status.is_unbound = true;
  item.object = std::make_shared<const kube::Pod>(pod);
  Apply(PodUpsert{item});
  EXPECT_EQ(GpusElsewhere("other"), 2) << "it may still be bound";

  pod.is_deleting = true;  // held back by a finalizer, perhaps for ever
  item.resource_version = "12";
  item.object = std::make_shared<const kube::Pod>(pod);
  EXPECT_TRUE(Apply(PodUpsert{item}).frees_room);
  EXPECT_EQ(GpusElsewhere("other"), 0);
}

TEST_F(ClusterViewTest, PodsOfNoJobAreStrangers) {
  Apply(PodUpsert{PodItem("mnist", "u1", "11")});
  Apply(kube::Upserted<PodUse>{{{"default", "web"},
                                "w",
                                "1",
                                std::make_shared<const PodUse>(PodUse{"a", {0, 0, 1}, false})}});

  EXPECT_EQ(GpusElsewhere("mnist"), 3);  // also for a new job of that name: it must wait
  EXPECT_EQ(view_.UsedBesides({"default", "mnist"}).own, UsageByNode());
}

TEST_F(ClusterViewTest, OwnStatusWriteIsNoNewsAndItsEchoNeither) {
  TrainingJob job = PlacedJob("mnist", "", 1);
  Apply(JobUpsert{JobItem(job, "10")});
  job.status.attempt = Attempt(1);
  News news;
  view_.NoteStatus(kMnist, job.status, "11", &news);

  EXPECT_EQ(view_.JobVersion(kMnist), "11");
  EXPECT_TRUE(news.urgent.empty());
  EXPECT_TRUE(Apply(JobUpsert{JobItem(job, "11")}).urgent.empty());
  EXPECT_TRUE(Apply(JobUpsert{JobItem(PlacedJob("mnist", "", 1), "10")}).urgent.empty());
  EXPECT_EQ(view_.FindJob(kMnist)->job.status.attempt, Attempt(1));
}

TEST_F(ClusterViewTest, JobThatCannotBeReadIsKeptWithItsProblem) {
  Json object = EncodeTrainingJob(MakeTrainingJob(1));
  object["spec"]["strategy"] = "Guess";
  Apply(JobUpsert{DecodeStoredJob(DumpJson(object)).value()});

  ASSERT_NE(view_.FindJob(kMnist), nullptr);
  EXPECT_NE(view_.FindJob(kMnist)->problem.find("spec.strategy"), std::string::npos);
  EXPECT_EQ(view_.waiting_count(), 0);
}

// Its quota came free while its pods ran.
TEST_F(ClusterViewTest, RunningJobThatNoParserTakesStaysOnItsQueuesBill) {
  TrainingJob job = PlacedJob("mnist", "a", 2);
  job.status.conditions = {{ConditionType::kCreated, true, "R", "m", WallTime{}}};
  job.status.origin.queue = "default";
  Apply(JobUpsert{JobItem(job, "1")});
  Apply(PodUpsert{PodItem("mnist", "u1", "2")});
  const auto held = [&] {
    const QueueTree& queues = view_.Scheduling(WallTime{}).state().queues();
    return queues.HeldBy(*queues.Find("default")).gpu_count;
  };
  ASSERT_EQ(held(), 2);

  Json object = EncodeTrainingJob(job);
  object["metadata"]["resourceVersion"] = "3";
  std::string json = DumpJson(object);
  const std::string deep =
      "\"spec\":{\"deep\":" + std::string(100, '[') + std::string(100, ']') + ",";
  json.replace(json.find("\"spec\":{"), 8, deep);
  const kube::Item<StoredJob> edited = DecodeStoredJob(json).value();
  Apply(JobUpsert{edited});

  EXPECT_NE(view_.FindJob(kMnist)->problem, "");
  EXPECT_EQ(held(), 2);
  EXPECT_EQ(view_.counts().unreadable_jobs, 1U);
  Apply(kube::Deleted<StoredJob>{edited});
  Apply(kube::Deleted<kube::Pod>{PodItem("mnist", "u1", "4")});
  EXPECT_EQ(held(), 0) << "deleting it works";
}

TEST(ClusterView, JobsOfOtherNamespacesAreNotServed) {
  ClusterView view({"team-a"});
  News news;
  view.Apply(JobUpsert{JobItem(PlacedJob("mnist", "", 1), "1")}, &news);
  EXPECT_TRUE(view.Jobs().empty());
  EXPECT_TRUE(news.urgent.empty());
}

kube::Item<kube::Node> NodeItem(bool is_ready, const std::string& version) {
  kube::Node object;
  object.name = "a";
  object.is_ready = is_ready;
  return {{"", "a"}, "n", version, std::make_shared<const kube::Node>(object)};
}

TEST_F(ClusterViewTest, LostNodeIsUrgentForWhoeverHoldsAPlaceThere) {
  Apply(kube::Upserted<kube::Node>{NodeItem(true, "1")});
  Apply(JobUpsert{JobItem(PlacedJob("mnist", "a", 1), "2")});
  Apply(JobUpsert{JobItem(PlacedJob("other", "b", 1), "3")});

  const News silent = Apply(kube::Upserted<kube::Node>{NodeItem(false, "4")});
  const News gone = Apply(kube::Deleted<kube::Node>{NodeItem(false, "4")});

  EXPECT_EQ(silent.urgent, std::set<JobId>{kMnist});
  EXPECT_EQ(gone.urgent, std::set<JobId>{kMnist});
}

// A taint may say that what still runs there will never be heard of again.
TEST_F(ClusterViewTest, AnyChangeOfANodeIsUrgentForWhoWaitsForPodsThere) {
  Apply(kube::Upserted<kube::Node>{NodeItem(true, "1")});
  Apply(JobUpsert{JobItem(PlacedJob("mnist", "", 1), "2")});
  Apply(JobUpsert{JobItem(PlacedJob("other", "a", 1), "3")});
  Apply(PodUpsert{PodItem("mnist", "u1", "4")});  // of an earlier attempt

  kube::Node tainted = *NodeItem(true, "5").object;
  tainted.taints = {{"node.kubernetes.io/out-of-service", "", "NoExecute"}};
  const News news = Apply(kube::Upserted<kube::Node>{
      {{"", "a"}, "n", "5", std::make_shared<const kube::Node>(tainted)}});

  EXPECT_EQ(news.urgent, std::set<JobId>{kMnist});
}

TEST_F(ClusterViewTest, WhoGivesItsPlacesUpHasAnotherTurn) {
  TrainingJob job = PlacedJob("mnist", "a", 1);
  Apply(JobUpsert{JobItem(job, "10")});
  job.status.placement.clear();
  News news;
  view_.NoteStatus(kMnist, job.status, "11", &news);

  EXPECT_EQ(news.urgent, std::set<JobId>{kMnist});
}

TEST_F(ClusterViewTest, SuccessorWithoutRoomIsChargedForOnNoNode) {
  TrainingJob job = PlacedJob("mnist", "a", 1);
  job.status.placement.front().node.clear();
  Apply(JobUpsert{JobItem(job, "1")});

  const auto by_jobs = view_.UsedBesides({"default", "other"}).by_jobs;
  ASSERT_EQ(by_jobs->size(), 1U);
  EXPECT_EQ(by_jobs->begin()->first, "");
}

TEST_F(ClusterViewTest, NodesThatJobsAvoidAreCountedOnceAndForAsLongAsTheyAreAvoided) {
  const auto at = [](int minute) { return WallTime(std::chrono::minutes(minute)); };
  TrainingJob first = PlacedJob("first", "", 1);
  first.status.suspect_nodes = {{"a", "PodRefused", 1, at(10)}, {"b", "PodRefused", 1, at(20)}};
  TrainingJob second = PlacedJob("second", "", 1);
  second.status.suspect_nodes = {{"b", "PodRefused", 1, at(30)}};
  TrainingJob ended = PlacedJob("ended", "", 1);
  ended.status.suspect_nodes = {{"c", "PodRefused", 1, at(30)}};
  SetCondition(&ended.status, {ConditionType::kFailed, true, "Failed", ""}, at(0));
  for (const TrainingJob& job : {first, second, ended}) {
    Apply(JobUpsert{JobItem(job, "1")});
  }
  EXPECT_EQ(view_.CountSuspectNodes(at(5)), 2U);
  EXPECT_EQ(view_.CountSuspectNodes(at(15)), 1U);
  EXPECT_EQ(view_.CountSuspectNodes(at(30)), 0U);
}

}  // namespace
}  // namespace lockstep::control
