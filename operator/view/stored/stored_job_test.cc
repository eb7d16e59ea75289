#include "operator/view/stored/stored_job.h"

#include <gtest/gtest.h>

#include "operator/api/job/encode.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/gang_origin.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

TrainingJob Job() {
  TrainingJob job = MakeTrainingJob(1);
  job.spec.training->dataset.train.images = "images";
  job.spec.training->dataset.train.labels = "labels";
  return job;
}

StoredJob Decoded(const Json& object) {
  return *DecodeStoredJob(DumpJson(object)).value().object;
}

Json StoredObject() {
  return EncodeTrainingJob(Job());
}

TEST(StoredJob, FieldThatIsNotKnownIsOfANewerVersion) {
  Json object = StoredObject();
  object["spec"]["runPolicy"]["color"] = "blue";
  const StoredJob stored = Decoded(object);
  EXPECT_TRUE(stored.is_newer);
  EXPECT_EQ(stored.problem.find("spec.runPolicy.color: unknown field"), 0U) << stored.problem;
}

TEST(StoredJob, WrongValueIsOfNoVersion) {
  EXPECT_EQ(Decoded(StoredObject()).problem, "");
  Json object = StoredObject();
  object["spec"]["runPolicy"]["backoffLimit"] = "unknown field";
  const StoredJob stored = Decoded(object);
  EXPECT_FALSE(stored.is_newer);
  EXPECT_NE(stored.problem, "");
}

TEST(StoredJob, WordThatIsNotKnownIsOfANewerVersion) {
  Json object = StoredObject();
  object["spec"]["strategy"] = "Pipelined";
  EXPECT_TRUE(Decoded(object).is_newer);
}

TEST(StoredJob, WhatIsWrongBesideAFieldThatIsNotKnownStaysWrong) {
  Json object = StoredObject();
  object["spec"]["runPolicy"]["color"] = "blue";
  object["spec"]["runPolicy"]["backoffLimit"] = -1;
  EXPECT_FALSE(Decoded(object).is_newer);
}

TEST(StoredJob, FieldThatIsNotKnownMayStandForOneThatIsMissing) {
  Json object = StoredObject();
  object["spec"].erase("roles");
  EXPECT_FALSE(Decoded(object).is_newer);
  object["spec"]["gang"] = {{"size", 3}};
  EXPECT_TRUE(Decoded(object).is_newer);
}

TEST(StoredJob, FieldThatIsNotKnownMayBeWhyARuleIsBroken) {
  Json object = StoredObject();
  object["spec"]["strategy"] = "None";
  EXPECT_NE(Decoded(object).problem, "");
  EXPECT_FALSE(Decoded(object).is_newer);
  object["spec"]["color"] = "blue";
  EXPECT_TRUE(Decoded(object).is_newer);
}

TEST(StoredJob, FieldOfAnotherTypeIsOfNoVersion) {
  Json object = StoredObject();
  object["spec"]["training"]["optimizer"] = {{"type", "SGD"}, {"beta1", 0.9}};
  const StoredJob stored = Decoded(object);
  EXPECT_NE(stored.problem.find("beta1: unknown field in SGD"), std::string::npos)
      << stored.problem;
  EXPECT_FALSE(stored.is_newer);
}

// On the thread of the watch: the controller's has no time to hash a megabyte.
TEST(StoredJob, RevisionIsComputedWhenTheJobIsRead) {
  const StoredJob stored = Decoded(StoredObject());
  EXPECT_EQ(stored.job.revision, RevisionOf(stored.job.spec));
}

TEST(StoredJob, WhoBeginsToWaitForPodsLetsOthersPass) {
  StoredJob before;
  before.job = Job();
  SetCondition(&before.job.status, {ConditionType::kScheduled, false, "Unschedulable", "a"}, {});
  StoredJob after = before;
  EXPECT_FALSE(FreesRoom(&before, &after));
  SetCondition(&after.job.status, {ConditionType::kScheduled, false, "NameTaken", "b"}, {});
  EXPECT_TRUE(FreesRoom(&before, &after));
  EXPECT_FALSE(FreesRoom(&after, &before));
}

// Its old queue has quota left; who may go for whom has changed; who waits is told another start.
TEST(StoredJob, AnotherQueuePriorityOrDeadlineIsNewsToThoseThatWait) {
  StoredJob before;
  before.job = Job();
  StoredJob after = before;
  after.job.spec.scheduling.queue = "vision";
  EXPECT_TRUE(FreesRoom(&before, &after));
  after = before;
  after.job.spec.scheduling.priority_class_name = "low";
  EXPECT_TRUE(FreesRoom(&before, &after));
  after = before;
  after.job.spec.run_policy.active_deadline = std::chrono::seconds(60);
  EXPECT_TRUE(FreesRoom(&before, &after));
}

TEST(StoredJob, WordsOfTheStatusThatDoNotFollowFromItAreSomebodyElses) {
  TestWorld world(Job());
  world.Launch();
  Json object = EncodeTrainingJob(world.job);
  object["status"] = EncodeStatus(world.job);
  EXPECT_FALSE(Decoded(object).is_status_foreign);
  object["status"]["state"] = "Succeeded";
  EXPECT_TRUE(Decoded(object).is_status_foreign);
  object["status"].erase("state");
  EXPECT_FALSE(Decoded(object).is_status_foreign) << "another definition may";
  Json& columns = object["status"]["columns"];
  const Json step = columns["step"];
  columns.erase("step");
  columns["step"] = step;
  EXPECT_FALSE(Decoded(object).is_status_foreign) << "an API server sorts fields";
  object["metadata"]["generation"] = world.job.metadata.generation + 1;
  object["spec"]["scheduling"]["queue"] = "vision";
  EXPECT_FALSE(Decoded(object).is_status_foreign) << "the operator has not seen the edit yet";
  object = EncodeTrainingJob(world.job);
  object["status"] = EncodeStatus(world.job);
  object["status"]["columns"]["step"] = "9/9";
  EXPECT_TRUE(Decoded(object).is_status_foreign);
}

// More than a parser takes, of whatever is the user's to write.
TEST(StoredJob, ManifestThatNoParserTakesKeepsWhatTheStatusSays) {
  TrainingJob job = Job();
  job.spec.run_policy.active_deadline = std::chrono::seconds(60);
  TestWorld world(job);
  world.Launch();
  Json object = EncodeTrainingJob(world.job);
  object["status"] = EncodeStatus(world.job);
  object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z";
  object["metadata"]["finalizers"] = {"a/b"};
  Json deep = 1;
  for (int i = 0; i < 5'000; ++i) {
    deep = Json::array({std::move(deep)});
  }
  Json wide = Json::object();
  for (int i = 0; i < 20'000; ++i) {
    wide[std::to_string(i)] = "";
  }
  const StoredJob whole = Decoded(object);
  ASSERT_EQ(whole.problem, "");
  for (const auto& [field, value] : {std::pair("spec", deep), std::pair("metadata", wide)}) {
    Json hostile = object;
    hostile[field][field == std::string("spec") ? "deep" : "annotations"] = value;
    const StoredJob stored = Decoded(hostile);
    EXPECT_NE(stored.problem, "");
    EXPECT_EQ(stored.job.status, whole.job.status);
    EXPECT_EQ(stored.job.metadata.uid, whole.job.metadata.uid);
    EXPECT_EQ(stored.job.metadata.generation, whole.job.metadata.generation);
    EXPECT_EQ(stored.created, whole.created);
    EXPECT_EQ(stored.finalizers, whole.finalizers);
    EXPECT_EQ(stored.job.spec.run_policy.active_deadline, std::chrono::seconds(60));
  }
}

}  // namespace
}  // namespace lockstep::control
