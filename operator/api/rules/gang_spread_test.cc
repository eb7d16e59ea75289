#include "operator/api/rules/gang_spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/decode_job.h"
#include "operator/api/job_manifest.h"
#include "operator/yaml/yaml.h"

// What required pod affinity and anti-affinity come to for a gang. They stopped 14 of 317 public
// manifests.

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;

constexpr const char* kApart = "podAntiAffinity";
constexpr const char* kTogether = "podAffinity";

// A role with one required term of that kind; none without a kind.
std::string RoleText(const std::string& name, const std::string& kind, const std::string& term) {
  const std::string affinity =
      kind.empty() ? ""
                   : "affinity: {" + kind + ": {requiredDuringSchedulingIgnoredDuringExecution: [" +
                         term + "]}}, ";
  return "  - {name: " + name + ", template: {metadata: {labels: {app: bert}}, spec: {" + affinity +
         "containers: [{command: [a]}]}}}\n";
}

std::string Term(const std::string& selector, const std::string& key = "kubernetes.io/hostname") {
  return "{labelSelector: " + selector + ", topologyKey: " + key + "}";
}

Json JobOf(const std::string& roles, const std::string& more = "") {
  const YamlStream stream = ReadYaml(
      "apiVersion: lockstep.dev/v1\nkind: TrainingJob\nmetadata: {name: job}\nspec:\n  roles:\n" +
      roles + more);
  return stream.documents.at(0).value;
}

GangSpread SpreadOf(const std::string& roles, const std::string& more = "") {
  const auto decoded = DecodeTrainingJob(JobOf(roles, more));
  EXPECT_TRUE(decoded.errors.empty()) << decoded.errors.front().ToString();
  return FindGangSpread(decoded.job);
}

std::string ProblemWith(const std::string& roles, const std::string& more = "") {
  const auto decoded = DecodeTrainingJob(JobOf(roles, more));
  return decoded.errors.empty() ? "" : decoded.errors.front().ToString();
}

TEST(GangSpread, AntiAffinityToItsOwnPodsIsOnePodANode) {
  for (const char* const selector :
       {"{matchLabels: {app: bert}}",
        "{matchLabels: {lockstep.dev/job: job}}",
        "{matchExpressions: [{key: app, operator: In, values: [bert, gpt]}]}",
        "{}"}) {
    EXPECT_EQ(SpreadOf(RoleText("worker", kApart, Term(selector))),
              (GangSpread{"", "kubernetes.io/hostname"}))
        << selector;
  }
}

TEST(GangSpread, AffinityToItsOwnPodsIsOneDomain) {
  const std::string term = Term("{matchLabels: {app: bert}}", "example.com/rack");
  EXPECT_EQ(SpreadOf(RoleText("chief", kTogether, term) + RoleText("worker", kTogether, term)),
            (GangSpread{"example.com/rack", ""}));
  EXPECT_EQ(SpreadOf(RoleText("worker", kTogether, term),
                     "  scheduling: {topology: {required: example.com/rack}}\n"),
            (GangSpread{"example.com/rack", ""}));
}

TEST(GangSpread, WhatAGangCannotKeepIsRefusedByItsName) {
  const std::string own = Term("{matchLabels: {app: bert}}");
  EXPECT_THAT(ProblemWith(RoleText("worker", kApart, Term("{matchLabels: {app: web}}"))),
              HasSubstr("podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]."
                        "labelSelector: does not select the pods of role worker"));
  EXPECT_THAT(ProblemWith(RoleText("chief", "", "") + RoleText("worker", kApart, own)),
              HasSubstr("found, but not in the template of role chief"));
  EXPECT_THAT(ProblemWith(RoleText("chief", kApart, own) +
                          RoleText("worker", kApart, Term("{matchLabels: {app: bert}}", "zone"))),
              HasSubstr("topologyKey: \"zone\" found, and \"kubernetes.io/hostname\""));
  EXPECT_THAT(ProblemWith(RoleText("worker", kTogether, own),
                          "  scheduling: {topology: {required: example.com/rack}}\n"),
              HasSubstr("spec.scheduling.topology.required: \"example.com/rack\" found, and"));
  EXPECT_THAT(ProblemWith(RoleText(
                  "worker", kApart, "{labelSelector: {}, topologyKey: zone, namespaces: [other]}")),
              HasSubstr("namespaces: found, but Lockstep plans for the pods of this job only"));
  EXPECT_THAT(ProblemWith(RoleText("worker", kApart, "{topologyKey: zone}")),
              HasSubstr("labelSelector: missing"));
}

}  // namespace
}  // namespace lockstep::control
