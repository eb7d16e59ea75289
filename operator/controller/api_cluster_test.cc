#include "operator/controller/api_cluster.h"

#include <gtest/gtest.h>

#include "operator/controller/testing/fake_api.h"

namespace lockstep::control {
namespace {

class ApiClusterTest : public testing::Test, protected ApiClusterWorld {
 protected:
  // What the other job sees while this status is on its way to the server.
  int64_t PlacesHeldWhileWriting(const TrainingJob& job) {
    cluster_.StartStatusWrite(kMnist, job);
    return PlacesSeenByOther();
  }

  // While nothing more is answered.
  int64_t PlacesSeenByOther() {
    cluster_.StartLook(kOther);  // nothing is in doubt of it: answered without a call
    [[maybe_unused]] const auto answers = cluster_.TakeAnswers();
    cluster_.Ask(kOther);
    return CountPlaces(cluster_.See(kOther)->observed);
  }
};

TEST_F(ApiClusterTest, PodThatRunsUnseenIsNotGivenUp) {
  api_.Expect(
      "POST /api/v1/namespaces/default/pods", 201, PodBody(job_.metadata.uid, 0, "Pending"));
  ASSERT_TRUE(Create().ok());
  api_.Expect(std::string("GET ") + kPodPath, 200, PodBody(job_.metadata.uid, 0, "Running", "21"));
  api_.log.clear();
  TrainingJob rolled_back = job_;
  rolled_back.status.attempt = Attempt(1);
  rolled_back.status.placement.clear();

  EXPECT_EQ(WriteStatus(rolled_back).error().code(), ErrorCode::kStale);

  EXPECT_EQ(api_.log, std::string("GET ") + kPodPath + "\n");
  EXPECT_EQ(Observe(kMnist)->pods.front().status.phase, kube::PodPhase::kRunning);
}

TEST_F(ApiClusterTest, ConflictOfAStatusWriteMakesTheJobBeReadAnew) {
  api_.Expect(
      std::string("PUT ") + kJobPath + "/status", 409, RefusalBody(409, "Conflict", "stale"));
  EXPECT_EQ(WriteStatus(job_).error().code(), ErrorCode::kStale);

  job_.status.attempt = Attempt(3);
  api_.Expect(std::string("GET ") + kJobPath, 200, JobBody("11"));
  EXPECT_EQ(Read(kMnist)->status.attempt, Attempt(3));
}

TEST_F(ApiClusterTest, PlaceWrittenUnheardIsSeenByTheJobThatIsPlannedNext) {
  const TrainingJob placed = job_;
  job_.status.placement.clear();
  Store("11");
  Watch(BodyOf(OtherJob(), "9"));
  api_.Expect(std::string("PUT ") + kJobPath + "/status", 504, RefusalBody(504, "Timeout", "late"));
  EXPECT_FALSE(WriteStatus(placed).ok());

  api_.log.clear();
  EXPECT_EQ(PlacesHeldBesides(kOther), 1) << "it may have been written";
  EXPECT_EQ(api_.log, "") << "the other job waits for nothing";

  api_.Expect(std::string("GET ") + kJobPath, 503, RefusalBody(503, "ServiceUnavailable", "later"));
  EXPECT_EQ(Read(kMnist).error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(PlacesHeldBesides(kOther), 1);

  api_.Expect(std::string("GET ") + kJobPath, 200, JobBody("12"));
  EXPECT_TRUE(Read(kMnist).ok());
  EXPECT_EQ(PlacesHeldBesides(kOther), 0) << "it was not";
}

TEST_F(ApiClusterTest, SightMakesNoRoundAndGrantsNothing) {
  Watch(BodyOf(OtherJob(), "9"));
  ASSERT_TRUE(Look(kOther).ok());
  cluster_.Ask(kOther);
  const int64_t round_count = cluster_.round_count();
  TrainingJob third = OtherJob();
  third.metadata.name = "third";
  third.metadata.uid = "third-uid";
  Watch(BodyOf(third, "12"));  // another round would look at it

  EXPECT_TRUE(cluster_.See(kOther).ok());
  EXPECT_TRUE(cluster_.See(kOther).ok());
  EXPECT_EQ(cluster_.round_count(), round_count);

  cluster_.Ask(kOther);
  EXPECT_EQ(cluster_.round_count(), round_count + 1);
}

TEST_F(ApiClusterTest, PlaceThatTheLastLeaderWroteIsSeenByTheNextBeforeAnyWatchTells) {
  job_.metadata.name = "unseen";
  Lead({JobBody("11"), BodyOf(OtherJob(), "9")});

  EXPECT_EQ(PlacesHeldBesides(kOther), 1);
  EXPECT_EQ(Read(kMnist).error().code(), ErrorCode::kNotFound);  // not in the list
}

TEST_F(ApiClusterTest, NewLeaderAsksOnceForPodsThatEarlierAttemptsMayHaveLeft) {
  job_.status.attempt = Attempt(1);
  job_.status.placement.clear();
  Lead({JobBody("11")});
  EXPECT_FALSE(Observe(kMnist).ok()) << "the server does not say";

  api_.Expect("GET /api/v1/namespaces/default/pods",
              200,
              R"({"metadata": {"resourceVersion": "30"}, "items": [)" +
                  PodBody(job_.metadata.uid, 0, "Running", "21") + "]}");
  EXPECT_EQ(Observe(kMnist)->pods.size(), 1U);
  EXPECT_EQ(Observe(kMnist)->pods.size(), 1U) << "without asking again";
}

TEST_F(ApiClusterTest, NewLeaderDecidesNothingWhileJobsCannotBeListed) {
  cluster_.Lead("master");
  EXPECT_EQ(Read(kMnist).error().code(), ErrorCode::kUnavailable);
}

TEST_F(ApiClusterTest, WrittenJobThatIsGoneFromTheWatchIsAskedForOnce) {
  api_.Expect(std::string("PUT ") + kJobPath + "/status", 200, JobBody("11"));
  ASSERT_TRUE(WriteStatus(job_).ok());
  Watch(BodyOf(OtherJob(), "9"));
  News news;
  view_.Apply(kube::Replaced<StoredJob>{{DecodeStoredJob(BodyOf(OtherJob(), "9")).value()}}, &news);
  EXPECT_EQ(news.urgent.count(kMnist), 1U);
  EXPECT_EQ(PlacesHeldBesides(kOther), 1) << "until it is known to be gone";

  EXPECT_EQ(Read(kMnist).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(PlacesHeldBesides(kOther), 0);
  EXPECT_EQ(api_.log, std::string("PUT ") + kJobPath + "/status\nGET " + kJobPath + "\n");
}

TEST_F(ApiClusterTest, PlaceThatIsAboutToBeWrittenIsTakenForOthersUntilTheAnswer) {
  const TrainingJob placed = job_;
  job_.status.placement.clear();
  Store("11");
  Watch(BodyOf(OtherJob(), "9"));
  api_.Expect(
      std::string("PUT ") + kJobPath + "/status", 409, RefusalBody(409, "Conflict", "stale"));
  EXPECT_EQ(PlacesHeldWhileWriting(placed), 1);
  EXPECT_FALSE(Settle(kMnist).front().ok());
  EXPECT_EQ(PlacesSeenByOther(), 1) << "the conflict may be with our own write, sent twice";

  api_.Expect(std::string("GET ") + kJobPath, 200, JobBody("12"));
  EXPECT_TRUE(Read(kMnist).ok());
  EXPECT_TRUE(cluster_.TakeNews().frees_room) << "others may have that place after all";
  EXPECT_EQ(PlacesHeldBesides(kOther), 0);
}

TEST_F(ApiClusterTest, PlaceThatAJobWasAboutToGetIsFreeWhenTheJobIsGone) {
  api_.ExpectSilence(std::string("PUT ") + kJobPath + "/status");
  cluster_.StartStatusWrite(kMnist, job_);
  News news;
  view_.Apply(kube::Deleted<StoredJob>{DecodeStoredJob(JobBody("10")).value()}, &news);
  EXPECT_FALSE(Settle(kMnist).front().ok());
  TrainingJob next = job_;
  next.metadata.uid = "uid-of-the-next";
  next.status = {};
  Watch(BodyOf(next, "30"));
  Watch(BodyOf(OtherJob(), "9"));

  EXPECT_EQ(PlacesHeldBesides(kOther), 0);
}

TEST_F(ApiClusterTest, SuccessorThatIsAboutToGetRoomHoldsItUnderTheNameThatItHad) {
  TrainingJob placed = job_;
  job_.status.placement.front().node.clear();
  Store("11");
  Watch(BodyOf(OtherJob(), "9"));
  EXPECT_EQ(PlacesHeldBesides(kOther), 1) << "charged on no node";
  EXPECT_EQ(PlacesHeldWhileWriting(placed), 1);

  job_.status.placement.front().node = "node-b";
  Store("12");
  EXPECT_EQ(PlacesSeenByOther(), 2) << "one on either node";
}

TEST_F(ApiClusterTest, PlaceThatIsAboutToBeLeftIsHeldUntilTheAnswer) {
  Watch(BodyOf(OtherJob(), "9"));
  TrainingJob suspended = job_;
  suspended.status.placement.clear();
  api_.Expect(std::string("PUT ") + kJobPath + "/status", 200, BodyOf(suspended, "11"));
  EXPECT_EQ(PlacesHeldWhileWriting(suspended), 1);

  EXPECT_TRUE(Settle(kMnist).front().ok());
  EXPECT_EQ(PlacesHeldBesides(kOther), 0);
}

TEST_F(ApiClusterTest, ClosedPortIsNewsOnceAndUrgentOnlyAfterAReport) {
  api_.Expect("POST /api/v1/namespaces/default/pods", 201, PodBody(job_.metadata.uid));
  ASSERT_TRUE(Create().ok());
  const kube::ObjectKey pod{"default", "mnist-worker-0"};
  News first;
  cluster_.NoteClosed(pod, TimePoint{}, &first);
  EXPECT_TRUE(first.calm.count(kMnist) == 1 && first.urgent.empty()) << "it comes up";
  News again;
  cluster_.NoteClosed(pod, TimePoint(std::chrono::seconds(1)), &again);
  EXPECT_TRUE(again.calm.empty() && again.urgent.empty());

  News ignored;
  StatusDocument document;
  document.job_uid = job_.metadata.uid;
  cluster_.Accept({pod, document, TimePoint{}}, &ignored);
  News closed;
  cluster_.NoteClosed(pod, TimePoint(std::chrono::seconds(2)), &closed);
  EXPECT_EQ(closed.urgent.count(kMnist), 1U) << "it has answered before";
}

TEST_F(ApiClusterTest, OwnStatusWriteIsInViewWithItsVersion) {
  job_.status.attempt = Attempt(1);
  api_.Expect(std::string("PUT ") + kJobPath + "/status", 200, JobBody("11"));

  EXPECT_TRUE(WriteStatus(job_).ok());
  EXPECT_EQ(Read(kMnist)->status.attempt, Attempt(1));
  EXPECT_EQ(view_.JobVersion(kMnist), "11");
}

// A finalizer of somebody else's may keep it for days.
TEST_F(ApiClusterTest, JobThatIsBeingDeletedIsSeenAndCanBeWrittenUntilItIsGone) {
  Json body = ParseJson(JobBody("11")).value();
  body["metadata"]["deletionTimestamp"] = "2026-11-27T00:00:00Z";
  body["metadata"]["finalizers"] = Json::array({"example.com/hold"});
  Watch(DumpJson(body));
  const Result<Observed> observed = Observe(kMnist);
  ASSERT_TRUE(observed.ok()) << observed.error().ToString();
  EXPECT_TRUE(observed->is_job_deleting);
  EXPECT_EQ(observed->job_finalizers, std::vector<std::string>{"example.com/hold"});
  api_.Expect(std::string("PUT ") + kJobPath + "/status", 200, JobBody("12"));
  EXPECT_TRUE(WriteStatus(job_).ok());

  News news;
  view_.Apply(kube::Deleted<StoredJob>{DecodeStoredJob(JobBody("13")).value()}, &news);
  EXPECT_EQ(Read(kMnist).error().code(), ErrorCode::kNotFound);
}

TEST_F(ApiClusterTest, SeenPodThatIsNotInViewIsAskedForOnce) {
  job_.status.placement.front().pod_uid = "pod-uid";
  Store("11");
  EXPECT_TRUE(Observe(kMnist)->pods.empty());
  EXPECT_EQ(api_.log, std::string("GET ") + kPodPath + "\n");

  EXPECT_TRUE(Observe(kMnist).ok());
  EXPECT_EQ(api_.log, std::string("GET ") + kPodPath + "\n");
}

TEST_F(ApiClusterTest, PodOfAJobThatIsGoneIsAskedForOnceTheWatchNamesItNoMore) {
  Watch(BodyOf(OtherJob(), "9"));
  News news;
  view_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid)).value(), &news);
  view_.LearnJobIsGone(kMnist, job_.metadata.uid, &news);
  EXPECT_EQ(PlacesHeldBesides(kOther), 1);

  view_.Apply(kube::Replaced<kube::Pod>{}, &news);
  EXPECT_EQ(Read(kMnist).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(api_.log, std::string("GET ") + kPodPath + "\n");
  EXPECT_EQ(PlacesHeldBesides(kOther), 0);
}

TEST_F(ApiClusterTest, NothingIsDecidedWhileTheServerCannotSayWhetherAPodIsThere) {
  job_.status.placement.front().pod_uid = "pod-uid";
  Store("11");
  api_.Expect(std::string("GET ") + kPodPath, 503, RefusalBody(503, "ServiceUnavailable", "later"));

  EXPECT_FALSE(Observe(kMnist).ok());
}

TEST_F(ApiClusterTest, PodOfALaterAttemptMakesTheJobBeReadAnew) {
  News news;
  view_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid, 2)).value(), &news);
  job_.status.attempt = Attempt(2);
  api_.Expect(std::string("GET ") + kJobPath, 200, JobBody("12"));

  EXPECT_EQ(Read(kMnist)->status.attempt, Attempt(2));
}

// Somebody has wiped it, or the view is older than what was written before the pod was made.
TEST_F(ApiClusterTest, PodOfAJobWithoutAStatusMakesTheJobBeReadAnew) {
  const std::string written = JobBody("12");
  job_.status = {};
  Store("11");
  News news;
  view_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid)).value(), &news);
  api_.Expect(std::string("GET ") + kJobPath, 200, written);

  EXPECT_EQ(Read(kMnist)->status.placement.size(), 1U);
}

TEST_F(ApiClusterTest, JobThatWaitsIsToldByWhatItsQueueIsOrdered) {
  TrainingJob other = OtherJob();
  other.spec.scheduling.queue = "urgent";
  Watch(BodyOf(other, "9"));
  EXPECT_EQ(Observe(kOther)->queue_order, QueueOrder::kFifo) << "there is none of that name";

  News news;
  view_.Apply(kube::ObjectUpdate<StoredQueue>(kube::Upserted<StoredQueue>{*DecodeStoredQueue(R"({
                "metadata": {"name": "urgent", "uid": "q", "resourceVersion": "7"},
                "spec": {"ordering": "Priority"}})")}),
              &news);
  EXPECT_EQ(Observe(kOther)->queue_order, QueueOrder::kPriority);
}

}  // namespace
}  // namespace lockstep::control
