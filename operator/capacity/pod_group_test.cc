#include "operator/capacity/pod_group.h"

#include <string>

#include <gtest/gtest.h>

#include "operator/reconcile/pods/node_tie.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using kube::PodGroupVersion;

TrainingJob JobWithGroup() {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.scheduling.binding = PodBinding::kNative;
  job.status.pod_group = "mnist-uid-1-0";
  job.status.placement.resize(2);
  return job;
}

TEST(PodGroupManifest, CountsThePodsOfTheGangAndBelongsToTheJobInEachVersion) {
  TrainingJob job = JobWithGroup();
  for (const PodGroupVersion version : kube::kPodGroupVersions) {
    const Json group = PodGroupManifest(job, version);

    EXPECT_EQ(group["apiVersion"], kube::ApiVersionOf(version));
    EXPECT_EQ(group["kind"], "PodGroup");
    EXPECT_EQ(group["metadata"]["name"], "mnist-uid-1-0");
    EXPECT_EQ(group["metadata"]["namespace"], "default");
    EXPECT_EQ(group["metadata"]["labels"], Json({{"lockstep.dev/job", "mnist"}}));
    EXPECT_EQ(group["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    EXPECT_EQ(DumpJson(group["spec"]), R"({"schedulingPolicy":{"gang":{"minCount":2}}})");
  }
  job.spec.scheduling.priority_class_name = "urgent";
  EXPECT_EQ(PodGroupManifest(job, PodGroupVersion::kV1Beta1)["spec"]["priorityClassName"],
            "urgent");
}

TEST(PodGroupManifest, ItsPodsHaveItsClassWhateverTheirTemplateSays) {
  struct Classes {
    std::string of_job;
    std::string of_first_template;
    std::string own;
  };

  for (const Classes& one : {Classes{"", "", ""},
                             Classes{"", "", "low"},
                             Classes{"", "urgent", ""},
                             Classes{"urgent", "", ""},
                             Classes{"urgent", "low", "low"}}) {
    TrainingJob job = JobWithGroup();
    job.spec.scheduling.priority_class_name = one.of_job;
    job.spec.roles[0].pod.raw = Json::object({{"spec", {{"containers", Json::array()}}}});
    if (!one.of_first_template.empty()) {
      job.spec.roles[0].pod.raw.Edit()["spec"]["priorityClassName"] = one.of_first_template;
    }
    const Json group = PodGroupManifest(job, PodGroupVersion::kV1Beta1)["spec"];
    Json pod = {{"containers", Json::array()}};
    if (!one.own.empty()) {
      pod["priorityClassName"] = one.own;
    }
    GiveGroupsPriority(job, &pod);

    EXPECT_EQ(pod.value("priorityClassName", ""), group.value("priorityClassName", ""))
        << DumpJson(group);
  }
}

// Conditions as the API servers of Kubernetes 1.36.3 and 1.37.2 have stored them, but for the
// times.
constexpr const char* kUnplacedOf136 = R"([{
  "type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable",
  "lastTransitionTime": "2026-11-29T14:50:03Z", "message": "pod group is unschedulable"}])";
constexpr const char* kPlacedOf136 = R"([{
  "type": "PodGroupScheduled", "status": "True", "reason": "Scheduled",
  "lastTransitionTime": "2026-11-29T14:50:02Z", "message": ""}])";
constexpr const char* kUnplacedOf137 = R"([{
  "type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable",
  "lastTransitionTime": "2026-11-29T15:07:56Z",
  "message": "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"}])";
constexpr const char* kFailedOf137 = R"([{
  "type": "PodGroupInitiallyScheduled", "status": "False", "reason": "SchedulerError",
  "lastTransitionTime": "2026-11-29T15:07:57Z",
  "message": "all pods in a single pod group should have the same priority"}])";
constexpr const char* kPlacedOf137 = R"([{
  "type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled",
  "lastTransitionTime": "2026-11-29T15:07:56Z", "message": ""}])";

TEST(PodGroupConditions, KubeSchedulersNoIsReadInEachVersion) {
  const auto why = [](const char* conditions, PodGroupVersion version) {
    return WhyNotPlaced(ParseJson(conditions).value(), version);
  };
  EXPECT_EQ(why(kUnplacedOf136, PodGroupVersion::kV1Alpha2), "pod group is unschedulable");
  EXPECT_EQ(why(kPlacedOf136, PodGroupVersion::kV1Alpha2), "");
  for (const PodGroupVersion version : {PodGroupVersion::kV1Alpha3, PodGroupVersion::kV1Beta1}) {
    EXPECT_EQ(why(kUnplacedOf137, version),
              "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining");
    EXPECT_EQ(why(kFailedOf137, version),
              "all pods in a single pod group should have the same priority");
    EXPECT_EQ(why(kPlacedOf137, version), "");
    EXPECT_EQ(WhyNotPlaced(Json(), version), "") << "nothing was said yet";
  }
}

}  // namespace
}  // namespace lockstep::control
