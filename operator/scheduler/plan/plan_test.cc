#include "operator/scheduler/plan/plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

// Kubernetes' rule for one toleration, written out once more.
bool IsTolerated(const Taint& taint, const Toleration& toleration) {
  const bool is_effect = toleration.effect == "" || toleration.effect == taint.effect;
  if (toleration.key == "") {
    return is_effect && toleration.is_exists;
  }
  const bool is_value = toleration.is_exists || toleration.value == taint.value;
  return is_effect && toleration.key == taint.key && is_value;
}

bool IsOpenTo(const SnapshotNode& node, const PodClass& pod_class) {
  for (const Taint& taint : node.taints) {
    bool is_tolerated = false;
    for (const Toleration& toleration : pod_class.tolerations) {
      is_tolerated = is_tolerated || IsTolerated(taint, toleration);
    }
    if (!is_tolerated) {
      return false;
    }
  }
  for (const auto& [key, value] : pod_class.node_selector) {
    const auto found = node.labels.find(key);
    if (found == node.labels.end() || found->second != value) {
      return false;
    }
  }
  return node.state == NodeState::kOpen;
}

bool TakeOne(const ResourceVector& request, SnapshotNode* node) {
  node->used = Sum(node->used, request);
  ++node->pod_count;
  return (node->pod_count_max == 0 || node->pod_count <= node->pod_count_max) &&
         Larger(node->used, node->allocatable) == node->allocatable;
}

// The fewest nodes that hold the gang, by trying every node for every pod; empty: none do.
std::optional<int> FewestNodesByBruteForce(const Snapshot& snapshot, const Gang& gang) {
  std::vector<const PodClass*> pods;
  for (const PodClass& pod_class : gang.classes) {
    pods.insert(pods.end(), pod_class.pods.size(), &pod_class);
  }
  std::vector<SnapshotNode> nodes = snapshot.nodes;
  std::optional<int> fewest;
  std::vector<int> pods_on(nodes.size(), 0);
  const std::function<void(std::size_t)> place = [&](std::size_t index) {
    if (index == pods.size()) {
      const auto used = static_cast<int>(
          std::count_if(pods_on.begin(), pods_on.end(), [](int count) { return count > 0; }));
      fewest = std::min(fewest.value_or(used), used);
      return;
    }
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const SnapshotNode before = nodes[n];
      if (IsOpenTo(nodes[n], *pods[index]) && TakeOne(pods[index]->request, &nodes[n])) {
        ++pods_on[n];
        place(index + 1);
        --pods_on[n];
      }
      nodes[n] = before;
    }
  };
  place(0);
  return fewest;
}

// Empty when the plan gives every pod one node that accepts it and overcommits none.
std::string WrongWith(const Plan& plan, const Snapshot& snapshot, const Gang& gang) {
  std::vector<SnapshotNode> nodes = snapshot.nodes;
  std::size_t pod_count = 0;
  for (const PodClass& pod_class : gang.classes) {
    for (const std::string& pod : pod_class.pods) {
      ++pod_count;
      const auto found = plan.node_by_pod.find(pod);
      if (found == plan.node_by_pod.end()) {
        return pod + " has no node";
      }
      SnapshotNode& node = *std::find_if(
          nodes.begin(), nodes.end(), [&](const auto& n) { return n.name == found->second; });
      if (!IsOpenTo(node, pod_class)) {
        return node.name + " does not accept " + pod;
      }
      if (!TakeOne(pod_class.request, &node)) {
        return node.name + " is overcommitted";
      }
    }
  }
  return plan.node_by_pod.size() == pod_count ? "" : "the plan names pods the gang lacks";
}

// Holds PlanGang against brute force for one input.
void ExpectExact(const Snapshot& snapshot, const Gang& gang) {
  const PlanResult result = PlanGang(snapshot, gang);
  const std::optional<int> fewest = FewestNodesByBruteForce(snapshot, gang);
  if (const auto* plan = std::get_if<Plan>(&result)) {
    ASSERT_EQ(WrongWith(*plan, snapshot, gang), "") << Show(result);
    return;
  }
  ASSERT_FALSE(fewest.has_value()) << Show(result);
  ASSERT_NE(std::get<Unschedulable>(result).constraint, Constraint::kSearchLimit);
  ASSERT_FALSE(std::get<Unschedulable>(result).shortfall.empty());
}

TEST(PlanGang, RolesThatFitAloneButNotTogetherAreFragmentation) {
  const Snapshot snapshot{{MakeNode("a", {3000, 0, 0}), MakeNode("b", {3000, 0, 0})}, false};
  const Gang gang{{MakeClass("worker", 2, {2000, 0, 0}), MakeClass("ps", 1, {1500, 0, 0})}};

  EXPECT_EQ(Show(PlanGang(snapshot, gang)),
            "fragmentation: needs 2 worker pods and 1 ps pod at once, each role fits alone, but "
            "they do not fit together");
}

// Every toleration of a small world against every taint.
TEST(PlanGang, TolerationsOpenExactlyTheNodesThatKubernetesWouldOpen) {
  int open = 0;
  int closed = 0;
  for (const std::string taint_effect : {"NoSchedule", "NoExecute"}) {
    for (const std::string key : {"", "gpu", "disk"}) {
      for (const std::string value : {"", "a", "b"}) {
        for (const std::string effect : {"", "NoSchedule", "NoExecute"}) {
          for (const bool is_exists : {false, true}) {
            SnapshotNode node = MakeNode("n", {1000, 0, 0});
            node.taints = {{"gpu", "a", taint_effect}};
            PodClass worker = MakeClass("worker", 1, {});
            worker.tolerations = {{"other", true, "", ""}, {key, is_exists, value, effect}};
            const bool is_open = IsTolerated(node.taints[0], worker.tolerations[1]);

            const PlanResult result = PlanGang({{node}, false}, {{worker}});

            EXPECT_EQ(std::holds_alternative<Plan>(result), is_open)
                << taint_effect << " " << key << " " << value << " " << effect << is_exists;
            ++(is_open ? open : closed);
          }
        }
      }
    }
  }
  EXPECT_GT(open, 10);
  EXPECT_GT(closed, 10);
}

TEST(PlanGang, LimitOfPodsSpreadsAGangThatOneNodeCouldHold) {
  SnapshotNode small = MakeNode("a", {8000, 0, 0});
  small.pod_count_max = 110;
  small.pod_count = 109;
  const Snapshot snapshot{{small, MakeNode("b", {1000, 0, 0})}, false};

  EXPECT_EQ(Show(PlanGang(snapshot, {{MakeClass("w", 2, {1000, 0, 0})}})), "w-0@a w-1@b ");
}

TEST(PlanGang, EmptyGangNeedsNothing) {
  EXPECT_EQ(Show(PlanGang({}, {})), "");
}

TEST(PlanGang, GangTakesFewestNodesAndLeavesTheRestOnTheTightest) {
  const Snapshot snapshot{{MakeNode("big-a", {0, 0, 8}),
                           MakeNode("big-b", {0, 0, 8}),
                           MakeNode("small", {0, 0, 2}),
                           MakeNode("tiny", {0, 0, 1})},
                          false};

  EXPECT_EQ(Show(PlanGang(snapshot, {{MakeClass("w", 1, {0, 0, 1})}})), "w-0@tiny ");
  EXPECT_EQ(Show(PlanGang(snapshot, {{MakeClass("w", 2, {0, 0, 1})}})), "w-0@small w-1@small ");
  EXPECT_EQ(Show(PlanGang(snapshot, {{MakeClass("w", 3, {0, 0, 3})}})),
            "w-0@big-a w-1@big-a w-2@big-b ");
}

TEST(PlanGang, PodsWithoutGpusStayOffGpuNodesWhileTheyCan) {
  const Snapshot snapshot{{MakeNode("cpu", {1000, 0, 0}), MakeNode("gpu", {8000, 0, 4})}, false};

  EXPECT_EQ(Show(PlanGang(snapshot, {{MakeClass("w", 2, {1000, 0, 0})}})), "w-0@cpu w-1@gpu ");
}

TEST(PlanGang, ChiefAndWorkersThatAskForTheSameFillNodesInRankOrder) {
  const Snapshot snapshot{{MakeNode("a", {0, 0, 2}), MakeNode("b", {0, 0, 2})}, false};
  const Gang gang{{MakeClass("chief", 1, {0, 0, 1}), MakeClass("worker", 3, {0, 0, 1})}};

  EXPECT_EQ(Show(PlanGang(snapshot, gang)), "chief-0@a worker-0@a worker-1@b worker-2@b ");
}

TEST(PlanGang, SearchRevisesAPackingThatBlocksALaterClass) {
  // Packing puts the worker on the tighter "a", the only node that the reader accepts.
  SnapshotNode a = MakeNode("a", {1000, 0, 1});
  a.labels = {{"disk", "fast"}};
  const Snapshot snapshot{{a, MakeNode("b", {2000, 0, 1})}, false};
  PodClass reader = MakeClass("reader", 1, {1000, 0, 0});
  reader.node_selector = {{"disk", "fast"}};
  const Gang gang{{MakeClass("worker", 1, {1000, 0, 1}), reader}};

  EXPECT_EQ(Show(PlanGang(snapshot, gang)), "reader-0@a worker-0@b ");
}

TEST(PlanGang, SearchGivesUpAtItsLimitAndSaysSo) {
  const Snapshot snapshot{{MakeNode("a", {3000, 0, 0}), MakeNode("b", {3000, 0, 0})}, false};
  const Gang gang{{MakeClass("worker", 2, {2000, 0, 0}), MakeClass("ps", 1, {1500, 0, 0})}};
  PlanOptions options;
  options.search_steps_max = 1;

  EXPECT_EQ(std::get<Unschedulable>(PlanGang(snapshot, gang, options)).constraint,
            Constraint::kSearchLimit);
}

TEST(PlanGang, HugeRequestsDoNotOverflow) {
  const Snapshot snapshot{{MakeNode("a", {8000, kGiB, 8}), MakeNode("b", {8000, kGiB, 8})}, true};
  const Gang gang{{MakeClass("w", 3, {0, std::numeric_limits<int64_t>::max() / 2, 0})}};

  EXPECT_EQ(std::get<Unschedulable>(PlanGang(snapshot, gang)).constraint, Constraint::kMemory);
}

// Every cluster of up to three nodes with 0..2 GPUs and 1..2 cores, every gang of two classes with
// up to two pods each.
TEST(PlanGang, PlanExistsExactlyWhereBruteForceFindsOne) {
  std::vector<ResourceVector> shapes;
  for (int gpu = 0; gpu <= 2; ++gpu) {
    for (int cpu = 1; cpu <= 2; ++cpu) {
      shapes.push_back({cpu, 0, gpu});
    }
  }
  std::vector<Snapshot> clusters;
  for (std::size_t a = 0; a < shapes.size(); ++a) {
    clusters.push_back({{MakeNode("a", shapes[a])}, false});
    for (std::size_t b = a; b < shapes.size(); ++b) {
      clusters.push_back({{MakeNode("a", shapes[a]), MakeNode("b", shapes[b])}, false});
      for (std::size_t c = b; c < shapes.size(); ++c) {
        clusters.push_back(
            {{MakeNode("a", shapes[a]), MakeNode("b", shapes[b]), MakeNode("c", shapes[c])},
             false});
      }
    }
  }
  std::vector<PodClass> firsts;
  std::vector<PodClass> second_classes;
  for (int count = 1; count <= 2; ++count) {
    for (int gpu = 0; gpu <= 2; ++gpu) {
      for (int cpu = 0; cpu <= 2; ++cpu) {
        firsts.push_back(MakeClass("p", count, {cpu, 0, gpu}));
        second_classes.push_back(MakeClass("q", count, {cpu, 0, gpu}));
      }
    }
  }
  int planned = 0;
  int refused = 0;
  for (const Snapshot& cluster : clusters) {
    for (const PodClass& first : firsts) {
      ASSERT_NO_FATAL_FAILURE(ExpectExact(cluster, {{first}}));
      for (const PodClass& second : second_classes) {
        const Gang gang{{first, second}};
        ASSERT_NO_FATAL_FAILURE(ExpectExact(cluster, gang));
        std::holds_alternative<Plan>(PlanGang(cluster, gang)) ? ++planned : ++refused;
      }
    }
  }
  EXPECT_GT(planned, 1000);  // both answers are well represented, or the comparison says little
  EXPECT_GT(refused, 1000);
}

TEST(PlanGang, OneClassTakesTheFewestNodesBruteForceFinds) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Prng prng(seed);
    Snapshot snapshot;
    for (int i = 0; i < 4; ++i) {
      snapshot.nodes.push_back(
          MakeNode(std::string(1, static_cast<char>('a' + i)),
                   {static_cast<int64_t>(prng.Below(6)), 0, static_cast<int64_t>(prng.Below(6))}));
    }
    const Gang gang{{MakeClass(
        "w",
        1 + static_cast<int>(prng.Below(5)),
        {static_cast<int64_t>(prng.Below(3)), 0, 1 + static_cast<int64_t>(prng.Below(2))})}};
    const PlanResult result = PlanGang(snapshot, gang);
    const std::optional<int> fewest = FewestNodesByBruteForce(snapshot, gang);
    const auto* plan = std::get_if<Plan>(&result);
    ASSERT_EQ(plan != nullptr, fewest.has_value()) << "seed " << seed;
    if (plan != nullptr) {
      std::set<std::string> nodes;
      for (const auto& [pod, node] : plan->node_by_pod) {
        nodes.insert(node);
      }
      ASSERT_EQ(static_cast<int>(nodes.size()), *fewest) << "seed " << seed << ": " << Show(result);
    }
  }
}

// A cluster and a gang of three classes with labels, taints, limits of pods, cordoned nodes and
// nodes in use.
std::pair<Snapshot, Gang> RandomCase(uint64_t seed) {
  Prng prng(seed);
  const auto amount = [&](uint64_t bound) { return static_cast<int64_t>(prng.Below(bound)); };
  Snapshot snapshot;
  const int64_t node_count = 1 + amount(3);
  for (int64_t i = 0; i < node_count; ++i) {
    const ResourceVector used{amount(2), amount(2), amount(2)};
    SnapshotNode node = MakeNode(
        std::string(1, static_cast<char>('a' + i)),
        {used.cpu_milli + amount(4), used.memory_bytes + amount(4), used.gpu_count + amount(3)},
        used);
    node.labels = {{"zone", prng.Below(2) == 0 ? "east" : "west"}};
    node.state = prng.Below(8) != 0 ? NodeState::kOpen : NodeState::kCordoned;
    if (prng.Below(4) == 0) {
      node.taints = {{"gpu", "", "NoSchedule"}};
    }
    if (prng.Below(4) == 0) {
      node.pod_count = amount(2);
      node.pod_count_max = node.pod_count + amount(3) + 1;
    }
    snapshot.nodes.push_back(node);
  }
  Gang gang;
  for (const char* name : {"chief", "worker", "ps"}) {
    PodClass pod_class =
        MakeClass(name, static_cast<int>(prng.Below(3)), {amount(3), amount(3), amount(2)});
    if (prng.Below(3) == 0) {
      pod_class.node_selector = {{"zone", "east"}};
    }
    if (prng.Below(3) == 0) {
      pod_class.tolerations = {{"gpu", true, "", ""}};
    }
    gang.classes.push_back(pod_class);
  }
  return {snapshot, gang};
}

TEST(PlanGang, ThreeClassesWithAllConstraintsAgreeWithBruteForce) {
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    const auto [snapshot, gang] = RandomCase(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_NO_FATAL_FAILURE(ExpectExact(snapshot, gang));
  }
}

TEST(PlanGang, OrderOfNodesDoesNotChangeOneByteOfTheAnswer) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    auto [snapshot, gang] = RandomCase(seed);
    const std::string first = Show(PlanGang(snapshot, gang));
    std::reverse(snapshot.nodes.begin(), snapshot.nodes.end());
    ASSERT_EQ(Show(PlanGang(snapshot, gang)), first) << "seed " << seed;
    std::rotate(snapshot.nodes.begin(), snapshot.nodes.begin() + 1, snapshot.nodes.end());
    ASSERT_EQ(Show(PlanGang(snapshot, gang)), first) << "seed " << seed;
  }
}

TEST(PlanGang, ThousandNodesAndPodsTakeOnePass) {
  Snapshot snapshot;
  for (int i = 0; i < 1000; ++i) {
    snapshot.nodes.push_back(MakeNode("node-" + std::to_string(i), {64000, 512 * kGiB, 8}));
  }
  const Gang gang{{MakeClass("worker", 4000, {1000, kGiB, 2})}};

  const PlanResult result = PlanGang(snapshot, gang);

  ASSERT_TRUE(std::holds_alternative<Plan>(result));
  EXPECT_EQ(WrongWith(std::get<Plan>(result), snapshot, gang), "");
}

TEST(PlanGang, PodsThatTakeAPortOfTheirNodeStandApart) {
  Snapshot snapshot;
  for (const char* name : {"a", "b", "c"}) {
    snapshot.nodes.push_back(MakeNode(name, {8000, 8 * kGiB, 0}));
  }
  snapshot.nodes[0].used.Set(HostPortResource(80), 1);
  PodClass worker = MakeClass("worker", 2, {1000, kGiB, 0});
  worker.request.Set(HostPortResource(80), 1);
  EXPECT_EQ(Show(PlanGang(snapshot, {{worker}})), "worker-0@b worker-1@c ");
  worker = MakeClass("worker", 3, {1000, kGiB, 0});
  worker.request.Set(HostPortResource(80), 1);
  EXPECT_EQ(Show(PlanGang(snapshot, {{worker}})),
            "resource: needs 3 hostPort:80, 2 free on 2 nodes");
  snapshot.is_one_machine = true;
  snapshot.nodes = {MakeNode("laptop", {8000, 8 * kGiB, 0})};
  EXPECT_EQ(Show(PlanGang(snapshot, {{worker}})),
            "worker-0@laptop worker-1@laptop worker-2@laptop ");
}

TEST(PlanGang, ResourcesOfAnyNameArePlanned) {
  Snapshot snapshot;
  for (const char* name : {"a", "b", "c"}) {
    snapshot.nodes.push_back(MakeNode(name, {8000, 8 * kGiB, 0}));
    snapshot.nodes.back().allocatable.Set("rdma/hca", 2);
  }
  snapshot.nodes[0].allocatable.Set("rdma/hca", 0);
  snapshot.nodes[1].used.Set("rdma/hca", 1);
  PodClass worker = MakeClass("worker", 3, {1000, kGiB, 0});
  EXPECT_EQ(Show(PlanGang(snapshot, {{worker}})), "worker-0@a worker-1@a worker-2@a ")
      << "a pod without use for devices leaves them to others";

  worker.request.Set("rdma/hca", 1);
  EXPECT_EQ(Show(PlanGang(snapshot, {{worker}})), "worker-0@b worker-1@c worker-2@c ");

  worker.request.Set("rdma/hca", 2);
  EXPECT_EQ(Show(PlanGang(snapshot, {{worker}})), "resource: needs 6 rdma/hca, 3 free on 2 nodes");
  worker.request.Set("amd.com/gpu", 1);
  EXPECT_EQ(Show(PlanGang(snapshot, {{worker}})),
            "resource: worker needs 1 amd.com/gpu, the largest node offers 0");
  worker.request = {};
  worker.request.Set("ephemeral-storage", 10 * kGiB);
  EXPECT_EQ(Show(PlanGang(snapshot, {{worker}})),
            "resource: worker needs 10 GiB ephemeral-storage, the largest node offers 0");
}

TEST(PlanGang, SuspectNodesComeLast) {
  Snapshot snapshot;
  for (const char* name : {"a", "b", "c"}) {
    snapshot.nodes.push_back(MakeNode(name, {2000, kGiB, 0}));
  }
  snapshot.nodes[0].suspicion = 1;
  snapshot.nodes[1].suspicion = 2;
  EXPECT_EQ(Show(PlanGang(snapshot, {{MakeClass("w", 2, {1000, 0, 0})}})), "w-0@c w-1@c ");
  EXPECT_EQ(Show(PlanGang(snapshot, {{MakeClass("w", 3, {1000, 0, 0})}})), "w-0@a w-1@c w-2@c ");
  EXPECT_EQ(Show(PlanGang(snapshot, {{MakeClass("w", 5, {1000, 0, 0})}})),
            "w-0@a w-1@a w-2@b w-3@c w-4@c ");
}

TEST(PlanGang, NodesMustHaveTheRequiredAffinity) {
  Snapshot snapshot;
  for (const char* name : {"a", "b", "c"}) {
    snapshot.nodes.push_back(MakeNode(name, {4000, kGiB, 0}));
    snapshot.nodes.back().labels["zone"] = name == std::string("c") ? "west" : "east";
  }
  PodClass worker = MakeClass("w", 1, {1000, 0, 0});
  worker.node_affinity = std::vector<NodeTerm>{
      {{{"zone", NodeOperator::kIn, {"east"}}}, {{"metadata.name", NodeOperator::kNotIn, {"a"}}}}};
  EXPECT_EQ(Show(PlanGang(snapshot, {{worker}})), "w-0@b ");
  worker.node_affinity = std::vector<NodeTerm>{{{{"zone", NodeOperator::kIn, {"north"}}}, {}}};
  EXPECT_EQ(Show(PlanGang(snapshot, {{worker}})),
            "node_selector: w needs a node matching zone In (north), none of 3 nodes is");
}

}  // namespace
}  // namespace lockstep::control
