#include "operator/scheduler/plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "common/base/prng.h"

namespace lockstep::control {
namespace {

constexpr int64_t kGiB = 1024LL * 1024 * 1024;

SnapshotNode MakeNode(const std::string& name, Resources allocatable, Resources used = {}) {
  SnapshotNode node;
  node.name = name;
  node.allocatable = allocatable;
  node.used = used;
  return node;
}

PodClass MakeClass(const std::string& name, int count, Resources request) {
  PodClass pod_class;
  pod_class.name = name;
  pod_class.request = request;
  for (int i = 0; i < count; ++i) {
    pod_class.pods.push_back(name + "-" + std::to_string(i));
  }
  return pod_class;
}

// The plan or the refusal as one line, for comparison and messages.
std::string Show(const PlanResult& result) {
  std::ostringstream out;
  if (const auto* plan = std::get_if<Plan>(&result)) {
    for (const auto& [pod, node] : plan->node_by_pod) {
      out << pod << "@" << node << " ";
    }
  } else {
    const auto& refusal = std::get<Unschedulable>(result);
    out << ConstraintName(refusal.constraint) << ": " << refusal.shortfall;
  }
  return out.str();
}

bool Accepts(const SnapshotNode& node, const PodClass& pod_class) {
  for (const auto& [key, value] : pod_class.node_selector) {
    const auto found = node.labels.find(key);
    if (found == node.labels.end() || found->second != value) {
      return false;
    }
  }
  return node.is_schedulable;
}

bool TakeOne(const Resources& request, SnapshotNode* node) {
  node->used.cpu_milli += request.cpu_milli;
  node->used.memory_bytes += request.memory_bytes;
  node->used.gpu_count += request.gpu_count;
  return node->used.cpu_milli <= node->allocatable.cpu_milli &&
         node->used.memory_bytes <= node->allocatable.memory_bytes &&
         node->used.gpu_count <= node->allocatable.gpu_count;
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
      if (Accepts(nodes[n], *pods[index]) && TakeOne(pods[index]->request, &nodes[n])) {
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
      if (!Accepts(node, pod_class)) {
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

struct RefusalCase {
  std::string what;
  Snapshot snapshot;
  Gang gang;
  std::string expected;
};

std::vector<RefusalCase> RefusalCases() {
  const SnapshotNode laptop = MakeNode("laptop", {8000, 16 * kGiB, 0});
  SnapshotNode cordoned = MakeNode("a", {8000, 16 * kGiB, 8});
  cordoned.is_schedulable = false;
  const SnapshotNode two_gpus = MakeNode("a", {8000, 24 * kGiB, 2});
  const SnapshotNode one_free = MakeNode("b", {8000, 24 * kGiB, 2}, {0, 0, 1});
  PodClass zoned = MakeClass("worker", 1, {});
  zoned.node_selector = {{"zone", "east"}};
  return {
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
      {"sum of GPUs",
       {{two_gpus, one_free}, false},
       {{MakeClass("worker", 5, {0, 0, 1})}},
       "gpu: needs 5 GPUs, 3 free on 2 nodes"},
      {"largest node",
       {{two_gpus, one_free}, false},
       {{MakeClass("worker", 1, {0, 64 * kGiB, 0})}},
       "memory: worker needs 64 GiB memory, the largest node offers 24 GiB"},
      {"largest node in use",
       {{one_free}, false},
       {{MakeClass("worker", 1, {0, 0, 2})}},
       "gpu: worker needs 2 GPUs on one node, at most 1 is free"},
      {"stranded GPUs",
       {{MakeNode("a", {8000, 0, 3}), MakeNode("b", {8000, 0, 3})}, false},
       {{MakeClass("worker", 3, {0, 0, 2})}},
       "gpu: needs 3 worker pods of 2 GPUs each, room for 2 on 2 nodes"},
      {"labels",
       {{two_gpus, one_free}, false},
       {{zoned}},
       "node_selector: worker needs a node labelled zone=east, none of 2 nodes is"},
      {"cordoned",
       {{cordoned}, false},
       {{MakeClass("worker", 1, {})}},
       "nodes: none of 1 node accepts pods"},
  };
}

TEST(PlanGang, RefusalNamesTheConstraintAndTheShortfall) {
  for (const RefusalCase& refusal : RefusalCases()) {
    EXPECT_EQ(Show(PlanGang(refusal.snapshot, refusal.gang)), refusal.expected) << refusal.what;
  }
}

TEST(PlanGang, RolesThatFitAloneButNotTogetherAreFragmentation) {
  const Snapshot snapshot{{MakeNode("a", {3000, 0, 0}), MakeNode("b", {3000, 0, 0})}, false};
  const Gang gang{{MakeClass("worker", 2, {2000, 0, 0}), MakeClass("ps", 1, {1500, 0, 0})}};

  EXPECT_EQ(Show(PlanGang(snapshot, gang)),
            "fragmentation: needs 2 worker pods and 1 ps pod at once, each role fits alone but "
            "not all together");
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
  std::vector<Resources> shapes;
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
  std::vector<PodClass> seconds;
  for (int count = 1; count <= 2; ++count) {
    for (int gpu = 0; gpu <= 2; ++gpu) {
      for (int cpu = 0; cpu <= 2; ++cpu) {
        firsts.push_back(MakeClass("p", count, {cpu, 0, gpu}));
        seconds.push_back(MakeClass("q", count, {cpu, 0, gpu}));
      }
    }
  }
  int planned = 0;
  int refused = 0;
  for (const Snapshot& cluster : clusters) {
    for (const PodClass& first : firsts) {
      ASSERT_NO_FATAL_FAILURE(ExpectExact(cluster, {{first}}));
      for (const PodClass& second : seconds) {
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

// A cluster and a gang of three classes with labels, cordoned nodes and nodes in use.
std::pair<Snapshot, Gang> RandomCase(uint64_t seed) {
  Prng prng(seed);
  const auto amount = [&](uint64_t bound) { return static_cast<int64_t>(prng.Below(bound)); };
  Snapshot snapshot;
  const int64_t node_count = 1 + amount(3);
  for (int64_t i = 0; i < node_count; ++i) {
    const Resources used{amount(2), amount(2), amount(2)};
    SnapshotNode node = MakeNode(
        std::string(1, static_cast<char>('a' + i)),
        {used.cpu_milli + amount(4), used.memory_bytes + amount(4), used.gpu_count + amount(3)},
        used);
    node.labels = {{"zone", prng.Below(2) == 0 ? "east" : "west"}};
    node.is_schedulable = prng.Below(8) != 0;
    snapshot.nodes.push_back(node);
  }
  Gang gang;
  for (const char* name : {"chief", "worker", "ps"}) {
    PodClass pod_class =
        MakeClass(name, static_cast<int>(prng.Below(3)), {amount(3), amount(3), amount(2)});
    if (prng.Below(3) == 0) {
      pod_class.node_selector = {{"zone", "east"}};
    }
    gang.classes.push_back(pod_class);
  }
  return {snapshot, gang};
}

TEST(PlanGang, ThreeClassesWithLabelsAgreeWithBruteForce) {
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

}  // namespace
}  // namespace lockstep::control
