#include "operator/view/capacity/kueue_objects.h"

#include <gtest/gtest.h>

#include "operator/view/capacity/kueue_view.h"

namespace lockstep::control {
namespace {

constexpr const char* kWorkload = R"({
  "metadata": {"name": "trainingjob-mnist-uid-1", "namespace": "team", "uid": "w",
    "resourceVersion": "7", "annotations": {"lockstep.dev/workload-revision": "abc"},
    "ownerReferences": [{"apiVersion": "lockstep.dev/v1", "kind": "TrainingJob",
      "name": "mnist", "uid": "uid-1", "controller": true}]},
  "status": {
    "conditions": [{"type": "Admitted", "status": "True"}],
    "admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "worker", "count": 2,
      "flavors": {"cpu": "spot", "nvidia.com/gpu": "spot"}}]},
    "admissionChecks": [{"name": "prov", "state": "Ready", "podSetUpdates": [
      {"name": "worker", "annotations": {"consume": "it"}},
      {"name": "ps", "annotations": {"not": "ours"}}]}]}})";

StoredFlavor Spot() {
  const auto flavor = DecodeFlavor(R"({"metadata": {"name": "spot", "uid": "f"},
      "spec": {"nodeLabels": {"pool": "spot"},
               "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]}})");
  return flavor.ok() ? *flavor->object : StoredFlavor();
}

TEST(KueueObjects, AdmissionIsReadWithItsFlavorsAndChecks) {
  const auto item = DecodeWorkload(kWorkload);
  ASSERT_TRUE(item.ok()) << item.error().ToString();
  EXPECT_EQ(item->object->origin.owner_job, "mnist");

  const WorkloadSight sight = SightOf(*item->object, "uid-1", {{"spot", Spot()}});

  EXPECT_TRUE(sight.is_ours);
  EXPECT_EQ(sight.revision, "abc");
  EXPECT_EQ(sight.problem, "");
  ASSERT_TRUE(sight.admission.has_value());
  EXPECT_EQ(sight.admission->cluster_queue, "gpus");
  EXPECT_EQ(sight.admission->workload_uid, "w");
  ASSERT_EQ(sight.admission->pod_sets.size(), 1U);
  const KueuePodSet& pod_set = sight.admission->pod_sets[0];
  EXPECT_EQ(pod_set.role, Role::kWorker);
  EXPECT_EQ(pod_set.node_selector.at("pool"), "spot");
  ASSERT_EQ(pod_set.tolerations.size(), 1U) << "of two resources, but one flavor";
  EXPECT_TRUE(pod_set.tolerations[0].is_exists);
  EXPECT_EQ(pod_set.annotations, (std::map<std::string, std::string>{{"consume", "it"}}));
}

TEST(KueueObjects, FlavorThatIsNotThereAndTopologyThatNobodyHeedsAreProblems) {
  const auto item = DecodeWorkload(kWorkload);
  EXPECT_EQ(SightOf(*item->object, "uid-1", {}).problem,
            "resource flavor spot, which Kueue assigned, does not exist");
  StoredWorkload workload = *item->object;
  workload.admission["podSetAssignments"][0]["topologyAssignment"] = {{"levels", {"rack"}}};
  EXPECT_NE(SightOf(workload, "uid-1", {{"spot", Spot()}}).problem.find("topologyName"),
            std::string::npos);
  EXPECT_FALSE(SightOf(workload, "another", {}).is_ours);
}

TEST(KueueView, JobsHearOfTheirWorkloadsAndOfFlavors) {
  KueueView view;
  Metadata job;
  job.name = "mnist";
  job.namespace_name = "team";
  job.uid = "uid-1";
  const auto workload = DecodeWorkload(kWorkload);

  EXPECT_EQ(view.Apply(kube::Replaced<StoredWorkload>{{*workload}}),
            (std::set<JobId>{{"team", "mnist"}}));
  EXPECT_FALSE(view.is_followed());
  kube::Item<StoredFlavor> flavor{
      {"", "spot"}, "f", "1", std::make_shared<const StoredFlavor>(Spot())};
  EXPECT_EQ(view.Apply(kube::Replaced<StoredFlavor>{{flavor}}),
            (std::set<JobId>{{"team", "mnist"}}))
      << "what admission says is complete now";
  EXPECT_TRUE(view.is_followed());
  ASSERT_TRUE(view.SightOf(job).workload.has_value());
  EXPECT_EQ(view.SightOf(job).workload->problem, "");

  EXPECT_EQ(view.Apply(kube::Deleted<StoredWorkload>{*workload}),
            (std::set<JobId>{{"team", "mnist"}}));
  EXPECT_FALSE(view.SightOf(job).workload.has_value());
}

}  // namespace
}  // namespace lockstep::control
