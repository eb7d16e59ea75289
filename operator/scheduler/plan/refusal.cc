#include "operator/scheduler/plan/refusal.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "common/base/plural.h"
#include "common/base/saturating.h"
#include "operator/scheduler/queue/amount_text.h"

namespace lockstep::control {
namespace {

// Every resource that some class asks for, the scarcest and most telling first.
std::vector<std::string> ResourcesOf(const std::vector<PodClass>& classes) {
  ResourceVector all;
  for (const PodClass& pod_class : classes) {
    all = Larger(all, pod_class.request);
  }
  std::vector<std::string> names;
  for (NamedAmount& amount : all.AllWithPorts()) {
    names.push_back(std::move(amount.name));
  }
  return names;
}

Constraint ConstraintOf(const std::string& resource) {
  if (resource == kGpuResource) {
    return Constraint::kGpu;
  }
  if (resource == kMemoryResource) {
    return Constraint::kMemory;
  }
  return resource == kCpuResource ? Constraint::kCpu : Constraint::kResource;
}

// "labelled disk=ssd", "matching zone In (a)", or both: what the class requires of a node.
std::string SelectorText(const PodClass& pod_class) {
  std::string text;
  for (const auto& [key, value] : pod_class.node_selector) {
    text += (text.empty() ? "labelled " : ", ") + key + "=" + value;
  }
  if (!pod_class.node_affinity->empty()) {
    text +=
        (text.empty() ? "matching " : " and matching ") + DescribeTerms(*pod_class.node_affinity);
  }
  return text;
}

std::string TaintText(const Taint& taint) {
  return taint.key + (taint.value.empty() ? "" : "=" + taint.value) + ":" + taint.effect;
}

// Why a node is open to none of the classes, as it is said of one node and of several.
struct Closure {
  int rank = 0;  // order of mention
  std::string of_one;
  std::string of_several;

  friend auto operator<=>(const Closure&, const Closure&) = default;
};

// Empty where some class may use the node.
std::optional<Closure> ClosureOf(const SnapshotNode& node, const std::vector<PodClass>& classes) {
  if (node.state == NodeState::kNotReady) {
    return Closure{0, "is not ready", "are not ready"};
  }
  if (node.state == NodeState::kCordoned) {
    return Closure{1, "is cordoned", "are cordoned"};
  }
  const bool is_open = std::any_of(classes.begin(), classes.end(), [&](const PodClass& pod_class) {
    return Accepts(node, pod_class);
  });
  if (is_open || classes.empty()) {
    return std::nullopt;
  }
  for (const PodClass& pod_class : classes) {
    if (MatchesSelector(node, pod_class)) {
      const std::string what = "taint " +
                               TaintText(*UntoleratedTaint(node.taints, pod_class.tolerations)) +
                               " that is not tolerated";
      return Closure{2, "has " + what, "have " + what};
    }
  }
  const std::string labels = "not " + SelectorText(classes.front());
  return Closure{3, "is " + labels, "are " + labels};
}

// "2 of 3 nodes have taint x:NoSchedule that is not tolerated, 1 is cordoned": nodes that no class
// may use; empty when there are none.
std::string ClosedText(const RoomSurvey& survey, const std::vector<PodClass>& classes) {
  constexpr std::size_t kReasonsMax = 3;  // choice: more than that nobody reads in a table
  std::map<Closure, int64_t> closed;
  for (const std::vector<NodeRoom>* const rooms : {&survey.open, &survey.closed}) {
    for (const NodeRoom& room : *rooms) {
      if (const auto closure = ClosureOf(*room.node, classes)) {
        closed[*closure] += room.twins;
      }
    }
  }
  std::string text;
  std::size_t shown = 0;
  for (const auto& [closure, count] : closed) {
    if (shown == kReasonsMax) {
      text += ", more nodes are excluded for other reasons";
      break;
    }
    text += shown == 0 ? std::to_string(count) + " of " +
                             Plural(NodeCount(survey.open) + NodeCount(survey.closed), "node")
                       : ", " + std::to_string(count);
    text += " " + (count == 1 ? closure.of_one : closure.of_several);
    ++shown;
  }
  return text;
}

// "; 1 more node is, but is cordoned": nodes that the class asks for and that take no pods; empty
// when there are none.
std::string ClosedMatchesText(const PodClass& pod_class, const std::vector<NodeRoom>& closed) {
  std::map<Closure, int64_t> counts;
  for (const NodeRoom& room : closed) {
    const auto closure = ClosureOf(*room.node, {});
    if (closure && MatchesSelector(*room.node, pod_class)) {
      counts[*closure] += room.twins;
    }
  }
  std::string text;
  for (const auto& [closure, count] : counts) {
    text += "; " + std::to_string(count) + " more " + (count == 1 ? "node is" : "nodes are") +
            ", but " + (count == 1 ? closure.of_one : closure.of_several);
  }
  return text;
}

// Whether any node lets the class in.
std::optional<Unschedulable> BrokenByClosedNodes(const RoomSurvey& survey,
                                                 const std::vector<PodClass>& classes) {
  const std::vector<NodeRoom>& rooms = survey.open;
  for (const PodClass& pod_class : classes) {
    const auto any = [&](const auto& predicate) {
      return std::any_of(rooms.begin(), rooms.end(), [&](const NodeRoom& room) {
        return predicate(*room.node, pod_class);
      });
    };
    if (!any(MatchesSelector)) {
      return Unschedulable{
          Constraint::kNodeSelector,
          pod_class.name + " needs a node " + SelectorText(pod_class) +
              (survey.is_one_machine ? ", this machine is not"
                                     : ", none of " + Plural(NodeCount(rooms), "node") + " is") +
              ClosedMatchesText(pod_class, survey.closed)};
    }
    if (!any(Accepts)) {
      return Unschedulable{Constraint::kTaint,
                           "no node accepts pods of role " + pod_class.name + ": " +
                               ClosedText(survey, {pod_class})};
    }
  }
  return std::nullopt;
}

// The rooms that at least one of the classes may use.
std::vector<NodeRoom> UsableRooms(const std::vector<PodClass>& classes,
                                  const std::vector<NodeRoom>& rooms) {
  std::vector<NodeRoom> usable;
  std::copy_if(rooms.begin(), rooms.end(), std::back_inserter(usable), [&](const NodeRoom& room) {
    return !ClosureOf(*room.node, classes).has_value();
  });
  return usable;
}

// One pod against the largest node.
std::optional<Unschedulable> BrokenByLargestNode(const PodClass& pod_class,
                                                 const std::vector<NodeRoom>& rooms) {
  for (const std::string& resource : ResourcesOf({pod_class})) {
    int64_t largest = 0;
    for (const NodeRoom& room : rooms) {
      if (Accepts(*room.node, pod_class)) {
        largest = std::max(largest, FreeAmountOf(room.node->allocatable, resource));
      }
    }
    const int64_t needed = pod_class.request.AmountOf(resource);
    if (needed > largest) {
      const Figures figures = FiguresOf(resource, needed, largest);
      return Unschedulable{ConstraintOf(resource),
                           pod_class.name + " needs " + figures.needed +
                               ", the largest node offers " + figures.found};
    }
  }
  return std::nullopt;
}

// One pod against the freest node.
std::optional<Unschedulable> BrokenByFreestNode(const PodClass& pod_class,
                                                const std::vector<NodeRoom>& rooms) {
  for (const std::string& resource : ResourcesOf({pod_class})) {
    int64_t freest = 0;
    for (const NodeRoom& room : rooms) {
      if (Accepts(*room.node, pod_class)) {
        freest = std::max(freest, FreeAmountOf(room.free, resource));
      }
    }
    const int64_t needed = pod_class.request.AmountOf(resource);
    if (needed > freest) {
      const Figures figures = FiguresOf(resource, needed, freest);
      return Unschedulable{
          ConstraintOf(resource),
          pod_class.name + " needs " + figures.needed + " on one node, at most " + figures.found +
              (freest == 1 && resource == kGpuResource ? " is" : " are") + " free"};
    }
  }
  return std::nullopt;
}

std::string SumText(const std::string& resource,
                    int64_t needed,
                    const std::vector<NodeRoom>& rooms,
                    bool is_one_machine) {
  int64_t free = 0;
  int64_t allocatable = 0;
  int64_t node_count = 0;
  for (const NodeRoom& room : rooms) {
    const int64_t found = FreeAmountOf(room.free, resource);
    free = AddSaturated(free, MultiplySaturated(found, room.twins));
    allocatable = AddSaturated(
        allocatable, MultiplySaturated(FreeAmountOf(room.node->allocatable, resource), room.twins));
    node_count += found > 0 ? room.twins : 0;
  }
  if (is_one_machine && needed > allocatable) {
    const Figures figures = FiguresOf(resource, needed, allocatable);
    return "needs " + figures.needed + ", this machine has " + figures.found;
  }
  const Figures figures = FiguresOf(resource, needed, free);
  if (is_one_machine) {
    return "needs " + figures.needed + ", " + figures.found + " free on this machine";
  }
  const auto shown = node_count > 0 ? node_count : NodeCount(rooms);
  return "needs " + figures.needed + ", " + figures.found + " free on " + Plural(shown, "node");
}

std::optional<Unschedulable> BrokenBySum(const std::vector<PodClass>& classes,
                                         const std::vector<NodeRoom>& rooms,
                                         bool is_one_machine) {
  for (const std::string& resource : ResourcesOf(classes)) {
    int64_t needed = 0;
    for (const PodClass& pod_class : classes) {
      needed = AddSaturated(needed,
                            MultiplySaturated(pod_class.request.AmountOf(resource),
                                              static_cast<int64_t>(pod_class.pods.size())));
    }
    int64_t free = 0;
    for (const NodeRoom& room : rooms) {
      free = AddSaturated(free, MultiplySaturated(FreeAmountOf(room.free, resource), room.twins));
    }
    if (needed > free) {
      return Unschedulable{ConstraintOf(resource),
                           SumText(resource, needed, rooms, is_one_machine)};
    }
  }
  return std::nullopt;
}

// Whether the nodes take so many pods at all.
std::optional<Unschedulable> BrokenByPodCount(const std::vector<PodClass>& classes,
                                              const std::vector<NodeRoom>& rooms) {
  int64_t needed = 0;
  for (const PodClass& pod_class : classes) {
    needed += static_cast<int64_t>(pod_class.pods.size());
  }
  int64_t free = 0;
  for (const NodeRoom& room : rooms) {
    free = AddSaturated(free, MultiplySaturated(room.pods_free, room.twins));
  }
  if (needed <= free) {
    return std::nullopt;
  }
  return Unschedulable{
      Constraint::kPods,
      "needs " + Plural(needed, "pod") + ", but the limit of pods per node leaves room for only " +
          std::to_string(free) + " more in total on " + Plural(NodeCount(rooms), "node")};
}

int64_t RoomFor(const PodClass& pod_class, const std::vector<NodeRoom>& rooms) {
  const auto wanted = static_cast<int64_t>(pod_class.pods.size());
  int64_t count = 0;
  for (const NodeRoom& room : rooms) {
    count =
        AddSaturated(count, MultiplySaturated(PodsThatFit(room, pod_class, wanted), room.twins));
  }
  return std::min(count, wanted);
}

// The resource that alone leaves least room for the class; empty when the limit of pods does.
std::string TightestResource(const PodClass& pod_class, const std::vector<NodeRoom>& rooms) {
  PodClass alone = pod_class;
  alone.request = ResourceVector{};
  std::string tightest;
  int64_t least = RoomFor(alone, rooms);
  const std::vector<NamedAmount> amounts = pod_class.request.AllWithPorts();
  if (least == static_cast<int64_t>(pod_class.pods.size()) && !amounts.empty()) {
    tightest = amounts.front().name;
  }
  for (const NamedAmount& amount : amounts) {
    alone.request = ResourceVector{};
    alone.request.Set(amount.name, amount.amount);
    const int64_t count = RoomFor(alone, rooms);
    if (count < least) {
      least = count;
      tightest = amount.name;
    }
  }
  return tightest;
}

std::optional<Unschedulable> BrokenByClass(const PodClass& pod_class,
                                           const std::vector<NodeRoom>& rooms,
                                           bool is_one_machine) {
  const auto wanted = static_cast<int64_t>(pod_class.pods.size());
  const int64_t found = RoomFor(pod_class, rooms);
  if (found >= wanted) {
    return std::nullopt;
  }
  const std::string resource = TightestResource(pod_class, rooms);
  const std::string each =
      resource.empty()
          ? ", the limit of pods per node leaves"
          : " of " + FiguresOf(resource, pod_class.request.AmountOf(resource), /*found=*/0).needed +
                " each,";
  return Unschedulable{resource.empty() ? Constraint::kPods : ConstraintOf(resource),
                       "needs " + Plural(wanted, pod_class.name + " pod") + each + " room for " +
                           std::to_string(found) +
                           (is_one_machine ? std::string(" on this machine")
                                           : " on " + Plural(NodeCount(rooms), "node"))};
}

// The bounds that are about amounts, over the rooms that are open to some class. What the whole
// gang needs comes before what one pod finds now: it stays the same while others come and go.
std::optional<Unschedulable> BrokenByAmounts(const std::vector<PodClass>& classes,
                                             const std::vector<NodeRoom>& rooms,
                                             bool is_one_machine) {
  for (const PodClass& pod_class : classes) {
    auto broken = is_one_machine ? std::nullopt : BrokenByLargestNode(pod_class, rooms);
    if (broken) {
      return broken;
    }
  }
  if (auto broken = BrokenBySum(classes, rooms, is_one_machine)) {
    return broken;
  }
  for (const PodClass& pod_class : classes) {
    auto broken = is_one_machine ? std::nullopt : BrokenByFreestNode(pod_class, rooms);
    if (broken) {
      return broken;
    }
  }
  if (auto broken = BrokenByPodCount(classes, rooms)) {
    return broken;
  }
  for (const PodClass& pod_class : classes) {
    if (auto broken = BrokenByClass(pod_class, rooms, is_one_machine)) {
      return broken;
    }
  }
  return std::nullopt;
}

// Where pods stand apart: domains that hold a pod of some class.
std::optional<Unschedulable> BrokenByApart(const std::vector<PodClass>& classes,
                                           const std::vector<NodeRoom>& rooms) {
  int64_t needed = 0;
  for (const PodClass& pod_class : classes) {
    needed += static_cast<int64_t>(pod_class.pods.size());
  }
  std::set<int32_t> domains;
  for (const NodeRoom& room : rooms) {
    const bool holds_one =
        std::any_of(classes.begin(), classes.end(), [&](const PodClass& pod_class) {
          return PodsThatFit(room, pod_class, 1) > 0;
        });
    if (room.apart < 0) {
      return std::nullopt;
    }
    if (holds_one) {
      domains.insert(room.apart);
    }
  }
  const auto found = static_cast<int64_t>(domains.size());
  if (needed <= found) {
    return std::nullopt;
  }
  return Unschedulable{Constraint::kTopology,
                       "needs " + Plural(needed, "domain") + " with room for one pod each, " +
                           std::to_string(found) + (found == 1 ? " has" : " have")};
}

}  // namespace

std::optional<Unschedulable> BrokenBound(const RoomSurvey& survey,
                                         const std::vector<PodClass>& classes) {
  if (survey.open.empty()) {
    return Unschedulable{Constraint::kNodes,
                         survey.is_one_machine ? "this machine accepts no pods"
                         : survey.closed.empty()
                             ? "the cluster has no nodes"
                             : "no node accepts pods: " + ClosedText(survey, classes)};
  }
  if (auto broken = BrokenByClosedNodes(survey, classes)) {
    return broken;
  }
  const std::vector<NodeRoom> usable = UsableRooms(classes, survey.open);
  auto broken = BrokenByAmounts(classes, usable, survey.is_one_machine);
  if (!broken) {
    broken = BrokenByApart(classes, usable);
  }
  const std::string closed = survey.is_one_machine ? "" : ClosedText(survey, classes);
  if (broken && !closed.empty()) {
    broken->shortfall += "; " + closed;
  }
  return broken;
}

std::string DescribeNeed(const Gang& gang) {
  std::vector<std::string> resources = ResourcesOf(gang.classes);
  std::stable_partition(resources.begin(), resources.end(), [](const std::string& resource) {
    return resource != kMemoryResource;  // how many cores says more of a gang's size
  });
  if (!resources.empty()) {
    int64_t needed = 0;
    for (const PodClass& pod_class : gang.classes) {
      needed = AddSaturated(needed,
                            MultiplySaturated(pod_class.request.AmountOf(resources.front()),
                                              static_cast<int64_t>(pod_class.pods.size())));
    }
    return FiguresOf(resources.front(), needed, /*found=*/0).needed;
  }
  int64_t pod_count = 0;
  for (const PodClass& pod_class : gang.classes) {
    pod_count += static_cast<int64_t>(pod_class.pods.size());
  }
  return Plural(pod_count, "pod");
}

Unschedulable NoArrangement(const std::vector<PodClass>& classes, bool is_proved) {
  std::string pods;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (i > 0) {
      pods += i + 1 == classes.size() ? " and " : ", ";
    }
    pods += Plural(static_cast<int64_t>(classes[i].pods.size()), classes[i].name + " pod");
  }
  if (is_proved) {
    return {Constraint::kFragmentation,
            "needs " + pods + " at once, each role fits alone, but they do not fit together"};
  }
  return {Constraint::kSearchLimit,
          "needs " + pods + " at once, no arrangement found within the search limit"};
}

}  // namespace lockstep::control
