#include "operator/cli/run/without_cluster.h"

#include <map>

#include <gtest/gtest.h>

#include "common/json/json.h"

namespace lockstep::control {
namespace {

EnvironmentSource Source(const std::string& variable, const std::string& kind) {
  EnvironmentSource source;
  source.variable = variable;
  source.kind = kind;
  source.path = "PATH";
  return source;
}

TrainingJob JobWith(const std::vector<EnvironmentSource>& sources) {
  TrainingJob job;
  job.spec.roles.resize(1);
  job.spec.roles.front().pod.env_sources = sources;
  return job;
}

std::optional<std::string> Shell(const std::string& name) {
  return name == "TOKEN" ? std::optional<std::string>("secret") : std::nullopt;
}

TEST(TakeClusterValues, VariablesOfTheShellStandIn) {
  TrainingJob job = JobWith({Source("TOKEN", "secretKeyRef")});

  EXPECT_TRUE(TakeClusterValues(Shell, &job).ok());

  EXPECT_EQ(job.spec.roles.front().pod.env,
            (std::map<std::string, std::string>{{"TOKEN", "secret"}}));
}

TEST(TakeClusterValues, EveryOneThatIsMissingIsNamed) {
  TrainingJob job = JobWith({Source("MODE", "configMapKeyRef"), Source("", "secretRef")});

  EXPECT_EQ(TakeClusterValues(Shell, &job).error().message(),
            "PATH: a configMapKeyRef exists only on a cluster; on one machine set MODE in the "
            "environment of lockstep run\n"
            "PATH: a secretRef exists only on a cluster; on one machine list its variables in env");
}

TEST(TakeClusterValues, OptionalOnesAndFieldsOfThePodAreNotMissed) {
  EnvironmentSource optional = Source("MODE", "configMapKeyRef");
  optional.is_optional = true;
  EnvironmentSource optional_map = Source("", "configMapRef");
  optional_map.is_optional = true;
  EnvironmentSource name = Source("POD", "fieldRef");
  name.field = "metadata.name";
  TrainingJob job = JobWith({optional, optional_map, name});

  EXPECT_TRUE(TakeClusterValues(Shell, &job).ok());

  EXPECT_TRUE(job.spec.roles.front().pod.env.empty());
}

TEST(WhyItWouldOnlyWait, JobsThatNobodyHereStartsAreNamedWithTheCure) {
  TrainingJob job = JobWith({});
  EXPECT_EQ(WhyItWouldOnlyWait(job), "");
  job.spec.run_policy.managed_by = "kueue.x-k8s.io/multikueue";
  EXPECT_NE(WhyItWouldOnlyWait(job).find("--set runPolicy.managedBy=null"), std::string::npos);
  job.spec.run_policy.suspend = true;
  EXPECT_NE(WhyItWouldOnlyWait(job).find("--set runPolicy.suspend=false"), std::string::npos);
}

TEST(UnusedScheduling, WhatAsksForAClusterIsNamedWhereTheJobHasIt) {
  TrainingJob job = JobWith({});
  EXPECT_EQ(UnusedSchedulingOf(job), "");
  job.spec.scheduling.priority_class_name = "high";
  EXPECT_EQ(UnusedSchedulingOf(job), "priorityClassName");
  job.spec.scheduling.queue = "team";
  EXPECT_EQ(UnusedSchedulingOf(job), "queue, priorityClassName");
  job.spec.scheduling.provisioning = Provisioning::kProvisioningRequest;
  EXPECT_EQ(UnusedSchedulingOf(job), "queue, priorityClassName, provisioning");
  job.spec.scheduling.binding = PodBinding::kDirect;
  EXPECT_EQ(UnusedSchedulingOf(job), "queue, priorityClassName, provisioning");
  job.spec.scheduling.binding = PodBinding::kNative;
  EXPECT_EQ(UnusedSchedulingOf(job), "queue, priorityClassName, provisioning, binding");
}

TEST(UnusedPodFields, EachIsNamedOnce) {
  TrainingJob job = JobWith({});
  job.spec.roles.push_back(job.spec.roles.front());
  for (RoleSpec& role : job.spec.roles) {
    role.pod.raw = ParseJson(R"({"spec": {"volumes": [], "containers": [
        {"name": "trainer", "image": "x", "volumeMounts": [], "livenessProbe": {}},
        {"name": "logger"}]}})")
                       .value();
  }
  EXPECT_EQ(UnusedPodFieldsOf(job), "volumes, volumeMounts, livenessProbe, container logger");
  EXPECT_EQ(UnusedPodFieldsOf(JobWith({})), "");
}

}  // namespace
}  // namespace lockstep::control
