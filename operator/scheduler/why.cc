#include "operator/scheduler/why.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/base/plural.h"
#include "operator/scheduler/placement/placer.h"
#include "operator/scheduler/plan/refusal.h"
#include "operator/scheduler/queue/amount_text.h"

namespace lockstep::control {
namespace {

Unschedulable NoSuchLevel(const std::string& level) {
  return {Constraint::kTopology, "the cluster's topology has no level with the label " + level};
}

using Count = int64_t (ShapeCounts::*)(ShapeIndex, DomainIndex) const;

// The class that the best domain of the required level has no room for, as a sentence; empty where
// each class fits some domain alone.
std::optional<Unschedulable> BrokenByDomain(const NodeLedger& nodes,
                                            const GangRecord& gang,
                                            Count count) {
  const std::string& label = gang.request.topology.required;
  const auto level = nodes.domains().LevelOf(label);
  for (std::size_t c = 0; level && c < gang.classes.size(); ++c) {
    const auto wanted = static_cast<int64_t>(gang.classes[c].pods.size());
    int64_t most = 0;
    std::string best;
    for (const auto& [path, domain] : nodes.domains().At(*level)) {
      const int64_t room = (nodes.shapes().*count)(gang.shapes[c], domain);
      if (room > most) {
        most = room;
        best = path;
      }
    }
    if (most < wanted) {
      return Unschedulable{Constraint::kTopology,
                           "needs " + Plural(wanted, gang.classes[c].name + " pod") + " in one " +
                               label +
                               (most == 0 ? "; none has room for any"
                                          : "; the one with most room, " + best +
                                                ", has room for " + std::to_string(most))};
    }
  }
  return std::nullopt;
}

using Free = const NodeFree& (NodeLedger::*)(NodeIndex) const;

// How many pods of the class the node holds; 0 where it does not let them in.
int64_t RoomOn(const NodeLedger& nodes,
               const GangRecord& gang,
               std::size_t pod_class,
               NodeIndex node,
               Free free) {
  return nodes.is_known(node) && nodes.shapes().Accepts(gang.shapes[pod_class], node)
             ? ShapeCounts::PodsOn((nodes.*free)(node), gang.classes[pod_class].request)
             : 0;
}

// ", with 4 of 8 GPUs": the resource of which so many pods lack most there; empty where it is the
// node's number of pods.
std::string TightestFigures(const ResourceVector& request, int64_t wanted, const NodeFree& room) {
  std::string text;
  int64_t least = std::min(room.pods_free, wanted);
  for (const NamedAmount& one : request.AllWithPorts()) {
    const int64_t found = FreeAmountOf(room.free, one.name);
    if (one.amount > 0 && found / one.amount < least) {
      least = found / one.amount;
      const Figures figures = FiguresOf(one.name, wanted * one.amount, found);
      text = ", with " + figures.found + " of " + figures.needed;
    }
  }
  return text;
}

// The class that the best node has no room for, where all pods are to be on one.
std::optional<Unschedulable> BrokenByHost(const NodeLedger& nodes,
                                          const GangRecord& gang,
                                          Free free) {
  for (std::size_t c = 0; c < gang.classes.size(); ++c) {
    const auto wanted = static_cast<int64_t>(gang.classes[c].pods.size());
    int64_t most = 0;
    NodeIndex best = 0;
    for (const auto& [name, node] : nodes.by_name()) {
      if (const int64_t room = RoomOn(nodes, gang, c, node, free); room > most) {
        most = room;
        best = node;
      }
    }
    if (most > 0 && most < wanted) {
      return Unschedulable{
          Constraint::kTopology,
          "needs " + Plural(wanted, gang.classes[c].name + " pod") + " in one " +
              std::string(kHostLevel) + "; the one with most room, " + nodes.NameOf(best) +
              ", has room for " + std::to_string(most) +
              TightestFigures(gang.classes[c].request, wanted, (nodes.*free)(best))};
    }
  }
  return std::nullopt;
}

// The resource of which no node that lets all classes in has enough for the whole gang.
std::optional<Unschedulable> BrokenByHostSum(const NodeLedger& nodes,
                                             const GangRecord& gang,
                                             Free free) {
  for (const NamedAmount& needed : gang.total.AllWithPorts()) {
    int64_t most = 0;
    std::string best;
    for (const auto& [name, node] : nodes.by_name()) {
      bool holds_each = true;
      for (std::size_t c = 0; c < gang.classes.size(); ++c) {
        holds_each = holds_each && RoomOn(nodes, gang, c, node, free) > 0;
      }
      const int64_t found = FreeAmountOf((nodes.*free)(node).free, needed.name);
      if (holds_each && found > most) {
        most = found;
        best = name;
      }
    }
    if (!best.empty() && most < needed.amount) {
      const Figures figures = FiguresOf(needed.name, needed.amount, most);
      return Unschedulable{Constraint::kTopology,
                           "needs " + figures.needed + " in one " + std::string(kHostLevel) +
                               "; the node with the most, " + best + ", has " + figures.found};
    }
  }
  return std::nullopt;
}

// Where all pods are to be on one node: what the best one lacks; empty where counting does not
// tell.
std::optional<Unschedulable> BrokenByOneHost(const NodeLedger& nodes,
                                             const GangRecord& gang,
                                             Free free) {
  if (gang.request.topology.required != kHostLevel) {
    return std::nullopt;
  }
  auto broken = BrokenByHost(nodes, gang, free);
  return broken ? broken : BrokenByHostSum(nodes, gang, free);
}

// Where pods stand apart: fewer domains than pods could hold one.
std::optional<Unschedulable> BrokenByTooFewDomains(const NodeLedger& nodes,
                                                   const GangRecord& gang) {
  const std::string& label = gang.request.topology.apart;
  const auto level = nodes.domains().LevelOf(label);
  if (!level) {
    return std::nullopt;
  }
  int64_t found = 0;
  for (const auto& [path, domain] : nodes.domains().At(*level)) {
    found +=
        std::any_of(gang.shapes.begin(),
                    gang.shapes.end(),
                    [&](ShapeIndex shape) { return nodes.shapes().FitsEmpty(shape, domain) > 0; })
            ? 1
            : 0;
  }
  if (found >= gang.pod_count) {
    return std::nullopt;
  }
  return Unschedulable{Constraint::kTopology,
                       "needs " + Plural(gang.pod_count, "domain") + " of " + label +
                           " with room for one pod each, " + std::to_string(found) +
                           (found == 1 ? " has" : " have")};
}

// "; the gang would not fit even if ...": of a gang of which one class alone is more than all nodes
// would hold if only strangers held anything of them. Empty of any other, and while some nodes take
// no pods: with these it might.
std::string BeyondClusterText(const NodeLedger& nodes, const GangRecord& gang) {
  for (std::size_t c = 0; c < gang.classes.size(); ++c) {
    const int64_t room = nodes.shapes().FitsEmpty(gang.shapes[c], kWholeCluster);
    if (room == 0 || room >= static_cast<int64_t>(gang.classes[c].pods.size())) {
      continue;
    }
    if (!nodes.Survey(gang.classes, gang.request.topology.apart).closed.empty()) {
      return "";
    }
    return "; the gang would not fit even if the cluster had no other jobs, because it has room "
           "for only " +
           Plural(room, gang.classes[c].name + " pod");
  }
  return "";
}

// Whether a refusal for `constraint` may be for want of the resource.
bool MayBeMissing(Constraint constraint, const std::string& resource) {
  const bool is_other =
      resource != kGpuResource && resource != kMemoryResource && resource != kCpuResource;
  switch (constraint) {
    case Constraint::kGpu:
      return resource == kGpuResource;
    case Constraint::kMemory:
      return resource == kMemoryResource;
    case Constraint::kCpu:
      return resource == kCpuResource;
    case Constraint::kResource:
      return is_other;
    case Constraint::kTopology:
    case Constraint::kFragmentation:
    case Constraint::kSearchLimit:
      return true;
    default:
      return false;
  }
}

// What pods hold of one resource that have no place any more and stay.
struct StuckHolds {
  int64_t amount = 0;
  std::map<std::string, std::set<std::string>> nodes_by_job;
};

// On nodes that the gang may use.
StuckHolds StuckHoldsOf(const ClusterState& state,
                        const GangRecord& gang,
                        const std::string& resource) {
  const NodeLedger& nodes = state.nodes();
  StuckHolds stuck;
  for (const GangRecord* const left : state.RunningIn(kTopQueue)) {
    if (!left->request.queue.starts_with(kOffTheBill)) {
      continue;  // its queue is gone, and it runs
    }
    for (const NodeHold& hold : left->holds) {
      const int64_t amount = hold.usage.resources.AmountOf(resource);
      const bool may_use =
          amount > 0 && nodes.is_known(hold.node) &&
          std::any_of(gang.shapes.begin(), gang.shapes.end(), [&](ShapeIndex shape) {
            return nodes.shapes().Accepts(shape, hold.node);
          });
      if (may_use) {
        stuck.amount += amount;
        // Behind the job's name it says what of the job this is.
        const std::string job = left->request.name.substr(0, left->request.name.find(' '));
        stuck.nodes_by_job[job].insert(nodes.NameOf(hold.node));
      }
    }
  }
  return stuck;
}

// Of a gang that some domain could hold: what it lacks now.
Unschedulable WhyNotNow(const NodeLedger& nodes, const GangRecord& gang, bool reached_limit) {
  const TopologyTerms& terms = gang.request.topology;
  if (auto broken = BrokenBound(nodes.Survey(gang.classes, terms.apart), gang.classes)) {
    if (broken->constraint == Constraint::kTopology) {
      broken->shortfall += " (" + terms.apart + ")";
    }
    return *std::move(broken);
  }
  if (auto broken = BrokenByDomain(nodes, gang, &ShapeCounts::FitsNow)) {
    return *std::move(broken);
  }
  if (auto broken = BrokenByOneHost(nodes, gang, &NodeLedger::FreeNow)) {
    return *std::move(broken);
  }
  if (terms.required == kHostLevel) {
    return {Constraint::kTopology,
            "needs one node for " + Plural(gang.pod_count, "pod") + ", none has room for all"};
  }
  return NoArrangement(gang.classes, /*is_proved=*/!reached_limit);
}

}  // namespace

std::string HeldByStuckPodsText(const ClusterState& state,
                                const GangRecord& gang,
                                Constraint missing) {
  if (!MayFitEmpty(state.nodes(), gang)) {
    return "";
  }
  for (const NamedAmount& needed : gang.total.AllWithPorts()) {
    if (!MayBeMissing(missing, needed.name)) {
      continue;
    }
    const StuckHolds stuck = StuckHoldsOf(state, gang, needed.name);
    if (stuck.amount == 0) {
      continue;
    }
    const auto& [job, nodes] = *stuck.nodes_by_job.begin();
    const auto more_nodes = static_cast<int64_t>(nodes.size()) - 1;
    const auto more_jobs = static_cast<int64_t>(stuck.nodes_by_job.size()) - 1;
    return "; " + AmountIs(needed.name, stuck.amount) + " held by pods that do not end: pods of " +
           job + " on " + *nodes.begin() +
           (more_nodes > 0 ? " and " + Plural(more_nodes, "more node") : "") +
           (more_jobs > 0 ? ", and pods of " + Plural(more_jobs, "more job") : "");
  }
  return "";
}

std::optional<Unschedulable> WhyNoDomain(const NodeLedger& nodes, const GangRecord& gang) {
  const TopologyTerms& terms = gang.request.topology;
  for (const std::string* const label : {&terms.required, &terms.apart}) {
    if (!label->empty() && *label != kHostLevel && !nodes.domains().LevelOf(*label)) {
      return NoSuchLevel(*label);
    }
  }
  auto broken = BrokenByDomain(nodes, gang, &ShapeCounts::FitsEmpty);
  if (!broken) {
    broken = BrokenByTooFewDomains(nodes, gang);
  }
  // With nodes that take no pods now it might fit.
  if (!broken && terms.required == kHostLevel &&
      nodes.Survey(gang.classes, terms.apart).closed.empty()) {
    broken = BrokenByOneHost(nodes, gang, &NodeLedger::FreeOfStrangers);
  }
  if (broken) {
    broken->shortfall += ", even if nothing else ran";
  }
  return broken;
}

Unschedulable WhyNoRoom(const NodeLedger& nodes, const GangRecord& gang, bool reached_limit) {
  if (auto broken = WhyNoDomain(nodes, gang)) {
    return *std::move(broken);
  }
  Unschedulable why = WhyNotNow(nodes, gang, reached_limit);
  why.shortfall += BeyondClusterText(nodes, gang);
  return why;
}

}  // namespace lockstep::control
