#include "operator/convert/pod_patch.h"

#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"

namespace lockstep::control {
namespace {

// A TrainJob with `more` in its spec.
Conversion Patched(const std::string& more) {
  return ConvertText(
      "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\nspec:\n"
      "  runtimeRef: {name: torch}\n"
      "  trainer: {image: i, command: [a], env: [{name: A, value: \"1\"}]}\n" +
      more);
}

Json PodOf(const Conversion& conversion) {
  return conversion.job["spec"]["roles"][0]["template"]["spec"];
}

constexpr const char* kTwoOverrides = R"(
  podTemplateOverrides:
  - targetJobs: [{name: node}]
    metadata: {labels: {x: "1", w: "1"}}
    spec:
      serviceAccountName: one
      nodeSelector: {x: "1", w: "1"}
      tolerations: [{key: one, operator: Exists}]
      volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}]
      imagePullSecrets: [{name: a}]
      containers: [{name: node, volumeMounts: [{name: v, mountPath: /v}]}]
  - targetJobs: [{name: node}]
    metadata: {labels: {w: "2"}}
    spec:
      nodeSelector: {w: "2", z: "2"}
      tolerations: [{key: two, operator: Exists}]
      volumes: [{name: w, configMap: {name: c}}, {name: u, emptyDir: {}}]
      imagePullSecrets: [{name: b}]
      containers: [{name: node, volumeMounts: [{name: u, mountPath: /u}], env: [{name: B}]}]
  - targetJobs: [{name: node}]
    spec: {tolerations: [], nodeSelector: {}, affinity: null}
)";

// Kubeflow's operator makes one strategic merge patch after the other.
TEST(ApplyPatch, LaterPatchesAddToThoseBeforeThem) {
  const Conversion conversion = Patched(kTwoOverrides);
  const Json metadata = conversion.job["spec"]["roles"][0]["template"]["metadata"];
  const Json pod = PodOf(conversion);
  EXPECT_EQ(metadata["labels"], Json({{"x", "1"}, {"w", "2"}}));
  EXPECT_EQ(pod["serviceAccountName"], "one");
  EXPECT_EQ(pod["nodeSelector"], Json({{"x", "1"}, {"w", "2"}, {"z", "2"}}));
  EXPECT_EQ(pod["tolerations"], Json::array({{{"key", "two"}, {"operator", "Exists"}}}));
  EXPECT_EQ(pod["imagePullSecrets"], Json::array({{{"name", "a"}}, {{"name", "b"}}}));
  ASSERT_EQ(pod["volumes"].size(), 3U);
  EXPECT_EQ(pod["volumes"][1], Json({{"name", "w"}, {"configMap", {{"name", "c"}}}}));
  EXPECT_EQ(pod["containers"][0]["volumeMounts"].size(), 2U);
  EXPECT_EQ(pod["containers"][0]["env"].size(), 2U);
  EXPECT_FALSE(pod.contains("affinity"));
}

TEST(ApplyPatch, WhatGivesWayIsSaidAndWhatTookItsPlace) {
  const Conversion conversion = Patched(kTwoOverrides);
  const std::string notes = NotesOf(conversion);
  const std::string first = "spec.podTemplateOverrides[0].";
  const std::string second = "spec.podTemplateOverrides[1].";
  for (const char* const field : {"metadata.labels.w", "spec.nodeSelector.w", "spec.tolerations"}) {
    EXPECT_NE(notes.find(first + field + ": not kept: " + second + field + " replaces it\n"),
              std::string::npos)
        << notes;
  }
  EXPECT_NE(
      notes.find(first + "spec.volumes[1]: not kept: " + second + "spec.volumes[0] replaces it\n"),
      std::string::npos)
      << notes;
  EXPECT_EQ(notes.find("serviceAccountName"), std::string::npos);
  EXPECT_EQ(ForeignField(conversion, "spec.roles[0].template.spec.volumes[2].name"),
            second + "spec.volumes[1].name");
  EXPECT_EQ(ForeignField(conversion, "spec.roles[0].template.spec.volumes[0].name"),
            first + "spec.volumes[0].name");
}

TEST(ApplyPatch, VariableOfThePatchTakesThePlaceOfTheTrainers) {
  const Conversion conversion = Patched(
      "  podSpecOverrides: [{containers: [{name: node, env: [{name: A, valueFrom: {fieldRef: "
      "{fieldPath: metadata.name}}}]}]}]\n");
  EXPECT_FALSE(PodOf(conversion)["containers"][0]["env"][0].contains("value"));
  EXPECT_NE(NotesOf(conversion)
                .find("spec.trainer.env[0]: not kept: "
                      "spec.podSpecOverrides[0].containers[0].env[0] replaces it\n"),
            std::string::npos)
      << NotesOf(conversion);
}

TEST(ConvertTrainJob, PatchesOfAnotherShapeAreRefused) {
  const std::string field = "spec.podTemplateOverrides";
  const std::string list = " found, expected a list of objects\n";
  const std::string object = " found, expected an object\n";
  const auto errors = [](const std::string& more) { return ErrorsOf(Patched("  " + more + "\n")); };
  EXPECT_EQ(errors("podTemplateOverrides: x"), field + ": \"x\"" + list);
  EXPECT_EQ(errors("podTemplateOverrides: {spec: {}}"), field + ": an object" + list);
  EXPECT_EQ(errors("podTemplateOverrides: [x]"), field + "[0]: \"x\"" + object);
  EXPECT_EQ(errors("podSpecOverrides: 5"), "spec.podSpecOverrides: 5" + list);
  EXPECT_EQ(errors("runtimePatches: x"), "spec.runtimePatches: \"x\"" + list);
  EXPECT_EQ(errors("podTemplateOverrides: [{targetJobs: node}]"),
            field + "[0].targetJobs: \"node\"" + list);
  EXPECT_EQ(errors("podTemplateOverrides: [{targetJobs: [node]}]"),
            field + "[0].targetJobs[0]: \"node\"" + object);
  EXPECT_EQ(errors("podTemplateOverrides: [{spec: x}]"), field + "[0].spec: \"x\"" + object);
  EXPECT_EQ(errors("podTemplateOverrides: [{spec: {containers: x}}]"),
            field + "[0].spec.containers: \"x\"" + list);
}

}  // namespace
}  // namespace lockstep::control
