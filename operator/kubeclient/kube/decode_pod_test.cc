#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/rfc3339.h"
#include "operator/kubeclient/kube/decode.h"

namespace lockstep::control::kube {
namespace {

// One of ours, as an API server sends it.
constexpr std::string_view kOurs = R"({
  "apiVersion": "v1", "kind": "Pod",
  "metadata": {
    "name": "mnist-worker-0", "namespace": "team", "uid": "u-1", "resourceVersion": "77",
    "labels": {"lockstep.dev/job": "mnist", "app": "theirs"},
    "annotations": {"lockstep.dev/note": "a \"quoted\" €", "cni.example/state": "long"},
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "ownerReferences": [
      {"kind": "Other", "name": "theirs", "uid": "u-other"},
      {"apiVersion": "lockstep.dev/v1", "kind": "TrainingJob", "name": "mnist", "uid": "u-job",
       "controller": true, "blockOwnerDeletion": true}],
    "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:containers": {}}}}]
  },
  "spec": {
    "nodeName": "n1", "hostname": "mnist-worker-0", "subdomain": "mnist",
    "terminationGracePeriodSeconds": 7,
    "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
    "initContainers": [{"name": "copy", "resources": {"requests": {"cpu": "3", "memory": "1Mi"}}}],
    "containers": [
      {"name": "trainer", "image": "i", "resources": {
        "limits": {"nvidia.com/gpu": "2"}, "requests": {
        "cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "2", "ephemeral-storage": "1Gi"}}},
      {"name": "log", "resources": {"requests": {"cpu": "100m"}}}],
    "overhead": {"cpu": "10m"}
  },
  "status": {
    "phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}],
    "qosClass": "Burstable",
    "conditions": [{"type": "Ready", "status": "False", "message": "m"},
                   {"type": "PodScheduled", "status": "True"}],
    "containerStatuses": [
      {"name": "log", "ready": true, "state": {"running": {"startedAt": "x"}}},
      {"name": "trainer", "restartCount": 0, "state": {"terminated": {
        "exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "last words",
        "finishedAt": "2026-11-21T10:22:03Z"}},
        "lastState": {"terminated": {"exitCode": 3}}}]
  }
})";

ResourceVector RequestsOf(std::string_view json) {
  const Result<Item<Pod>> item = DecodePod(json);
  return item.ok() ? item->object->spec.container.requests : ResourceVector();
}

TEST(DecodePod, WhoKeepsItIsRead) {
  const auto pod = DecodePod(R"({"metadata": {"name": "p", "finalizers": ["a.b/c", "d"]}})");
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ(pod->object->finalizers, (std::vector<std::string>{"a.b/c", "d"}));
}

TEST(DecodePod, ContainersThatAreResizedCountWithTheLargerOfWhatTheyAskForAndHave) {
  const auto pod = [](const std::string& asked, const std::string& status) {
    return R"({"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "a", )" +
           status + R"(}]}, "spec": {"containers": [
        {"name": "a", "resources": {"requests": {"cpu": ")" +
           asked + R"("}}}, {"name": "b", "resources": {"requests": {"cpu": "1"}}}]}})";
  };
  const std::string shrinks = R"("allocatedResources": {"cpu": "4", "memory": "1Ki"})";
  EXPECT_EQ(RequestsOf(pod("2", shrinks)), (ResourceVector{5000, 1024, 0}));
  const std::string grows = R"("allocatedResources": {"cpu": "1"},
      "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "9"}})";
  EXPECT_EQ(RequestsOf(pod("2", grows)), (ResourceVector{3000, 0, 0}));
  const std::string is_slow = R"("resources": {"requests": {"cpu": "3"}})";
  EXPECT_EQ(RequestsOf(pod("2", is_slow)), (ResourceVector{4000, 0, 0}));
}

TEST(DecodePod, PortsOfTheNodeAreAskedForAsWell) {
  const ResourceVector taken = RequestsOf(R"({"metadata": {"name": "p"}, "spec": {"containers": [
      {"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}],
       "resources": {"requests": {"cpu": "1"}}},
      {"name": "b", "ports": [{"containerPort": 80, "hostPort": 9090}]}]}})");
  ResourceVector expected{1000, 0, 0};
  expected.Set(HostPortResource(8080), 1);
  expected.Set(HostPortResource(9090), 1);
  EXPECT_EQ(taken, expected);
}

TEST(DecodePod, TellsHowFarItsInitContainersAre) {
  const Result<Item<Pod>> item = DecodePod(R"({"metadata": {"name": "p"},
    "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "a"}], "initContainers": [
      {"name": "fetch"}, {"name": "proxy", "restartPolicy": "Always"}, {"name": "late"}]},
    "status": {"conditions": [{"type": "PodScheduled", "status": "True",
                               "lastTransitionTime": "2026-01-01T00:00:00Z"}],
      "initContainerStatuses": [
        {"name": "fetch", "state": {"terminated": {"exitCode": 0,
                                                   "finishedAt": "2026-01-01T00:05:00Z"}}},
        {"name": "proxy", "state": {"running": {"startedAt": "2026-01-01T00:04:00Z"}}},
        {"name": "late", "state": {"waiting": {"reason": "PodInitializing"}}}]}})");
  ASSERT_TRUE(item.ok()) << item.error().ToString();
  EXPECT_EQ(item->object->status.progress_at, ParseRfc3339("2026-01-01T00:05:00Z"));
  EXPECT_FALSE(item->object->status.is_initializing) << "a sidecar runs for ever";
  EXPECT_EQ(item->object->spec.node_selector.at("disk"), "ssd");

  const Result<Item<Pod>> busy = DecodePod(R"({"metadata": {"name": "p"},
    "status": {"initContainerStatuses": [{"name": "fetch", "state": {"running": {}}}]}})");
  ASSERT_TRUE(busy.ok());
  EXPECT_TRUE(busy->object->status.is_initializing);
}

TEST(DecodePod, ReadsWhatIsUsed) {
  const Result<Item<Pod>> item = DecodePod(kOurs);
  ASSERT_TRUE(item.ok()) << item.error().ToString();
  EXPECT_EQ(item->key, (ObjectKey{"team", "mnist-worker-0"}));
  EXPECT_EQ(item->uid, "u-1");
  EXPECT_EQ(item->resource_version, "77");
  Pod expected;
  expected.name = "mnist-worker-0";
  expected.namespace_name = "team";
  expected.uid = "u-1";
  expected.labels = {{"lockstep.dev/job", "mnist"}};
  expected.annotations = {{"lockstep.dev/note", "a \"quoted\" €"}};
  expected.owner_uid = "u-job";
  expected.owner_job = "mnist";
  expected.spec.node_name = "n1";
  expected.spec.hostname = "mnist-worker-0";
  expected.spec.subdomain = "mnist";
  expected.spec.termination_grace = std::chrono::seconds(7);
  expected.spec.container.name = "trainer";
  expected.spec.container.requests = {
      3010, int64_t{2} << 30, 2, {{"ephemeral-storage", int64_t{1} << 30}}};  // init's cpu wins
  expected.status.phase = PodPhase::kRunning;
  expected.status.pod_ip = "10.0.0.7";
  expected.status.termination = ContainerTermination{
      137, 9, "OOMKilled", "last words", ParseRfc3339("2026-11-21T10:22:03Z"), "trainer"};
  expected.status.open_containers = {"log"};
  EXPECT_EQ(*item->object, expected);
}

Pod Decoded(const std::string& json) {
  const Result<Item<Pod>> item = DecodePod(json);
  EXPECT_TRUE(item.ok()) << json << item.error().ToString();
  return item.ok() ? *item->object : Pod();
}

std::string PodJson(const std::string& rest) {
  return R"({"metadata":{"name":"a"})" + rest + "}";
}

TEST(DecodePod, WhatIsMissingOrNullIsEmpty) {
  Pod expected;
  expected.name = "a";
  expected.status.is_unbound = true;
  EXPECT_EQ(Decoded(PodJson("")), expected);
  EXPECT_EQ(Decoded(PodJson(R"(,"spec":null,"status":null)")), expected);
  EXPECT_EQ(
      Decoded(R"({"spec":{"containers":null,"affinity":null,"nodeName":null,"overhead":null},)"
              R"("status":{"phase":null,"conditions":null,"containerStatuses":[{"state":null},{}],)"
              R"("initContainerStatuses":null},"metadata":{"name":"a","labels":null,)"
              R"("annotations":null,"ownerReferences":null,"deletionTimestamp":null}})"),
      expected);
}

TEST(DecodePod, KnowsPhasesAndAcceptsOthers) {
  for (const PodPhase phase : {PodPhase::kPending,
                               PodPhase::kRunning,
                               PodPhase::kSucceeded,
                               PodPhase::kFailed,
                               PodPhase::kUnknown}) {
    const std::string word = PodPhaseName(phase);
    EXPECT_EQ(Decoded(PodJson(R"(,"status":{"phase":")" + word + R"("})")).status.phase, phase);
  }
  EXPECT_EQ(Decoded(PodJson(R"(,"status":{"phase":"Hibernating"})")).status.phase,
            PodPhase::kUnknown);
}

TEST(DecodePod, ADeletionTimestampMeansLeaving) {
  EXPECT_TRUE(Decoded(R"({"metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}})")
                  .is_deleting);
}

// What a policy may have added, for the message of a pod that is not bound.
TEST(DecodePod, ReadsWhatASchedulerMustKeep) {
  const Pod pod = Decoded(R"({"metadata": {"name": "p"}, "spec": {"schedulerName": "other",
      "schedulingGates": [{"name": "g"}],
      "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"},
                                    {"whenUnsatisfiable": "DoNotSchedule"}],
      "affinity": {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]},
        "podAntiAffinity": {
          "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}]}}}})");
  EXPECT_EQ(pod.spec.scheduler_name, "other");
  EXPECT_EQ(pod.spec.hard_rules,
            (std::set<std::string>{
                "affinity.podAntiAffinity", "schedulingGates", "topologySpreadConstraints"}));
}

TEST(DecodePod, KnowsWhenTheGraceIsOverAndWhoDisrupts) {
  const Pod pod =
      Decoded(R"({"metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:30Z",)"
              R"("deletionGracePeriodSeconds":30},)"
              R"("status":{"conditions":[)"
              R"({"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI"},)"
              R"({"type":"PodScheduled","status":"True"}]}})");
  EXPECT_EQ(pod.deletion_due, ParseRfc3339("2026-01-01T00:00:30Z"));
  EXPECT_EQ(pod.deletion_grace, std::chrono::seconds(30));
  EXPECT_EQ(pod.status.disruption, "EvictionByEvictionAPI");
  EXPECT_EQ(Decoded(PodJson(R"(,"status":{"conditions":[{"type":"DisruptionTarget",)"
                            R"("status":"False","reason":"x"}]})"))
                .status.disruption,
            "");
}

// A sidecar that a webhook put in front, and one behind, run on.
TEST(DecodePod, OwnContainerHasEndedBesideOthers) {
  const std::string pod =
      R"(,"spec":{"containers":[{"name":"mesh"},{"name":"trainer"},{"name":"log"}]},)"
      R"("status":{"phase":"Running","containerStatuses":[{"name":"mesh","state":{"running":{}}},)"
      R"({"name":"log","state":{"running":{}}},{"name":"trainer","state":)";
  const Pod ended = Decoded(PodJson(pod + R"({"terminated":{"exitCode":3}}}]})"));
  EXPECT_EQ(ended.spec.container.name, "trainer");
  EXPECT_EQ(ended.status.termination->exit_code, 3);
  EXPECT_EQ(ended.status.open_containers, (std::vector<std::string>{"mesh", "log"}));
  EXPECT_TRUE(Decoded(PodJson(pod + R"({"running":{}}}]})")).status.open_containers.empty());
}

std::string Pinned(const std::string& terms) {
  return PodJson(
      R"(,"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":)"
      R"({"nodeSelectorTerms":[)" +
      terms + "]}}}}");
}

TEST(DecodePod, TheNodeIsTheOneItsAffinityNames) {
  const std::string term =
      R"({"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]})";
  EXPECT_EQ(Decoded(Pinned(term)).spec.node_name, "n");
  EXPECT_TRUE(Decoded(Pinned(term)).status.is_unbound);
  EXPECT_EQ(Decoded(Pinned(term + "," + term)).spec.node_name, "") << "terms are alternatives";
  for (const char* other :
       {R"({"matchFields":[{"key":"metadata.name","operator":"In","values":["n","m"]}]})",
        R"({"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n"]}]})",
        R"({"matchExpressions":[{"key":"zone","operator":"In","values":["n"]}]})"}) {
    EXPECT_EQ(Decoded(Pinned(other)).spec.node_name, "") << other;
  }
}

struct StatusRow {
  const char* what;
  const char* status;
  const char* unschedulable;
  const char* waiting_reason;
  std::optional<int> exit_code;
};

TEST(DecodePod, TellsWithWhomASchedulerPlacesIt) {
  const auto group = [](const std::string& spec) {
    return DecodePod(R"({"metadata": {"name": "a", "uid": "u"}, "spec": {)" + spec + "}}")
        ->object->spec.pod_group;
  };
  EXPECT_EQ(group(R"("schedulingGroup": {"podGroupName": "gang"})"), "gang");
  EXPECT_EQ(group(R"("schedulingGroup": {"other": {"podGroupName": "gang"}})"), "");
  EXPECT_EQ(group(R"("schedulingGroup": null)"), "");
  EXPECT_EQ(group(""), "");
}

TEST(DecodePod, TellsWhatStandsInTheWay) {
  const StatusRow rows[] = {
      {"waits for a node",
       R"("phase":"Pending","conditions":[{"type":"PodScheduled","status":"False",
          "reason":"Unschedulable","message":"0/2 nodes"}])",
       "0/2 nodes",
       "",
       {}},
      {"an ordinary wait",
       R"("containerStatuses":[{"name":"main",
          "state":{"waiting":{"reason":"ContainerCreating"}}}])",
       "",
       "",
       {}},
      {"an image",
       R"("containerStatuses":[{"name":"main","state":{"waiting":{"reason":"ImagePullBackOff"}}}])",
       "",
       "ImagePullBackOff",
       {}},
      {"another container's image is not the pod's",
       R"("containerStatuses":[{"name":"side","state":{"waiting":{"reason":"ImagePullBackOff"}}}])",
       "",
       "",
       {}},
      {"an init container's image",
       R"("containerStatuses":[{"name":"main","state":{"waiting":{"reason":"PodInitializing"}}}],
          "initContainerStatuses":[{"name":"i","state":{"waiting":{"reason":"ErrImagePull"}}}])",
       "",
       "ErrImagePull",
       {}},
      {"a failed init container",
       R"("phase":"Failed",
          "initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":5}}}],
          "containerStatuses":[{"name":"main","state":{"waiting":{"reason":"PodInitializing"}}}])",
       "",
       "",
       5},
      {"a finished init container says nothing",
       R"("phase":"Failed",
          "initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":0}}}],
          "containerStatuses":[{"name":"main","state":{"terminated":{"exitCode":1}}}])",
       "",
       "",
       1},
  };
  for (const StatusRow& row : rows) {
    const Pod pod =
        Decoded(PodJson(R"(,"spec":{"containers":[{"name":"main"},{"name":"side"}]},"status":{)" +
                        std::string(row.status) + "}"));
    EXPECT_EQ(pod.status.unschedulable, row.unschedulable) << row.what;
    EXPECT_EQ(pod.status.waiting_reason, row.waiting_reason) << row.what;
    EXPECT_EQ(pod.status.termination.has_value(), row.exit_code.has_value()) << row.what;
    if (pod.status.termination && row.exit_code) {
      EXPECT_EQ(pod.status.termination->exit_code, *row.exit_code) << row.what;
    }
  }
}

TEST(DecodePod, CutsLongTexts) {
  const Pod pod = Decoded(PodJson(R"(,"status":{"message":")" + std::string(10000, 'x') + R"("})"));
  EXPECT_EQ(pod.status.message.size(), 4096U);
}

TEST(DecodePod, NamesThePathOfWhatIsWrong) {
  struct Row {
    const char* json;
    const char* field;
  };

  const Row rows[] = {
      {"", ""},
      {"x", ""},
      {"[]", ""},
      {R"({"metadata":{"name":"a"})", ""},
      {R"({"metadata":{"name":"a"}} x)", ""},
      {"{}", "metadata.name"},
      {R"({"metadata":{}})", "metadata.name"},
      {R"({"metadata":{"name":7}})", "metadata.name"},
      {R"({"metadata":[]})", "metadata"},
      {R"({"metadata":{"name":"a","labels":{"lockstep.dev/job":1}}})",
       "metadata.labels.lockstep.dev/job"},
      {R"({"metadata":{"name":"a","ownerReferences":[{},{"controller":"yes"}]}})",
       "metadata.ownerReferences[1].controller"},
      {R"({"metadata":{"name":"a"},"spec":{"containers":{}}})", "spec.containers"},
      {R"({"metadata":{"name":"a"},"spec":{"containers":)"
       R"([{"resources":{"requests":{"cpu":"x"}}}]}})",
       "spec.containers[0].resources.requests.cpu"},
      {R"({"metadata":{"name":"a"},"status":{"containerStatuses":[{"state":{"terminated":)"
       R"({"exitCode":1.5}}}]}})",
       "status.containerStatuses[0].state.terminated.exitCode"},
  };
  for (const Row& row : rows) {
    const Result<Item<Pod>> item = DecodePod(row.json);
    ASSERT_FALSE(item.ok()) << row.json;
    EXPECT_EQ(item.error().code(), ErrorCode::kCorrupt) << row.json;
    EXPECT_EQ(item.error().field(), row.field) << row.json;
  }
}

TEST(DecodePod, SurvivesEveryTruncation) {
  for (std::size_t size = 0; size < kOurs.size(); ++size) {
    EXPECT_FALSE(DecodePod(kOurs.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace lockstep::control::kube
