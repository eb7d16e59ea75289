#include "operator/reconcile/pods/job_objects.h"

#include <gtest/gtest.h>

#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

TrainingJob Job() {
  TrainingJob job = MakeTrainingJob(2);
  job.metadata.uid = "0a1b2c3d-4e5f";
  return job;
}

kube::Service ServiceOf(const TrainingJob& job) {
  kube::Service service;
  service.owner_uid = job.metadata.uid;
  service.is_headless = true;
  service.publishes_not_ready = true;
  service.selector = {{"lockstep.dev/job", "mnist"}, {"lockstep.dev/job-uid", job.metadata.uid}};
  return service;
}

TEST(ServiceManifest, IsHeadlessOwnedAndShowsPodsThatAreNotReady) {
  EXPECT_EQ(DumpJson(ServiceManifest(Job())),
            R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"mnist","namespace":)"
            R"("default","labels":{"lockstep.dev/job":"mnist","lockstep.dev/job-uid":)"
            R"("0a1b2c3d-4e5f"},"ownerReferences":[{"apiVersion":"lockstep.dev/v1","kind":)"
            R"("TrainingJob","name":"mnist","uid":"0a1b2c3d-4e5f","controller":true,)"
            R"("blockOwnerDeletion":true}]},"spec":{"clusterIP":"None",)"
            R"("publishNotReadyAddresses":true,"selector":{"lockstep.dev/job":"mnist",)"
            R"("lockstep.dev/job-uid":"0a1b2c3d-4e5f"},"ports":[{"name":"mesh","port":2222,)"
            R"("protocol":"TCP"},{"name":"status","port":2223,"protocol":"TCP"}]}})");
}

TEST(JudgeService, OursAsMadeIsReadyChangedIsMissingAnothersIsForeign) {
  const TrainingJob job = Job();
  EXPECT_EQ(JudgeService(job, nullptr), ServiceState::kMissing);
  kube::Service service = ServiceOf(job);
  EXPECT_EQ(JudgeService(job, &service), ServiceState::kReady);
  service.selector["app"] = "web";
  EXPECT_EQ(JudgeService(job, &service), ServiceState::kMissing);
  service = ServiceOf(job);
  service.publishes_not_ready = false;
  EXPECT_EQ(JudgeService(job, &service), ServiceState::kMissing);
  service = ServiceOf(job);
  service.is_headless = false;
  EXPECT_EQ(JudgeService(job, &service), ServiceState::kMissing);
  service.owner_uid = "an earlier job of the name";
  EXPECT_EQ(JudgeService(job, &service), ServiceState::kForeign);
  service.owner_uid.clear();
  EXPECT_EQ(JudgeService(job, &service), ServiceState::kForeign);
}

TEST(KeySecretManifest, HoldsTheKeyAndCannotBeChanged) {
  const Json secret = KeySecretManifest(Job(), "top");

  EXPECT_EQ(secret["metadata"]["name"], "mnist-0a1b2c3d-key");
  EXPECT_EQ(secret["metadata"]["ownerReferences"][0]["uid"], "0a1b2c3d-4e5f");
  EXPECT_EQ(secret["stringData"], Json({{"key", "top"}}));
  EXPECT_EQ(secret["immutable"], true);
}

TEST(KeySecretName, LongestJobNameMakesAValidName) {
  Metadata job;
  job.name = std::string(63, 'a');
  job.uid = "0a1b2c3d-4e5f";

  EXPECT_LE(KeySecretName(job).size(), 253U);
  EXPECT_TRUE(KeySecretName(job).ends_with("-0a1b2c3d-key"));
}

}  // namespace
}  // namespace lockstep::control
