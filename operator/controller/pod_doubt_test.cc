// Pods of which it is not known whether the server has them.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/controller/testing/fake_api.h"
#include "operator/reconcile/failure/verdict_patience.h"

namespace lockstep::control {
namespace {

class PodDoubtTest : public testing::Test, protected ApiClusterWorld {
 protected:
  // A pod of the name that is no job's.
  std::string StrangersPod() const {
    Json pod = ParseJson(PodBody("")).value();
    pod["metadata"]["labels"] = Json::object();
    pod["metadata"]["uid"] = "strangers-uid";
    pod["metadata"]["resourceVersion"] = "30";
    return DumpJson(pod);
  }

  // The server tells of it as often as it is asked.
  void ExpectPod(const std::string& pod) {
    for (int i = 0; i < 200; ++i) {
      api_.Expect(std::string("GET ") + kPodPath, 200, pod);
    }
  }

  // The calls of a look.
  std::string CallsOfALook() {
    api_.log.clear();
    EXPECT_TRUE(Look(kMnist).ok());
    return api_.log;
  }
};

TEST_F(PodDoubtTest, NameThatAStrangerHasIsAskedForOnce) {
  api_.ExpectSilence("POST /api/v1/namespaces/default/pods");
  EXPECT_FALSE(Create().ok());
  ExpectPod(StrangersPod());

  EXPECT_EQ(CallsOfALook(), std::string("GET ") + kPodPath + "\n");
  EXPECT_EQ(CallsOfALook(), "");
  EXPECT_EQ(view_.FindPod({"default", "mnist-worker-0"}), nullptr)
      << "no watch of ours would tell of its end";
}

TEST_F(PodDoubtTest, NameThatAPodOfAnotherJobHasIsAskedForOnce) {
  api_.ExpectSilence("POST /api/v1/namespaces/default/pods");
  EXPECT_FALSE(Create().ok());
  Json pod = ParseJson(StrangersPod()).value();
  pod["metadata"]["labels"] = {{std::string(label::kJob), "other"}};
  ExpectPod(DumpJson(pod));

  EXPECT_EQ(CallsOfALook(), std::string("GET ") + kPodPath + "\n");
  EXPECT_EQ(CallsOfALook(), "");
}

TEST_F(PodDoubtTest, PodWhoseNameAStrangerHasNowIsGone) {
  News news;
  view_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid)).value(), &news);
  view_.DoubtPod(kMnist, "mnist-worker-0");
  ExpectPod(StrangersPod());

  EXPECT_TRUE(Look(kMnist).ok());
  EXPECT_TRUE(view_.PodsOf(kMnist).empty());
}

TEST_F(PodDoubtTest, LateTidingsOfAForerunnerTakeNothingAway) {
  News news;
  view_.DoubtPod(kMnist, "mnist-worker-0");
  ExpectPod(StrangersPod());
  cluster_.StartLook(kMnist);
  view_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid, 0, "Running", "31")).value(), &news);

  EXPECT_TRUE(Settle(kMnist).front().ok());
  EXPECT_EQ(view_.PodsOf(kMnist).size(), 1U);
}

TEST_F(PodDoubtTest, DoubtOfAPodOutlivesNewsOfTheOnlyOneThatIsKnown) {
  News news;
  view_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid)).value(), &news);
  view_.DoubtPod(kMnist, "mnist-worker-1");
  view_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid, 0, "Running", "31")).value(), &news);
  const std::string path = "GET /api/v1/namespaces/default/pods/mnist-worker-1";
  api_.Expect(path, 404, RefusalBody(404, "NotFound", "gone"));

  EXPECT_EQ(CallsOfALook(), path + "\n");
}

// It was replaced because its port was closed. The watch that would tell that somebody has deleted
// it is late.
TEST_F(PodDoubtTest, EndThatNobodyToldIsAskedForBeforeItIsTakenForALoss) {
  News news;
  view_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid)).value(), &news);
  PodPlacement& placement = job_.status.placement.front();
  placement.incarnation = Incarnation(1);
  placement.awaits_verdict = true;
  placement.since = WallTime(std::chrono::seconds(1000));
  Store("11");

  cluster_.SetTime(TimePoint{}, placement.since + kVerdictPatience - std::chrono::seconds(1));
  EXPECT_EQ(CallsOfALook(), "");
  cluster_.SetTime(TimePoint{}, placement.since + kVerdictPatience);
  api_.Expect(std::string("GET ") + kPodPath, 404, RefusalBody(404, "NotFound", "gone"));
  EXPECT_EQ(CallsOfALook(), std::string("GET ") + kPodPath + "\n");
  EXPECT_TRUE(view_.PodsOf(kMnist).empty());
}

class LostLabelTest : public PodDoubtTest {
 protected:
  LostLabelTest() {
    job_.status.placement.front().pod_uid = "pod-uid";
    Store("11");
    Learn(Pod({}, "20"));
  }

  // The job's pod, with these labels in place of its own where they are not empty.
  std::string Pod(const Json& labels, const std::string& version) const {
    Json pod = ParseJson(PodBody(job_.metadata.uid, 0, "Running", version)).value();
    if (!labels.empty()) {
      pod["metadata"]["labels"] = labels;
    }
    return DumpJson(pod);
  }

  void Learn(const std::string& pod) {
    News news;
    view_.Apply(kube::Upserted<kube::Pod>{kube::DecodePod(pod).value()}, &news);
  }

  // The watch says no more than that it left.
  void Leave(const std::string& version) {
    News news;
    view_.Apply(kube::Deleted<kube::Pod>{kube::DecodePod(Pod({}, version)).value()}, &news);
    EXPECT_EQ(news.urgent.count(kMnist), 1U);
  }

  const std::string get_ = std::string("GET ") + kPodPath;
  const std::string patch_ = std::string("PATCH ") + kPodPath;
  const Json no_label_ = {{"app", "mine"}};
};

TEST_F(LostLabelTest, PodWhoseLabelWasTakenOffStaysTheJobsAndGetsItBack) {
  Leave("30");
  api_.Expect(get_, 200, Pod(no_label_, "30"));
  api_.Expect(patch_, 200, Pod({}, "31"));
  EXPECT_EQ(CallsOfALook(), get_ + "\n" + patch_ + "\n");
  EXPECT_EQ(view_.PodsOf(kMnist).size(), 1U);
  const Json patch = ParseJson(api_.bodies[patch_]).value()["metadata"];
  EXPECT_EQ(patch["uid"], "pod-uid");
  EXPECT_EQ(patch["resourceVersion"], "30");
  EXPECT_EQ(patch["labels"][std::string(label::kJob)], "mnist");

  Learn(Pod({}, "31"));
  EXPECT_EQ(CallsOfALook(), "");
}

TEST_F(LostLabelTest, PodThatWentUnaskedIsGoneWhenTheServerSaysSo) {
  Leave("30");
  EXPECT_EQ(view_.PodsOf(kMnist).size(), 1U) << "nobody has been asked";
  EXPECT_EQ(CallsOfALook(), get_ + "\n");
  EXPECT_TRUE(view_.PodsOf(kMnist).empty());
}

TEST_F(LostLabelTest, PodWithAnotherJobsLabelIsItsControllers) {
  const Json others = {{std::string(label::kJob), "other"}};
  Learn(Pod(others, "30"));
  EXPECT_TRUE(view_.PodsOf(kOther).empty());
  EXPECT_EQ(view_.PodsOf(kMnist).size(), 1U);
  api_.Expect(patch_, 200, Pod({}, "31"));
  EXPECT_EQ(CallsOfALook(), patch_ + "\n");
}

TEST_F(LostLabelTest, JobIsNotDecidedOnWhileAPodIsWithoutItsLabel) {
  Leave("30");
  api_.Expect(get_, 200, Pod(no_label_, "30"));
  api_.Expect(patch_, 403, RefusalBody(403, "Forbidden", "pods is forbidden"));
  const Status looked = Look(kMnist);
  ASSERT_FALSE(looked.ok());
  EXPECT_NE(looked.error().ToString().find("mnist-worker-0 has lost labels"), std::string::npos);
}

TEST_F(LostLabelTest, PodWithoutLabelAndOwnerIsAStrangers) {
  Leave("30");
  api_.Expect(get_, 200, [&] {
    Json pod = ParseJson(Pod(no_label_, "30")).value();
    pod["metadata"].erase("ownerReferences");
    return DumpJson(pod);
  }());
  EXPECT_EQ(CallsOfALook(), get_ + "\n");
  EXPECT_TRUE(view_.PodsOf(kMnist).empty());
}

TEST_F(PodDoubtTest, PodThatWasNeverSentIsNotAskedFor) {
  api_.replies["POST /api/v1/namespaces/default/pods"].push_back(
      kube::Fault{kube::FaultKind::kNotLeader, false, "this process does not lead"});
  EXPECT_FALSE(Create().ok());

  EXPECT_EQ(CallsOfALook(), "");
}

}  // namespace
}  // namespace lockstep::control
