#include "operator/kubeclient/kube/decode.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::control::kube {
namespace {

constexpr std::string_view kNode = R"({
  "kind": "Node",
  "metadata": {"name": "n1", "uid": "u-n", "resourceVersion": "5",
               "labels": {"kubernetes.io/hostname": "n1", "rack": "r7"}},
  "spec": {"podCIDR": "10.0.0.0/24",
           "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"},
                      {"key": "k", "effect": "NoExecute", "timeAdded": "x"}]},
  "status": {
    "capacity": {"cpu": "9", "memory": "9Gi", "pods": "200"},
    "allocatable": {"cpu": "7910m", "memory": "8000000Ki", "pods": "110", "nvidia.com/gpu": "8",
                    "hugepages-2Mi": "0"},
    "conditions": [{"type": "MemoryPressure", "status": "False"},
                   {"type": "Ready", "status": "True"}],
    "images": [{"names": ["a", "b"], "sizeBytes": 1}]}
})";

TEST(DecodeNode, ReadsWhatIsUsed) {
  const Result<Item<Node>> item = DecodeNode(kNode);
  ASSERT_TRUE(item.ok()) << item.error().ToString();
  EXPECT_EQ(item->key, (ObjectKey{"", "n1"}));
  EXPECT_EQ(item->resource_version, "5");
  Node expected;
  expected.name = "n1";
  expected.labels = {{"kubernetes.io/hostname", "n1"}, {"rack", "r7"}};
  expected.allocatable = {7910, 8'192'000'000, 8};
  expected.pod_count_max = 110;
  expected.taints = {{"gpu", "yes", "NoSchedule"}, {"k", "", "NoExecute"}};
  EXPECT_EQ(*item->object, expected);
}

TEST(DecodeNode, TakesPodsOnlyWhenReadyAndNotCordoned) {
  struct Row {
    const char* ready;
    const char* cordoned;
    bool is_schedulable;
  };

  const Row rows[] = {{"True", "false", true},
                      {"True", "null", true},
                      {"True", "true", false},
                      {"False", "false", false},
                      {"Unknown", "false", false}};
  for (const Row& row : rows) {
    const Result<Item<Node>> item = DecodeNode(
        R"({"metadata":{"name":"n"},"spec":{"unschedulable":)" + std::string(row.cordoned) +
        R"(},"status":{"conditions":[{"status":")" + row.ready + R"(","type":"Ready"}]}})");
    ASSERT_TRUE(item.ok()) << item.error().ToString();
    EXPECT_EQ(item->object->is_schedulable, row.is_schedulable) << row.ready << row.cordoned;
    EXPECT_EQ(item->object->is_ready, std::string_view(row.ready) == "True") << row.ready;
  }
  EXPECT_FALSE(DecodeNode(R"({"metadata":{"name":"n"}})").value().object->is_schedulable);
}

TEST(DecodeNode, NamesThePathOfWhatIsWrong) {
  const Result<Item<Node>> item =
      DecodeNode(R"({"metadata":{"name":"n"},"status":{"allocatable":{"pods":"many"}}})");
  EXPECT_EQ(item.error().field(), "status.allocatable.pods");
}

TEST(DecodeService, ReadsWhatIsUsed) {
  const Result<Item<Service>> item = DecodeService(
      R"({"metadata":{"name":"mnist","namespace":"team","uid":"s","ownerReferences":)"
      R"([{"uid":"u-job","controller":true}]},"spec":{"clusterIP":"None","clusterIPs":["None"],)"
      R"("publishNotReadyAddresses":true,"selector":{"lockstep.dev/job":"mnist"}}})");
  ASSERT_TRUE(item.ok()) << item.error().ToString();
  EXPECT_EQ(*item->object, (Service{"u-job", "", true, true, {{"lockstep.dev/job", "mnist"}}}));
  const Result<Item<Service>> other =
      DecodeService(R"({"metadata":{"name":"x"},"spec":{"clusterIP":"10.0.0.1"}})");
  EXPECT_EQ(*other->object, Service());
}

TEST(DecodeService, OwnerIsAJobOnlyByKindAndGroup) {
  const auto owner_job = [](const std::string& version, const std::string& kind) {
    return DecodeService(R"({"metadata":{"name":"x","ownerReferences":[{"apiVersion":")" + version +
                         R"(","kind":")" + kind + R"(","name":"mnist","controller":true}]}})")
        .value()
        .object->owner_job;
  };
  EXPECT_EQ(owner_job("lockstep.dev/v1", "TrainingJob"), "mnist");
  EXPECT_EQ(owner_job("lockstep.dev/v2", "TrainingJob"), "mnist");
  EXPECT_EQ(owner_job("kubeflow.org/v1", "TrainingJob"), "");
  EXPECT_EQ(owner_job("lockstep.dev/v1", "TrainingQueue"), "");
}

TEST(DecodeRaw, LeavesOutTheManagedFields) {
  const Result<Item<RawObject>> item = DecodeRaw(
      R"({"metadata": {"name": "j", "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": )"
      R"({"k:{\"name\":\"a\"}": {}}}}], "uid": "u"}, "spec": {"managedFields": [{"a": 1}]}})");
  ASSERT_TRUE(item.ok()) << item.error().ToString();
  EXPECT_EQ(item->uid, "u");
  EXPECT_EQ(item->object->json,
            R"({"metadata": {"name": "j", "managedFields": [], "uid": "u"}, )"
            R"("spec": {"managedFields": [{"a": 1}]}})");
}

TEST(DecodeRaw, KeepsEveryOtherByte) {
  const std::string json =
      R"({ "spec": {"x": [1, 2.50]}, "metadata": {"name": "j", "namespace": "n", "uid": "u"} })";
  const Result<Item<RawObject>> item = DecodeRaw(json);
  ASSERT_TRUE(item.ok());
  EXPECT_EQ(item->key, (ObjectKey{"n", "j"}));
  EXPECT_EQ(item->uid, "u");
  EXPECT_EQ(item->object->json, json);
}

}  // namespace
}  // namespace lockstep::control::kube
