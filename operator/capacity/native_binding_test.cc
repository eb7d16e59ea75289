#include "operator/capacity/native_binding.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/capacity/pod_group.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using kube::PodGroupVersion;
using std::chrono::seconds;

constexpr const char* kFirstPodGroup = "mnist-uid-1-0";

// A job's world with a server that keeps PodGroups; the test is kube-scheduler.
class NativeBinding : public ::testing::Test {
 protected:
  explicit NativeBinding(TrainingJob job = MakeTrainingJob(2)) : world_(std::move(job)) {
    world_.job.spec.roles[0].gpus = 4;
    world_.job.spec.scheduling.binding = PodBinding::kNative;
    world_.AddNode("node-b");
    sight().is_enabled = true;
    sight().is_followed = true;
    sight().served.version = PodGroupVersion::kV1Beta1;
  }

  NativeSight& sight() { return world_.observed.native; }

  // What the server makes of it, and the watch shows.
  void Carry(const WriteObject& write) {
    std::vector<CapacityObject>& groups = sight().groups;
    const auto found = std::find_if(
        groups.begin(), groups.end(), [&](const auto& one) { return one.name == write.name; });
    if (write.kind == WriteObject::Kind::kDelete) {
      if (found != groups.end() && found->uid == write.uid) {
        groups.erase(found);
      }
    } else if (found == groups.end()) {
      groups.push_back(
          {write.name, "group-" + std::to_string(next_uid_++), "", true, false, Json()});
    }
  }

  // A turn, all of whose writes are carried out; their descriptions.
  std::string Step() {
    std::string text;
    last_ = world_.Step();
    for (const Effect& effect : last_.effects) {
      if (const auto* const write = std::get_if<WriteObject>(&effect)) {
        Carry(*write);
        text += (text.empty() ? "" : ", ") + DescribeEffect(*write);
      }
    }
    return text;
  }

  // Turns until the pods are there.
  void Create() {
    Step();
    Step();
    ASSERT_EQ(world_.Pods(), "mnist-worker-0 mnist-worker-1");
  }

  void Bind(const std::string& name, const std::string& node) {
    kube::Pod* const pod = world_.Find(name);
    pod->spec.node_name = node;
    pod->status.is_unbound = false;
    pod->status.unschedulable.clear();
  }

  // Turns until the gang runs, on other nodes than planned.
  void Launch() {
    Create();
    Bind("mnist-worker-0", "node-b");
    Bind("mnist-worker-1", "node-a");
    world_.RunAll();
    Step();
    ASSERT_TRUE(IsTrue(world_.job.status, ConditionType::kRunning));
  }

  void SayNo(const std::string& name, const std::string& words) {
    world_.Find(name)->status.unschedulable = words;
  }

  std::string Why() { return MessageOf(world_.job.status, ConditionType::kScheduled); }

  std::string Reason() {
    return FindCondition(world_.job.status, ConditionType::kScheduled)->reason;
  }

  bool Says(const std::string& words) { return Why().find(words) != std::string::npos; }

  std::string Places() {
    std::string text;
    for (const PodPlacement& placement : world_.job.status.placement) {
      text += (text.empty() ? "" : " ") + placement.node;
    }
    return text;
  }

  TestWorld world_;
  Decision last_;
  int next_uid_ = 1;
};

TEST_F(NativeBinding, PodGroupIsThereBeforeThePodsAndTheyHaveNoNode) {
  EXPECT_EQ(Step(), "create podgroups/mnist-uid-1-0");
  EXPECT_EQ(world_.job.status.pod_group, kFirstPodGroup);
  EXPECT_EQ(world_.Pods(), "");
  EXPECT_EQ(Places(), "node-a node-a") << "the proof that there is room";
  EXPECT_EQ(Why(),
            "attempt 0: there is room for 2 pods on 1 node; kube-scheduler places them through "
            "PodGroup mnist-uid-1-0");

  EXPECT_EQ(Step(), "");
  EXPECT_EQ(world_.Pods(), "mnist-worker-0 mnist-worker-1");
  EXPECT_EQ(world_.Find("mnist-worker-0")->spec.pod_group, kFirstPodGroup);
  EXPECT_EQ(world_.Find("mnist-worker-0")->spec.node_name, "");
  EXPECT_EQ(DescribeEffects(world_.Step()), "");
}

TEST_F(NativeBinding, NodesThatAreChosenAreTheGangsAndNobodyIsWarned) {
  Create();
  Bind("mnist-worker-1", "node-b");
  Step();
  EXPECT_EQ(Places(), "node-a node-b");
  EXPECT_EQ(EventReasons(last_), "");
  EXPECT_EQ(Why(), "attempt 0: 2 pods on 2 nodes, placed by kube-scheduler");
  EXPECT_EQ(Reason(), "GangPlaced");

  Bind("mnist-worker-0", "node-a");
  world_.RunAll();
  Step();
  EXPECT_EQ(EventReasons(last_), "GangRunning");
}

TEST_F(NativeBinding, NodeOfThePlanMattersOnlyOnceItsPodIsThere) {
  Create();
  world_.nodes()[0].is_ready = false;
  Step();
  world_.Advance(seconds(30));
  Step();
  EXPECT_EQ(world_.job.status.attempt, Attempt(0)) << "kube-scheduler has chosen no node yet";
  EXPECT_EQ(Reason(), "GangPlaced");

  Bind("mnist-worker-0", "node-a");
  Bind("mnist-worker-1", "node-b");
  Step();
  world_.Advance(seconds(10));
  Step();
  EXPECT_EQ(world_.job.status.attempt, Attempt(1));
  EXPECT_EQ(Reason(), "NodeNotReady");
}

TEST_F(NativeBinding, GangThatIsNotPlacedIsRolledBackWithAllThatWasSaid) {
  Create();
  SayNo("mnist-worker-0", "waiting for minCount pods from a gang to be scheduled");
  SayNo("mnist-worker-1", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu");
  sight().groups[0].conditions = Json::array({{{"type", "PodGroupInitiallyScheduled"},
                                               {"status", "False"},
                                               {"reason", "Unschedulable"},
                                               {"message", "pod group is unschedulable"}}});
  const std::string words =
      "pod mnist-worker-0 (rank 0) is not placed by kube-scheduler: waiting for minCount pods from "
      "a gang to be scheduled; 0/2 nodes are available: 2 Insufficient nvidia.com/gpu; pod group "
      "is unschedulable";
  Step();
  EXPECT_EQ(Why(), words + "; the operator waits for the pod");
  EXPECT_EQ(world_.job.status.attempt, Attempt(0));
  world_.Advance(seconds(10));

  EXPECT_EQ(Step(), "delete podgroups/mnist-uid-1-0");
  EXPECT_EQ(Why(), "the gang is rolled back: " + words + "; next try after 5 s");
  EXPECT_EQ(Reason(), "PodUnschedulable");
  EXPECT_TRUE(world_.job.status.suspect_nodes.empty()) << "no node was chosen, and none at fault";
  EXPECT_EQ(world_.job.status.pod_group, "");
  EXPECT_EQ(world_.Pods(), "");
  world_.Advance(seconds(5));
  EXPECT_EQ(Step(), "create podgroups/mnist-uid-1-1");
}

TEST_F(NativeBinding, GangThatNobodyLooksAtIsRolledBack) {
  Create();
  world_.Advance(seconds(60));
  Step();

  EXPECT_EQ(Reason(), "PodNotBound");
  EXPECT_TRUE(Says("pod mnist-worker-0 (rank 0) was not bound to a node within 60 s")) << Why();
  EXPECT_TRUE(world_.job.status.suspect_nodes.empty());
}

TEST_F(NativeBinding, NodeThatRefusesAPodIsRememberedWhereThePodWas) {
  Create();
  Bind("mnist-worker-0", "node-b");
  kube::Pod* const pod = world_.Find("mnist-worker-0");
  pod->status.phase = kube::PodPhase::kFailed;
  pod->status.reason = "UnexpectedAdmissionError";
  Step();

  EXPECT_EQ(Reason(), "PodRefused");
  ASSERT_EQ(world_.job.status.suspect_nodes.size(), 1U);
  EXPECT_EQ(world_.job.status.suspect_nodes[0].node, "node-b");
}

TEST_F(NativeBinding, SuccessorIsPlacedByItself) {
  Launch();
  world_.Exit("mnist-worker-1", 137);
  EXPECT_EQ(Step(), "");

  ASSERT_NE(world_.Find("mnist-worker-1-r1"), nullptr);
  EXPECT_EQ(world_.Find("mnist-worker-1-r1")->spec.pod_group, "");
  EXPECT_EQ(world_.Find("mnist-worker-1-r1")->spec.node_name, "");
  EXPECT_EQ(world_.job.status.pod_group, kFirstPodGroup) << "its first pods are in there still";
  Bind("mnist-worker-1-r1", "node-b");
  world_.RunAll();
  Step();
  EXPECT_EQ(Places(), "node-b node-b");
  EXPECT_EQ(world_.job.status.attempt, Attempt(0));
}

TEST_F(NativeBinding, SuccessorNeedsNoPodGroup) {
  Launch();
  sight().groups.clear();
  world_.Exit("mnist-worker-1", 137);

  EXPECT_EQ(Step(), "create podgroups/mnist-uid-1-0");
  EXPECT_NE(world_.Find("mnist-worker-1-r1"), nullptr);
}

TEST_F(NativeBinding, PodGroupGoesWithItsGangHoweverThatEnds) {
  const std::vector<std::pair<std::string, std::function<void()>>> ends = {
      {"suspension", [&] { world_.job.spec.run_policy.suspend = true; }},
      {"another size", [&] { world_.job.spec.roles[0].replicas = 1; }},
      {"failure", [&] { world_.Exit("mnist-worker-0", 2); }},
      {"success",
       [&] {
         world_.Exit("mnist-worker-0", 0);
         world_.Exit("mnist-worker-1", 0);
       }},
      {"eviction",
       [&] {
         world_.observed.eviction = EvictionOrder{"team/b", 1, "team", false};
       }},
  };
  for (const auto& [name, end] : ends) {
    world_ = TestWorld(world_.job);
    world_.job.status = {};
    world_.job.spec.run_policy.suspend = false;
    world_.job.spec.roles[0].replicas = 2;
    world_.AddNode("node-b");
    world_.observed.native = {true, true, {}, {}, {PodGroupVersion::kV1Beta1, ""}};
    Launch();
    ++world_.job.metadata.generation;
    end();
    std::string writes;
    for (int i = 0; i < 3 && !sight().groups.empty(); ++i) {
      writes += Step();
      if (!world_.job.status.pod_group.empty()) {
        break;
      }
    }
    EXPECT_NE(writes.find("delete podgroups/mnist-uid-1-0"), std::string::npos) << name;
  }
}

TEST_F(NativeBinding, WhatIsLeftOverGoesAndWhatIsNotOursStays) {
  sight().groups = {{"mnist-uid-1-7", "old", "", true, false, Json()},
                    {"mnist-uid-1-8", "going", "", true, true, Json()},
                    {"mnist-else", "foreign", "", false, false, Json()}};

  EXPECT_EQ(Step(), "delete podgroups/mnist-uid-1-7, create podgroups/mnist-uid-1-0");
}

TEST_F(NativeBinding, NameThatIsTakenIsTriedAnewUnderAnother) {
  sight().groups = {{kFirstPodGroup, "foreign", "", false, false, Json()}};
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(world_.Pods(), "");

  EXPECT_EQ(Reason(), "PodGroupNotMade");
  EXPECT_TRUE(Says("waits for PodGroup mnist-uid-1-0, which does not belong to this job")) << Why();
  EXPECT_TRUE(world_.job.status.suspect_nodes.empty());
  world_.Advance(seconds(5));
  EXPECT_EQ(Step(), "create podgroups/mnist-uid-1-1");
}

TEST_F(NativeBinding, PodGroupThatIsRefusedIsAskedForAgainUntilPatienceIsOver) {
  world_.Step();
  sight().refusals = {{kFirstPodGroup, "podgroups are forbidden"}};
  EXPECT_EQ(DescribeEffects(world_.Step()), "create podgroups/mnist-uid-1-0\n");
  world_.Advance(seconds(10));
  world_.Step();

  EXPECT_EQ(Reason(), "PodGroupNotMade");
  EXPECT_TRUE(Says("PodGroup mnist-uid-1-0, which was not created: podgroups are forbidden"))
      << Why();
}

TEST_F(NativeBinding, PodGroupThatNeverShowsIsNotWaitedForForEver) {
  world_.Step();
  world_.Advance(seconds(60));
  world_.Step();

  EXPECT_TRUE(Says("PodGroup mnist-uid-1-0, which still does not exist after 60 s")) << Why();
}

TEST_F(NativeBinding, PodGroupThatIsBeingDeletedIsWaitedFor) {
  Step();
  sight().groups[0].is_deleting = true;
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(world_.Pods(), "");
  sight().groups.clear();
  EXPECT_EQ(Step(), "create podgroups/mnist-uid-1-0");
  Step();
  EXPECT_EQ(world_.Pods(), "mnist-worker-0 mnist-worker-1");
}

TEST_F(NativeBinding, GangIsRolledBackWithTheGroupsWordsWhereItsPodsSayNothing) {
  Create();
  const std::string words = "all pods in a single pod group should have the same priority";
  sight().groups[0].conditions = Json::array({{{"type", "PodGroupInitiallyScheduled"},
                                               {"status", "False"},
                                               {"reason", "SchedulerError"},
                                               {"message", words}}});
  world_.Advance(seconds(60));
  Step();

  EXPECT_EQ(Reason(), "PodNotBound");
  EXPECT_TRUE(Says("was not bound to a node within 60 s: " + words)) << Why();
}

TEST_F(NativeBinding, ObjectsAreOfTheVersionThatIsServed) {
  for (const PodGroupVersion version : kube::kPodGroupVersions) {
    SCOPED_TRACE(kube::VersionName(version));
    world_ = TestWorld(MakeTrainingJob(2));
    world_.job.spec.scheduling.binding = PodBinding::kNative;
    sight() = {true, true, {}, {}, {version, ""}};
    sight().groups = {{"mnist-uid-1-7", "old", "", true, false, Json()}};
    last_ = world_.Step();
    int writes = 0;
    for (const Effect& effect : last_.effects) {
      if (const auto* const write = std::get_if<WriteObject>(&effect)) {
        ++writes;
        EXPECT_EQ(write->resource, kube::PodGroupsIn(version));
        if (write->kind == WriteObject::Kind::kCreate) {
          EXPECT_EQ(ParseJson(write->body).value()["apiVersion"], kube::ApiVersionOf(version));
        }
      }
    }
    EXPECT_EQ(writes, 2);
  }
}

TEST_F(NativeBinding, GangThatRunsGoesOnWhileNoPodGroupsAreServed) {
  Launch();
  sight().groups.clear();
  sight().is_followed = false;
  sight().served = {};
  EXPECT_EQ(Step(), "");
  world_.Exit("mnist-worker-1", 137);
  EXPECT_EQ(Step(), "");
  EXPECT_NE(world_.Find("mnist-worker-1-r1"), nullptr) << "a successor needs none";
  EXPECT_EQ(world_.job.status.attempt, Attempt(0));
}

TEST_F(NativeBinding, JobThatWaitsNamesTheCauseOfEachKind) {
  struct Cause {
    NativeSight sight;
    std::string words;
  };

  const std::vector<Cause> causes = {
      {{false, false, {}, {}, {}}, "set nativeBinding.enabled of the chart"},
      {{true, false, {}, {}, {}},
       "serves PodGroups in none of the versions v1beta1, v1alpha3, v1alpha2"},
      {{true, false, {}, {}, {std::nullopt, "refused: nobody listens"}},
       "does not say in which versions it serves PodGroups: refused: nobody listens"},
      {{true, false, {}, {}, {PodGroupVersion::kV1Alpha3, ""}},
       "serves scheduling.k8s.io/v1alpha3, but this operator could not list PodGroups"},
  };
  for (const Cause& cause : causes) {
    sight() = cause.sight;
    Step();
    EXPECT_EQ(Reason(), "NativeNotFollowed");
    EXPECT_TRUE(Says(cause.words)) << Why();
    EXPECT_EQ(Places(), "");
  }
}

TEST_F(NativeBinding, JobWaitsAndSaysExactlyWhatIsMissing) {
  sight() = {};
  world_.job.spec.scheduling.timeout = seconds(100);
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(Places(), "");
  EXPECT_EQ(Reason(), "NativeNotFollowed");
  EXPECT_TRUE(Says("nativeBinding.enabled of the chart (the flag --native-binding)")) << Why();
  EXPECT_NE(EventReasons(last_).find("NativeNotFollowed"), std::string::npos);
  sight().is_enabled = true;
  Step();
  EXPECT_TRUE(
      Says("On Kubernetes 1.37, start the API server with "
           "--runtime-config=scheduling.k8s.io/v1beta1=true"))
      << Why();
  EXPECT_TRUE(Says("On 1.36, use --runtime-config=scheduling.k8s.io/v1alpha2=true")) << Why();
  Step();
  EXPECT_EQ(EventReasons(last_), "") << "it is told once";
  world_.Advance(seconds(100));
  Step();
  EXPECT_TRUE(IsTrue(world_.job.status, ConditionType::kFailed));
  EXPECT_NE(MessageOf(world_.job.status, ConditionType::kFailed).find("scheduling.k8s.io"),
            std::string::npos);
}

TEST_F(NativeBinding, EditOfBindingCountsForTheNextGang) {
  Launch();
  world_.job.spec.scheduling.binding = PodBinding::kDirect;
  ++world_.job.metadata.generation;
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(EventReasons(last_), "ManifestChanged");
  world_.Exit("mnist-worker-1", 137);
  EXPECT_EQ(Step(), std::string("delete podgroups/") + kFirstPodGroup);
  world_.FinishDeletions();
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(world_.job.status.pod_group, "");
  ASSERT_NE(world_.Find("mnist-worker-0-a1"), nullptr) << world_.Pods();
  EXPECT_EQ(world_.Find("mnist-worker-0-a1")->spec.node_name, "node-a");
}

TEST_F(NativeBinding, OneMachineHasNoKubeScheduler) {
  sight() = {};
  world_.observed.is_one_machine = true;
  Step();

  EXPECT_EQ(world_.job.status.pod_group, "");
  EXPECT_EQ(world_.Pods(), "mnist-worker-0 mnist-worker-1");
}

}  // namespace
}  // namespace lockstep::control
