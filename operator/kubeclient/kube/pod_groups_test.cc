#include "operator/kubeclient/kube/pod_groups.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::control::kube {
namespace {

// As Kubernetes 1.37.2 answers with --runtime-config=scheduling.k8s.io/v1beta1=true and the feature
// gate GenericWorkload.
constexpr const char* kGroupOf137 = R"({
  "kind": "APIGroup", "apiVersion": "v1", "name": "scheduling.k8s.io",
  "versions": [
    {"groupVersion": "scheduling.k8s.io/v1", "version": "v1"},
    {"groupVersion": "scheduling.k8s.io/v1beta1", "version": "v1beta1"}
  ],
  "preferredVersion": {"groupVersion": "scheduling.k8s.io/v1", "version": "v1"}
})";

TEST(PodGroups, VersionsAreReadFromTheServersAnswer) {
  const auto versions = ReadServedVersions(kGroupOf137);
  ASSERT_TRUE(versions.ok()) << versions.error().ToString();
  EXPECT_EQ(*versions, (std::vector<std::string>{"v1", "v1beta1"}));
}

TEST(PodGroups, AnswerThatIsNoGroupIsAnErrorAndNotAnEmptyList) {
  for (const char* const body : {"",
                                 "{}",
                                 "[]",
                                 "ok",
                                 R"({"kind": "Status", "code": 503})",
                                 R"({"kind": "APIGroup", "versions": {"version": "v1"}})",
                                 R"({"kind": "APIGroup", "versions": ["v1"]})",
                                 R"({"kind": "APIGroup", "versions": [{"version": 1}]})"}) {
    EXPECT_FALSE(ReadServedVersions(body).ok()) << body;
  }
}

struct ChoiceCase {
  std::vector<std::string> served;
  std::optional<PodGroupVersion> current;
  std::optional<PodGroupVersion> choice;
};

TEST(PodGroups, NewestVersionIsSpokenAndKeptWhileItIsServed) {
  const std::optional<PodGroupVersion> none;
  const std::vector<ChoiceCase> cases = {
      {{}, none, none},
      {{"v1"}, none, none},
      {{"v1", "v1alpha1"}, none, none},  // Kubernetes 1.35: a Workload, and no PodGroup
      {{"v1", "v1alpha2"}, none, PodGroupVersion::kV1Alpha2},
      {{"v1", "v1alpha3"}, none, PodGroupVersion::kV1Alpha3},
      {{"v1", "v1alpha3", "v1beta1"}, none, PodGroupVersion::kV1Beta1},
      {{"v1", "v1alpha3", "v1beta1"}, PodGroupVersion::kV1Alpha3, PodGroupVersion::kV1Alpha3},
      {{"v1", "v1beta1"}, PodGroupVersion::kV1Alpha2, PodGroupVersion::kV1Beta1},
      {{"v1", "v1beta2"}, PodGroupVersion::kV1Beta1, none},
      {{"v1"}, PodGroupVersion::kV1Alpha2, none},
  };
  for (const ChoiceCase& one : cases) {
    std::string served;
    for (const std::string& version : one.served) {
      served += version + " ";
    }
    EXPECT_EQ(ChoosePodGroups(one.served, one.current), one.choice) << served;
  }
}

TEST(PodGroups, EachVersionHasItsPath) {
  std::string paths;
  for (const PodGroupVersion version : kPodGroupVersions) {
    paths += List({PodGroupsIn(version), "team", "", ""}, {"0", "", 0}).target + "\n";
  }
  EXPECT_EQ(paths,
            "/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups?resourceVersion=0\n"
            "/apis/scheduling.k8s.io/v1alpha3/namespaces/team/podgroups?resourceVersion=0\n"
            "/apis/scheduling.k8s.io/v1alpha2/namespaces/team/podgroups?resourceVersion=0\n");
  EXPECT_EQ(ApiVersionOf(PodGroupVersion::kV1Beta1), "scheduling.k8s.io/v1beta1");
  EXPECT_EQ(AskForSchedulingVersions().target, "/apis/scheduling.k8s.io");
  EXPECT_FALSE(AskForSchedulingVersions().is_mutating());
}

}  // namespace
}  // namespace lockstep::control::kube
