#include <gtest/gtest.h>

#include "operator/scheduler/plan/plan.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

struct RefusalCase {
  std::string what;
  Snapshot snapshot;
  Gang gang;
  std::string expected;
};

void ExpectRefusals(const std::vector<RefusalCase>& cases) {
  for (const RefusalCase& refusal : cases) {
    EXPECT_EQ(Show(PlanGang(refusal.snapshot, refusal.gang)), refusal.expected) << refusal.what;
  }
}

SnapshotNode InState(SnapshotNode node, NodeState state) {
  node.state = state;
  return node;
}

SnapshotNode Tainted(SnapshotNode node) {
  node.taints = {{"gpu", "a100", "NoSchedule"}};
  return node;
}

SnapshotNode InTheEast(SnapshotNode node) {
  node.labels = {{"zone", "east"}};
  return node;
}

// Room for one more pod.
SnapshotNode NearlyFull(SnapshotNode node) {
  node.pod_count_max = 3;
  node.pod_count = 2;
  return node;
}

PodClass ForTheEast(PodClass pod_class) {
  pod_class.node_selector = {{"zone", "east"}};
  return pod_class;
}

const SnapshotNode kTwoGpus = MakeNode("a", {8000, 24 * kGiB, 2});
const SnapshotNode kOneFree = MakeNode("b", {8000, 24 * kGiB, 2}, {0, 0, 1});

TEST(PlanRefusal, OneMachineIsSpokenOfAsThisMachine) {
  const SnapshotNode laptop = MakeNode("laptop", {8000, 16 * kGiB, 0});
  ExpectRefusals({
      {"one machine without GPUs",
       {{laptop}, true},
       {{MakeClass("worker", 3, {0, 0, 1})}},
       "gpu: needs 3 GPUs, this machine has 0"},
      {"one machine, one GPU",
       {{laptop}, true},
       {{MakeClass("worker", 1, {0, 0, 1})}},
       "gpu: needs 1 GPU, this machine has 0"},
      {"one machine, memory",
       {{laptop}, true},
       {{MakeClass("worker", 3, {0, 8 * kGiB, 0})}},
       "memory: needs 24 GiB memory, this machine has 16 GiB"},
      {"one machine, CPU in use",
       {{MakeNode("laptop", {8000, kGiB, 0}, {6000, 0, 0})}, true},
       {{MakeClass("worker", 5, {500, 0, 0})}},
       "cpu: needs 2.5 CPU, 2 free on this machine"},
      {"one machine, nearly enough memory is not shown as equal",
       {{MakeNode("laptop", {8000, 16 * kGiB, 0}, {0, 0, 0})}, true},
       {{MakeClass("worker", 1, {0, 16 * kGiB + 1, 0})}},
       "memory: needs 17179869185 bytes memory, this machine has 17179869184 bytes"},
  });
}

TEST(PlanRefusal, AmountsNameTheConstraintAndTheShortfall) {
  SnapshotNode second = kOneFree;
  second.name = "second";
  SnapshotNode full = kOneFree;
  full.used = full.allocatable;
  ExpectRefusals({
      {"sum of GPUs",
       {{kTwoGpus, kOneFree}, false},
       {{MakeClass("worker", 5, {0, 0, 1})}},
       "gpu: needs 5 GPUs, 3 free on 2 nodes"},
      {"largest node",
       {{kTwoGpus, kOneFree}, false},
       {{MakeClass("worker", 1, {0, 64 * kGiB, 0})}},
       "memory: worker needs 64 GiB memory, the largest node offers 24 GiB"},
      {"no GPU free: the need is named as when some are",
       {{full}, false},
       {{MakeClass("worker", 5, {0, 0, 1})}},
       "gpu: needs 5 GPUs, 0 free on 1 node"},
      {"largest node in use",
       {{kOneFree, second}, false},
       {{MakeClass("worker", 1, {0, 0, 2})}},
       "gpu: worker needs 2 GPUs on one node, at most 1 is free"},
      {"stranded GPUs",
       {{MakeNode("a", {8000, 0, 3}), MakeNode("b", {8000, 0, 3})}, false},
       {{MakeClass("worker", 3, {0, 0, 2})}},
       "gpu: needs 3 worker pods of 2 GPUs each, room for 2 on 2 nodes"},
  });
}

TEST(PlanRefusal, NodesThatDoNotCountAreCountedByTheirReason) {
  const SnapshotNode big = MakeNode("c", {8000, 16 * kGiB, 8});
  const SnapshotNode cordoned = InState(big, NodeState::kCordoned);
  SnapshotNode lost = InState(big, NodeState::kNotReady);
  lost.name = "d";
  SnapshotNode tainted = Tainted(big);
  tainted.name = "e";
  const PodClass zoned = ForTheEast(MakeClass("worker", 1, {}));
  ExpectRefusals({
      {"labels",
       {{kTwoGpus, kOneFree}, false},
       {{zoned}},
       "node_selector: worker needs a node labelled zone=east, none of 2 nodes is"},
      {"cordoned where it wants to be",
       {{kTwoGpus, InTheEast(cordoned)}, false},
       {{zoned}},
       "node_selector: worker needs a node labelled zone=east, none of 1 node is; 1 more node is, "
       "but is cordoned"},
      {"cordoned",
       {{cordoned}, false},
       {{MakeClass("worker", 1, {})}},
       "nodes: no node accepts pods: 1 of 1 node is cordoned"},
      {"nodes closed for several reasons",
       {{cordoned, lost}, false},
       {{MakeClass("worker", 1, {})}},
       "nodes: no node accepts pods: 1 of 2 nodes is not ready, 1 is cordoned"},
      {"no nodes", {{}, false}, {{MakeClass("worker", 1, {})}}, "nodes: the cluster has no nodes"},
      {"taint that is not tolerated",
       {{tainted, cordoned}, false},
       {{MakeClass("worker", 1, {})}},
       "taint: no node accepts pods of role worker: 1 of 2 nodes is cordoned, 1 has taint "
       "gpu=a100:NoSchedule that is not tolerated"},
      {"labels on a tainted node only",
       {{InTheEast(tainted), kOneFree}, false},
       {{zoned}},
       "taint: no node accepts pods of role worker: 1 of 2 nodes has taint gpu=a100:NoSchedule "
       "that is not tolerated, 1 is not labelled zone=east"},
      {"sum of GPUs beside nodes that do not count",
       {{kTwoGpus, kOneFree, tainted, lost}, false},
       {{MakeClass("worker", 5, {0, 0, 1})}},
       "gpu: needs 5 GPUs, 3 free on 2 nodes; 1 of 4 nodes is not ready, 1 has taint "
       "gpu=a100:NoSchedule that is not tolerated"},
  });
}

TEST(PlanRefusal, LimitOfPodsIsNamed) {
  const SnapshotNode full = NearlyFull(MakeNode("e", {8000, 16 * kGiB, 0}));
  SnapshotNode full_too = full;
  full_too.name = "f";
  ExpectRefusals({
      {"limit of pods",
       {{full, full_too}, false},
       {{MakeClass("worker", 3, {})}},
       "pods: needs 3 pods, but the limit of pods per node leaves room for only 2 more in total on "
       "2 nodes"},
      {"limit of pods where a class may go",
       {{InTheEast(full), kTwoGpus}, false},
       {{ForTheEast(MakeClass("worker", 2, {})), MakeClass("ps", 1, {1000, 0, 0})}},
       "pods: needs 2 worker pods, the limit of pods per node leaves room for 1 on 2 nodes"},
  });
}

}  // namespace
}  // namespace lockstep::control
