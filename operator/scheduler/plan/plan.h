#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/copy_on_write.h"
#include "common/base/time.h"
#include "common/base/value_members.h"
#include "operator/resources/node_affinity.h"
#include "operator/resources/resource_vector.h"
#include "operator/resources/toleration.h"

namespace lockstep::control {

enum class NodeState { kOpen, kCordoned, kNotReady };

struct SnapshotNode {
  std::string name;  // unique in the snapshot
  std::map<std::string, std::string> labels;
  std::vector<Taint> taints;  // those that only discourage are left out
  ResourceVector allocatable;
  ResourceVector used;        // by pods that are already there
  int64_t pod_count_max = 0;  // 0: no limit
  int64_t pod_count = 0;      // pods that are already there
  NodeState state = NodeState::kOpen;
  int64_t suspicion = 0;  // pods come to it only where nodes with less have no room

  friend bool operator==(const SnapshotNode&, const SnapshotNode&) = default;
};

// The cluster as one planning pass sees it.
struct Snapshot {
  std::vector<SnapshotNode> nodes;  // any order: the plan depends on names, not on positions
  bool is_one_machine = false;      // refusals then speak of "this machine", not of nodes

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// Pods of a gang that ask for the same, planned in one pass over the nodes.
struct PodClass {
  LOCKSTEP_DECLARE_VALUE_MEMBERS(PodClass);

  std::string name;               // a role, as refusals call it
  std::vector<std::string> pods;  // in the order in which they should fill nodes
  ResourceVector request;         // of each pod
  std::map<std::string, std::string> node_selector;
  std::vector<Toleration> tolerations;
  CopyOnWrite<std::vector<NodeTerm>> node_affinity;  // required; empty: any node

  friend bool operator==(const PodClass&, const PodClass&) = default;
};

// Pods that start together or not at all.
struct Gang {
  std::vector<PodClass> classes;

  friend bool operator==(const Gang&, const Gang&) = default;
};

// A node for every pod of the gang.
struct Plan {
  std::map<std::string, std::string> node_by_pod;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// What stands in the way.
enum class Constraint {
  kNodes,         // no node accepts pods
  kNodeSelector,  // no node carries the labels asked for, or has the affinity that is required
  kTaint,         // nodes that carry them have taints that are not tolerated
  kGpu,
  kMemory,
  kCpu,
  kResource,       // any other: rdma/hca, ephemeral-storage, ...
  kPods,           // nodes take only so many pods
  kFragmentation,  // every class would fit alone, together they do not
  kSearchLimit,    // no arrangement found within the search's limit; one may exist
  kQueue,          // there is room, but an older gang needs it
  kQuota,          // the queue may not hold so much, or what it may take back does not do
  kTopology,       // no domain of the level that is required has room for all
  kPreemption,     // others were asked to go for it, and have not gone yet
  kPriorityClass,  // the priority class that the job names is not there
  kNamespace,      // the queue is not for jobs of this namespace
  kRound,          // no round of scheduling has looked at the gang yet
};

struct Unschedulable {
  Constraint constraint = Constraint::kNodes;
  // A clause with figures, and what keeps other nodes out: "needs 5 GPUs, 3 free on 2 nodes; 1 of 3
  // nodes is cordoned".
  std::string shortfall;
  // When it starts at the latest, or, if so said, is expected to, in whole minutes; null: unknown.
  std::optional<WallTime> estimated_start{};
  // Of a gang that lacks room and would ask autoscalers for it: why it does not; empty: it may.
  std::string not_asked{};

  friend bool operator==(const Unschedulable&, const Unschedulable&) = default;
};

// What a gang is told before a round has an answer for it.
inline Unschedulable AwaitsRound() {
  return {Constraint::kRound, "waits for the next round of scheduling"};
}

using PlanResult = std::variant<Plan, Unschedulable>;

struct PlanOptions {
  // Nodes tried before a gang of different classes is given up with kSearchLimit. Choice: some
  // tens of milliseconds; a gang of one class never searches.
  int64_t search_steps_max = 200'000;
};

// Places the whole gang or refuses it with the constraint that binds.
//
// Packing: nodes under less suspicion come first. A class takes as few of them as possible and
// leaves its last pods on the tightest node that holds them; pods go first to nodes without devices
// that they have no use for. Classes with the largest requests go first.
//
// Exactness: a Plan never overcommits a node. A refusal other than kSearchLimit proves that no
// arrangement exists. kSearchLimit is only possible for gangs of two classes or more.
//
// Determinism: equal input up to the order of nodes gives an equal answer; ties go by name.
// Cost: one pass over the nodes and one sort for each class, plus the search where passes fail.
PlanResult PlanGang(const Snapshot& snapshot, const Gang& gang, const PlanOptions& options = {});

// What the gang needs most of, in all: "8 GPUs", else CPU, else memory, else pods.
std::string DescribeNeed(const Gang& gang);

}  // namespace lockstep::control
