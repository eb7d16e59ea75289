#include "operator/scheduler/why.h"

#include <algorithm>
#include <optional>

#include "common/base/plural.h"
#include "operator/scheduler/refusal.h"

namespace lockstep::control {
namespace {

Unschedulable NoSuchLevel(const std::string& level) {
  return {Constraint::kTopology, "no level of the cluster's topology is labelled " + level};
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
      return Unschedulable{
          Constraint::kTopology,
          "needs " + Plural(wanted, gang.classes[c].name + " pod") + " in one " + label +
              (most == 0 ? ", none has room for any"
                         : ", the best, " + best + ", has room for " + std::to_string(most))};
    }
  }
  return std::nullopt;
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

// "; would not fit even a cluster ...": of a gang of which one class alone is more than all nodes
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
    return "; would not fit even a cluster empty of jobs, which has room for " +
           Plural(room, gang.classes[c].name + " pod");
  }
  return "";
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
  if (terms.required == kHostLevel) {
    return {Constraint::kTopology,
            "needs one node for " + Plural(gang.pod_count, "pod") + ", none has room for all"};
  }
  return NoArrangement(gang.classes, /*is_proved=*/!reached_limit);
}

}  // namespace

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
