#include "operator/reconcile/pods/template_path.h"

#include <gtest/gtest.h>

#include "operator/reconcile/pods/pod.h"
#include "operator/reconcile/pods/pod_manifest.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

// What becomes of an API server's words about the first worker of a job with this pod template.
std::string Translate(const std::string& spec, const std::string& path_in_pod) {
  TrainingJob job = MakeCommandJob(1);
  job.spec.roles.front().pod.raw = Json::object({{"spec", ParseJson(spec).value()}});
  const PodSettings settings = SettingsForImages({"example/runtime:1", "Never", "", "/data"});
  const auto pod = BuildPod(job, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, settings);
  const Json manifest = PodManifest(job, pod.value(), settings);
  std::string words = path_in_pod;
  const std::size_t mark = words.find("LAST");  // the pod's last variable
  if (mark != std::string::npos) {
    words.replace(mark, 4, std::to_string(manifest["spec"]["containers"][0]["env"].size() - 1));
  }
  return InTermsOfTemplate("Pod \"a\" is invalid: " + words, manifest, job, Role::kWorker);
}

constexpr const char* kSpec = R"({"containers": [{"name": "trainer", "image": "i", "env": [
  {"name": "A", "value": "1"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"},
  {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "no"}}}]}],
  "tolerations": [{"operator": "Sometimes"}]})";

TEST(TemplatePath, VariableStandsWhereTheUserWroteIt) {
  EXPECT_EQ(Translate(kSpec, "spec.containers[0].env[LAST].valueFrom.fieldRef: Invalid value"),
            "Pod \"a\" is invalid: spec.roles[0].template.spec.containers[0].env[2].valueFrom."
            "fieldRef: Invalid value");
}

TEST(TemplatePath, AllPathsOfAListAreTranslated) {
  EXPECT_EQ(Translate(kSpec, "[spec.tolerations[0].operator: Bad, spec.containers[0].image: No]"),
            "Pod \"a\" is invalid: [spec.roles[0].template.spec.tolerations[0].operator: Bad, "
            "spec.roles[0].template.spec.containers[0].image: No]");
}

TEST(TemplatePath, WhatTheTemplateDoesNotSayIsOfThePod) {
  EXPECT_EQ(Translate(kSpec, "spec.containers[0].env[0].value: Bad"),
            "Pod \"a\" is invalid: spec.containers[0].env[0].value: Bad");
  EXPECT_EQ(Translate(kSpec, "spec.hostname: Bad"), "Pod \"a\" is invalid: spec.hostname: Bad");
}

}  // namespace
}  // namespace lockstep::control
