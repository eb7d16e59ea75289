#include "operator/view/capacity/provisioning_view.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

// Of the job "mnist" in "team", as a server keeps it.
std::string Document(const std::string& name,
                     const std::string& version,
                     const std::string& owner_uid = "uid-1",
                     const std::string& more = "") {
  return R"({"metadata": {"name": ")" + name + R"(", "namespace": "team", "uid": "u-)" + name +
         R"(", "resourceVersion": ")" + version + R"(", "labels": {"lockstep.dev/job": "mnist"},
      "annotations": {"lockstep.dev/capacity-revision": "abc"},
      "ownerReferences": [{"apiVersion": "lockstep.dev/v1", "kind": "TrainingJob",
        "name": "mnist", "uid": ")" +
         owner_uid + R"(", "controller": true}])" + more + "}";
}

kube::Item<StoredProvisioningRequest> Request(const std::string& name,
                                              const std::string& version,
                                              const std::string& owner_uid = "uid-1") {
  auto item = DecodeProvisioningRequest(
      Document(name, version, owner_uid, R"(}, "status": {"conditions": [{"type": "Failed"}]})"));
  EXPECT_TRUE(item.ok());
  return *item;
}

Metadata Mnist() {
  Metadata job;
  job.name = "mnist";
  job.namespace_name = "team";
  job.uid = "uid-1";
  return job;
}

TEST(ProvisioningView, ObjectsAreSeenByTheJobOfTheirLabelAndAreItsOwnByTheirOwner) {
  ProvisioningView view;
  EXPECT_FALSE(view.IsFollowed(Provisioning::kProvisioningRequest));
  const std::set<JobId> news = view.Apply(kube::ObjectUpdate<StoredProvisioningRequest>(
      kube::Replaced<StoredProvisioningRequest>{{Request("a", "1"), Request("b", "2", "else")}}));
  EXPECT_EQ(news, (std::set<JobId>{{"team", "mnist"}}));
  EXPECT_FALSE(view.IsFollowed(Provisioning::kProvisioningRequest)) << "templates are not listed";
  view.Apply(kube::ObjectUpdate<StoredPodTemplate>(kube::Replaced<StoredPodTemplate>{}));
  EXPECT_TRUE(view.IsFollowed(Provisioning::kProvisioningRequest));
  EXPECT_FALSE(view.IsFollowed(Provisioning::kPods)) << "placeholder pods are not";

  const ProvisioningSight sight = view.SightOf(Mnist());
  ASSERT_EQ(sight.requests.size(), 2U);
  EXPECT_EQ(sight.requests[0].name, "a");
  EXPECT_EQ(sight.requests[0].uid, "u-a");
  EXPECT_EQ(sight.requests[0].revision, "abc");
  EXPECT_TRUE(sight.requests[0].is_ours);
  EXPECT_FALSE(sight.requests[0].is_deleting);
  EXPECT_EQ(sight.requests[0].conditions[0]["type"], "Failed");
  EXPECT_FALSE(sight.requests[1].is_ours);
  Metadata other = Mnist();
  other.name = "other";
  EXPECT_TRUE(view.SightOf(other).requests.empty());
}

TEST(ProvisioningView, WhatIsDeletedIsNewsAndIsGone) {
  ProvisioningView view;
  view.Apply(kube::ObjectUpdate<StoredProvisioningRequest>(
      kube::Upserted<StoredProvisioningRequest>{Request("a", "1")}));
  EXPECT_EQ(view.SightOf(Mnist()).requests.size(), 1U);
  const std::set<JobId> news = view.Apply(kube::ObjectUpdate<StoredProvisioningRequest>(
      kube::Deleted<StoredProvisioningRequest>{Request("a", "2")}));
  EXPECT_EQ(news.size(), 1U);
  EXPECT_TRUE(view.SightOf(Mnist()).requests.empty());
}

TEST(ProvisioningObjects, PodGroupIsReadWithWhatKubeSchedulerSaysOfIt) {
  const auto item = DecodePodGroup(Document(
      "gang", "3", "uid-1", R"(}, "status": {"conditions": [{"type": "PodGroupScheduled"}]})"));
  ASSERT_TRUE(item.ok()) << item.error().ToString();
  const CapacityObject seen = SightOf("gang", *item->object, "uid-1");
  EXPECT_TRUE(seen.is_ours);
  EXPECT_EQ(seen.conditions[0]["type"], "PodGroupScheduled");
}

// `kubectl label pod a lockstep.dev/placeholder-of-`: its scheduler and its owner say what it is.
TEST(ProvisioningView, PlaceholderWithoutItsLabelIsFoundByItsOwner) {
  const auto pod = DecodePlaceholder(
      Document("a", "1", "uid-1", R"(}, "spec": {"schedulerName": "placeholder.lockstep.dev"})"));
  ASSERT_TRUE(pod.ok()) << pod.error().ToString();
  ASSERT_EQ(pod->object->origin.label_job, "");
  ProvisioningView view;
  view.Apply(kube::ObjectUpdate<StoredPlaceholder>(kube::Replaced<StoredPlaceholder>{{*pod}}));
  const std::vector<CapacityObject> seen = view.SightOf(Mnist()).placeholders;
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_TRUE(seen[0].is_ours);
  EXPECT_EQ(seen[0].trouble, "");
}

// Somebody took the label off: `kubectl label provreq a lockstep.dev/job-`.
TEST(ProvisioningView, ObjectWithoutItsLabelIsFoundByItsOwner) {
  std::string document = Document("a", "2");
  const std::string label = R"("lockstep.dev/job": "mnist")";
  document.replace(document.find(label), label.size(), "");
  ProvisioningView view;
  view.Apply(kube::ObjectUpdate<StoredProvisioningRequest>(
      kube::Upserted<StoredProvisioningRequest>{Request("a", "1")}));
  const std::set<JobId> news = view.Apply(kube::ObjectUpdate<StoredProvisioningRequest>(
      kube::Upserted<StoredProvisioningRequest>{*DecodeProvisioningRequest(document + "}")}));
  EXPECT_EQ(news, (std::set<JobId>{{"team", "mnist"}}));
  ASSERT_EQ(view.SightOf(Mnist()).requests.size(), 1U);
  EXPECT_TRUE(view.SightOf(Mnist()).requests[0].is_ours);
}

TEST(ProvisioningView, ObjectsOfOthersAreNoNews) {
  const auto item = DecodeProvisioningRequest(
      R"({"metadata": {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "1"}})");
  ASSERT_TRUE(item.ok());
  ProvisioningView view;
  EXPECT_TRUE(view.Apply(kube::ObjectUpdate<StoredProvisioningRequest>(
                             kube::Upserted<StoredProvisioningRequest>{*item}))
                  .empty());
}

// What they say is compared with what was asked.
TEST(ProvisioningObjects, RequestAndTemplateAreReadWithWhatTheySayAndHowOftenItChanged) {
  const auto request = DecodeProvisioningRequest(
      Document("a", "3", "uid-1", R"(, "generation": 2}, "spec": {"podSets": [{"count": 1}]})"));
  ASSERT_TRUE(request.ok()) << request.error().ToString();
  const CapacityObject seen = SightOf("a", *request->object, "uid-1");
  EXPECT_EQ(seen.content, Json({{"podSets", Json::array({{{"count", 1}}})}}));
  EXPECT_EQ(seen.generation, 2);
  const auto pods = DecodePodTemplateObject(
      Document("b", "3", "uid-1", R"(, "generation": 1}, "template": {"spec": {}})"));
  ASSERT_TRUE(pods.ok()) << pods.error().ToString();
  EXPECT_EQ(SightOf("b", *pods->object, "uid-1").content, Json({{"spec", Json::object()}}));
  const auto others = DecodePodTemplateObject(
      R"({"metadata": {"name": "c", "namespace": "team", "uid": "u", "generation": 1},
          "template": {"spec": {}}})");
  ASSERT_TRUE(others.ok()) << others.error().ToString();
  EXPECT_TRUE(others->object->content.is_null()) << "nobody compares it";
}

TEST(ProvisioningObjects, TemplateThatIsBeingDeletedIsReadAsSuch) {
  const auto item = DecodePodTemplateObject(
      Document("a-worker", "3", "uid-1", R"(, "deletionTimestamp": "2026-11-21T10:22:03Z"})"));
  ASSERT_TRUE(item.ok()) << item.error().ToString();
  const CapacityObject seen = SightOf("a-worker", *item->object, "uid-1");
  EXPECT_TRUE(seen.is_deleting);
  EXPECT_TRUE(seen.is_ours);
  EXPECT_FALSE(SightOf("a-worker", *item->object, "").is_ours) << "a job without a uid has none";
  EXPECT_FALSE(DecodePodTemplateObject(R"({"metadata": {"name": "a", "uid": "u",
      "annotations": 3}})")
                   .ok());
}

// A placeholder pod of the job "mnist" in "team"; `spec` and `status` as JSON.
Result<kube::Item<StoredPlaceholder>> Placeholder(const std::string& spec,
                                                  const std::string& status = "{}") {
  return DecodePlaceholder(R"({"metadata": {"name": "p", "namespace": "team", "uid": "u",
      "resourceVersion": "1", "labels": {"lockstep.dev/placeholder-of": "mnist"},
      "annotations": {"lockstep.dev/capacity-revision": "abc"},
      "ownerReferences": [{"apiVersion": "lockstep.dev/v1", "kind": "TrainingJob",
        "name": "mnist", "uid": "uid-1", "controller": true}]}, "spec": )" +
                           spec + R"(, "status": )" + status + "}");
}

TEST(ProvisioningView, PlaceholdersAreTheJobsOfTheirOwnLabel) {
  ProvisioningView view;
  const auto item =
      Placeholder(R"({"schedulerName": "placeholder.lockstep.dev"})",
                  R"({"phase": "Pending", "conditions": [{"type": "PodScheduled"}]})");
  ASSERT_TRUE(item.ok()) << item.error().ToString();
  const std::set<JobId> news =
      view.Apply(kube::ObjectUpdate<StoredPlaceholder>(kube::Replaced<StoredPlaceholder>{{*item}}));
  EXPECT_EQ(news, (std::set<JobId>{{"team", "mnist"}}));
  EXPECT_TRUE(view.IsFollowed(Provisioning::kPods));
  EXPECT_FALSE(view.IsFollowed(Provisioning::kProvisioningRequest));
  const ProvisioningSight sight = view.SightOf(Mnist());
  ASSERT_EQ(sight.placeholders.size(), 1U);
  EXPECT_TRUE(sight.placeholders[0].is_ours);
  EXPECT_EQ(sight.placeholders[0].revision, "abc");
  EXPECT_EQ(sight.placeholders[0].conditions[0]["type"], "PodScheduled");
  EXPECT_EQ(sight.placeholders[0].trouble, "");
  EXPECT_TRUE(sight.requests.empty());
}

TEST(ProvisioningObjects, PlaceholderThatSomebodyMadeUselessSaysHow) {
  const std::string scheduler = R"("schedulerName": "placeholder.lockstep.dev")";
  const auto trouble = [](const Result<kube::Item<StoredPlaceholder>>& item) {
    return item.ok() ? item->object->trouble : item.error().ToString();
  };
  EXPECT_EQ(trouble(Placeholder("{" + scheduler + "}")), "");
  EXPECT_EQ(trouble(Placeholder(R"({"schedulerName": "volcano"})")),
            "was given the scheduler volcano by a webhook");
  EXPECT_EQ(trouble(Placeholder("{" + scheduler + R"(, "nodeName": "node-a"})")),
            "was bound to node node-a by somebody");
  EXPECT_EQ(
      trouble(Placeholder("{" + scheduler + R"(, "schedulingGates": [{"name": "g"}]})")),
      "was given a scheduling gate by a webhook, and autoscalers ignore pods that have a gate");
  EXPECT_EQ(trouble(Placeholder("{" + scheduler + "}", R"({"phase": "Failed"})")), "has ended");
}

}  // namespace
}  // namespace lockstep::control
