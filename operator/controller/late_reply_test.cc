// Replies that are read when what they tell is no longer so.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/controller/testing/fake_api.h"

namespace lockstep::control {
namespace {

class LateReplyTest : public testing::Test, protected ApiClusterWorld {
 protected:
  // The job as somebody made it anew under its name.
  std::string JobMadeAnew(const std::string& version) const {
    TrainingJob job = job_;
    job.metadata.uid = "uid-of-the-next";
    job.status = {};
    return BodyOf(job, version);
  }

  void WatchJobGo() {
    News news;
    view_.Apply(kube::Deleted<StoredJob>{DecodeStoredJob(JobBody("10")).value()}, &news);
  }

  void WatchPod(const std::string& version) {
    News news;
    const std::string pod = PodBody(job_.metadata.uid, 0, "Running", version);
    view_.Apply(kube::Upserted<kube::Pod>{kube::DecodePod(pod).value()}, &news);
  }
};

TEST_F(LateReplyTest, JobMadeAnewWhileItsForerunnersEndIsOnItsWayStaysInView) {
  api_.Expect(
      std::string("PUT ") + kJobPath + "/status", 409, RefusalBody(409, "Conflict", "stale"));
  ASSERT_FALSE(WriteStatus(job_).ok());
  cluster_.StartLook(kMnist);
  ASSERT_EQ(api_.answers.size(), 1U) << "the job is read: it has gone";
  WatchJobGo();
  Watch(JobMadeAnew("30"));
  api_.Expect(std::string("GET ") + kJobPath, 200, JobMadeAnew("30"));

  EXPECT_TRUE(Settle(kMnist).front().ok());
  ASSERT_NE(view_.FindJob(kMnist), nullptr);
  EXPECT_EQ(view_.FindJob(kMnist)->job.metadata.uid, "uid-of-the-next");
  EXPECT_EQ(
      api_.log,
      std::string("PUT ") + kJobPath + "/status\nGET " + kJobPath + "\nGET " + kJobPath + "\n");
}

TEST_F(LateReplyTest, JobThatTheWatchSawGoMeanwhileIsNotAskedForAgain) {
  api_.Expect(
      std::string("PUT ") + kJobPath + "/status", 409, RefusalBody(409, "Conflict", "stale"));
  ASSERT_FALSE(WriteStatus(job_).ok());
  api_.log.clear();
  cluster_.StartLook(kMnist);
  WatchJobGo();

  EXPECT_EQ(Settle(kMnist).front().error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(api_.log, std::string("GET ") + kJobPath + "\n");
}

TEST_F(LateReplyTest, PodThatComesWhileItsAbsenceIsOnItsWayStaysInView) {
  api_.ExpectSilence("POST /api/v1/namespaces/default/pods");
  ASSERT_FALSE(Create().ok());
  api_.log.clear();
  cluster_.StartLook(kMnist);
  ASSERT_EQ(api_.answers.size(), 1U) << "the pod is asked for: it is not there yet";
  WatchPod("21");
  api_.Expect(std::string("GET ") + kPodPath, 200, PodBody(job_.metadata.uid, 0, "Running", "21"));

  EXPECT_TRUE(Settle(kMnist).front().ok());
  EXPECT_EQ(view_.PodsOf(kMnist).size(), 1U);
  EXPECT_EQ(api_.log, std::string("GET ") + kPodPath + "\nGET " + kPodPath + "\n");
  EXPECT_TRUE(Look(kMnist).ok());
  EXPECT_EQ(api_.log, std::string("GET ") + kPodPath + "\nGET " + kPodPath + "\n");
}

TEST_F(LateReplyTest, ServiceThatComesWhileItsAbsenceIsOnItsWayStaysInView) {
  api_.Expect("POST /api/v1/namespaces/default/services",
              409,
              RefusalBody(409, "AlreadyExists", "it is there"));
  api_.Expect("POST /api/v1/namespaces/default/secrets", 201, "{}");
  const std::vector<Effect> effects{PrepareJob{}};  // outlives the batch
  cluster_.StartEffects(kMnist, job_, effects);
  while (api_.log.find(std::string("GET ") + kServicePath) == std::string::npos) {
    Deliver();
  }
  LearnService("the next");

  EXPECT_FALSE(Settle(kMnist).front().ok());
  EXPECT_NE(view_.FindService({"default", "mnist"}), nullptr);
}

}  // namespace
}  // namespace lockstep::control
