#include "operator/scheduler/testing/brute_force.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/prng.h"
#include "operator/scheduler/state/state_event.h"
#include "operator/scheduler/testing/fake_gangs.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

constexpr const char* kLevels[] = {"block", "rack"};

// A node and what is left of it, in plain numbers.
struct PlainNode {
  SnapshotNode facts;
  int64_t cpu = 0;
  int64_t memory = 0;
  int64_t gpus = 0;
  int64_t ports = 1;  // of hostPort:80
  int64_t pods = 1000;
};

void Take(const PodClass& pod, int64_t count, PlainNode* node) {
  node->cpu -= count * pod.request.cpu_milli;
  node->memory -= count * pod.request.memory_bytes;
  node->gpus -= count * pod.request.gpu_count;
  node->ports -= count * pod.request.AmountOf(HostPortResource(80));
  node->pods -= count;
}

bool IsWithin(const PlainNode& node, const PodClass& pod) {
  return (pod.request.cpu_milli == 0 || node.cpu >= 0) &&
         (pod.request.memory_bytes == 0 || node.memory >= 0) &&
         (pod.request.gpu_count == 0 || node.gpus >= 0) &&
         (pod.request.AmountOf(HostPortResource(80)) == 0 || node.ports >= 0) && node.pods >= 0;
}

bool LetsIn(const SnapshotNode& node, const PodClass& pod) {
  for (const Taint& taint : node.taints) {
    bool is_tolerated = false;
    for (const Toleration& one : pod.tolerations) {
      is_tolerated = is_tolerated || one.key == taint.key;
    }
    if (!is_tolerated) {
      return false;
    }
  }
  for (const auto& [key, value] : pod.node_selector) {
    if (!node.labels.contains(key) || node.labels.at(key) != value) {
      return false;
    }
  }
  return node.state == NodeState::kOpen;
}

// The node's domain of the level by its labels, from the widest on; empty: in none.
std::string DomainOf(const SnapshotNode& node, const std::string& level) {
  if (level == kHostLevel) {
    return node.name;
  }
  std::string path;
  for (const char* const one : kLevels) {
    if (!node.labels.contains(one)) {
      return "";
    }
    path += "/" + node.labels.at(one);
    if (one == level) {
      return path;
    }
  }
  return "";
}

// Whether the nodes chosen so far may stand in one arrangement.
bool KeepsTopology(const TopologyTerms& terms, const std::vector<const SnapshotNode*>& chosen) {
  std::set<std::string> required;
  std::set<std::string> apart;
  for (const SnapshotNode* const node : chosen) {
    if (!terms.required.empty()) {
      required.insert(DomainOf(*node, terms.required));
    }
    if (!terms.apart.empty() && !apart.insert(DomainOf(*node, terms.apart)).second) {
      return false;
    }
  }
  return required.size() <= 1 && !required.contains("") && !apart.contains("");
}

// Whether any arrangement exists, by trying every node for every pod.
bool Exists(std::vector<PlainNode> nodes, const GangRequest& request) {
  std::vector<const PodClass*> pods;
  for (const PodClass& pod_class : request.gang.classes) {
    pods.insert(pods.end(), pod_class.pods.size(), &pod_class);
  }
  std::vector<const SnapshotNode*> chosen;
  const std::function<bool(std::size_t)> place = [&](std::size_t index) {
    if (index == pods.size()) {
      return true;
    }
    for (PlainNode& node : nodes) {
      Take(*pods[index], 1, &node);
      chosen.push_back(&node.facts);
      const bool is_found = LetsIn(node.facts, *pods[index]) && IsWithin(node, *pods[index]) &&
                            KeepsTopology(request.topology, chosen) && place(index + 1);
      chosen.pop_back();
      Take(*pods[index], -1, &node);
      if (is_found) {
        return true;
      }
    }
    return false;
  };
  return place(0);
}

enum class Rules { kFifo, kPreempting, kQuotas };

// One case: the cluster, what was told to it, and the oracle's own books.
class Case {
 public:
  Case(uint64_t seed, BruteForceTally* tally, StateRecorder* recorder)
      : prng_(seed), tally_(*tally), cluster_({BruteForceLevels(), false}) {
    cluster_.state.SetRecorder(recorder);
    const uint64_t rules = prng_.Below(3);
    rules_ = rules == 0 ? Rules::kFifo : rules == 1 ? Rules::kPreempting : Rules::kQuotas;
    SetQueues();
    const int64_t count = 1 + std::min<int64_t>(1, Amount(6)) * (1 + Amount(5));
    for (int64_t i = 0; i < count; ++i) {
      nodes_.push_back(RandomNode(i));
      cluster_.state.SetNode(nodes_.back());
    }
  }

  std::string Run() {
    const int64_t gang_count = 3 + Amount(2);
    for (int64_t i = 0; i < gang_count; ++i) {
      const GangRequest request = RandomGang(i);
      requests_[request.name] = request;
      cluster_.state.Submit(request);
      std::string wrong = CheckRound();
      if (wrong.empty() && prng_.Below(3) == 0) {
        EndSomebody();
        wrong = CheckRound();
      }
      if (!wrong.empty()) {
        return request.name + ": " + wrong;
      }
    }
    return "";
  }

 private:
  int64_t Amount(uint64_t bound) { return static_cast<int64_t>(prng_.Below(bound)); }

  void SetQueues() {
    std::vector<QueueSpec> specs;
    if (rules_ == Rules::kPreempting) {
      specs.push_back({.name = "default"});
      specs.back().preempts_lower_priority = true;
      specs.back().ordering = QueueOrdering::kPriority;
    }
    for (const char* const name : {"a", "b"}) {
      if (rules_ != Rules::kQuotas) {
        break;
      }
      specs.push_back({.name = name, .nominal = {{"nvidia.com/gpu", Amount(6)}}});
      if (prng_.Below(3) == 0) {
        specs.back().borrowing_limit = {{"nvidia.com/gpu", Amount(3)}};
      }
      if (prng_.Below(3) == 0) {
        specs.back().lending_limit = {{"nvidia.com/gpu", Amount(3)}};
      }
    }
    specs_ = specs;
    const Status set = cluster_.state.SetQueues(specs);
    LOCKSTEP_CHECK(set.ok(), set.error().ToString());
  }

  SnapshotNode RandomNode(int64_t index) {
    SnapshotNode node = MakeNode("n" + std::to_string(index),
                                 {1000 * (2 + Amount(6)), 2 + Amount(6), 1 + Amount(7), {}},
                                 {1000 * Amount(2), 0, Amount(2), {}});
    node.labels["disk"] = prng_.Below(2) == 0 ? "fast" : "slow";
    if (prng_.Below(8) != 0) {
      node.labels["block"] = "b" + std::to_string(prng_.Below(2));
    }
    if (prng_.Below(8) != 0) {
      node.labels["rack"] = "r" + std::to_string(prng_.Below(2));
    }
    if (prng_.Below(12) == 0) {
      node.taints = {{"gpu", "", "NoSchedule"}};
    }
    if (prng_.Below(8) == 0) {
      node.pod_count = Amount(2);
      node.pod_count_max = node.pod_count + 1 + Amount(3);
    }
    node.suspicion = prng_.Below(5) == 0 ? 1 : 0;
    node.state = prng_.Below(12) == 0 ? NodeState::kCordoned : NodeState::kOpen;
    return node;
  }

  GangRequest RandomGang(int64_t index) {
    GangRequest request;
    request.name = "default/g" + std::to_string(index);
    request.since = AtSecond(index);
    request.queue = rules_ == Rules::kQuotas ? (prng_.Below(2) == 0 ? "a" : "b") : "";
    request.priority = Amount(3);
    request.is_preemptible = prng_.Below(6) != 0;
    const uint64_t classes = 1 + prng_.Below(2);
    for (uint64_t c = 0; c < classes; ++c) {
      PodClass pods = MakeClass(c == 0 ? "w" : "ps",
                                1 + static_cast<int>(prng_.Below(c == 0 ? 4 : 2)),
                                {1000 * Amount(2), Amount(2), Amount(4), {}});
      if (prng_.Below(10) == 0) {
        pods.node_selector["disk"] = "fast";
      }
      if (prng_.Below(3) == 0) {
        pods.tolerations = {{"gpu", true, "", ""}};
      }
      if (prng_.Below(10) == 0) {
        pods.request.Set(HostPortResource(80), 1);
      }
      request.gang.classes.push_back(pods);
    }
    const std::string levels[] = {"block", "rack", std::string(kHostLevel)};
    const uint64_t choice = prng_.Below(20);
    if (choice < 3) {
      request.topology.required = levels[choice];
    } else if (choice < 6) {
      request.topology.apart = levels[choice - 3];
    }
    if (prng_.Below(3) == 0) {
      request.topology.preferred = levels[prng_.Below(2)];
    }
    return request;
  }

  void EndSomebody() {
    std::vector<std::string> names;
    for (const auto& [name, pods] : running_) {
      names.push_back(name);
    }
    if (!names.empty()) {
      const std::string name = names[prng_.Below(names.size())];
      running_.erase(name);
      cluster_.state.Remove(name);
    }
  }

  // Nodes with what strangers leave, less what the gangs hold for which `counts` says so.
  std::vector<PlainNode> Books(const std::function<bool(const std::string&)>& counts) const {
    std::vector<PlainNode> books;
    for (const SnapshotNode& node : nodes_) {
      books.push_back({node,
                       node.allocatable.cpu_milli - node.used.cpu_milli,
                       node.allocatable.memory_bytes - node.used.memory_bytes,
                       node.allocatable.gpu_count - node.used.gpu_count});
      if (node.pod_count_max > 0) {
        books.back().pods = node.pod_count_max - node.pod_count;
      }
    }
    for (const auto& [name, pods] : running_) {
      if (counts(name)) {
        TakeAll(requests_.at(name), pods, &books);
      }
    }
    return books;
  }

  static void TakeAll(const GangRequest& request,
                      const PlacedPods& pods,
                      std::vector<PlainNode>* books) {
    for (const PlacedPod& placed : pods) {
      for (PlainNode& node : *books) {
        if (node.facts.name == placed.node) {
          Take(ClassOf(request, placed.pod), 1, &node);
        }
      }
    }
  }

  static const PodClass& ClassOf(const GangRequest& request, const std::string& pod) {
    for (const PodClass& pod_class : request.gang.classes) {
      if (std::find(pod_class.pods.begin(), pod_class.pods.end(), pod) != pod_class.pods.end()) {
        return pod_class;
      }
    }
    return request.gang.classes.front();
  }

  // Whether the gang may stand there, beside what is in the books.
  std::string WrongWithPods(const GangRequest& request,
                            const PlacedPods& pods,
                            std::vector<PlainNode> books) const {
    std::vector<const SnapshotNode*> chosen;
    std::size_t expected = 0;
    for (const PodClass& pod_class : request.gang.classes) {
      expected += pod_class.pods.size();
    }
    if (pods.size() != expected) {
      return "not every pod has a node";
    }
    for (const PlacedPod& placed : pods) {
      const PodClass& pod_class = ClassOf(request, placed.pod);
      for (PlainNode& node : books) {
        if (node.facts.name != placed.node) {
          continue;
        }
        chosen.push_back(&node.facts);
        Take(pod_class, 1, &node);
        if (!LetsIn(node.facts, pod_class)) {
          return placed.node + " does not let " + placed.pod + " in";
        }
        if (!IsWithin(node, pod_class)) {
          return placed.node + " is overcommitted";
        }
      }
    }
    return KeepsTopology(request.topology, chosen) ? "" : "the topology is not kept";
  }

  std::string CheckRound() {
    const RoundResult result = Round(&cluster_.state, cluster_.now, &cluster_.memory);
    if (StateRecorder* const recorder = cluster_.state.recorder()) {
      recorder->OnRound(cluster_.now, {}, result);
    }
    Commit(result, cluster_.now, &cluster_.state);
    cluster_.now += std::chrono::seconds(10);
    std::set<std::string> leaving;
    for (const Eviction& eviction : result.evictions) {
      ++tally_.evicted;
      leaving.insert(eviction.gang);
      const GangRequest& victim = requests_.at(eviction.gang);
      if (rules_ != Rules::kPreempting || !victim.is_preemptible ||
          victim.priority >= requests_.at(eviction.beneficiary).priority) {
        return eviction.gang + " may not be evicted for " + eviction.beneficiary;
      }
    }
    for (const Grant& grant : result.grants) {
      ++tally_.granted;
      const auto everybody = [](const std::string& /*name*/) { return true; };
      std::string wrong = WrongWithPods(requests_.at(grant.gang), grant.pods, Books(everybody));
      if (!wrong.empty()) {
        return wrong;
      }
      running_[grant.gang] = grant.pods;
    }
    std::string wrong = CheckQuotas();
    for (const auto& [name, request] : requests_) {
      const GangRecord* const gang = cluster_.state.Find(name);
      if (wrong.empty() && gang != nullptr && gang->state == GangState::kWaiting) {
        wrong = CheckWaiting(*gang);
      }
    }
    if (!wrong.empty()) {
      return wrong + "\n" + ToText(result);
    }
    return Depart(leaving);
  }

  // Those evicted go, and the gang that they made room for starts where it was said.
  std::string Depart(const std::set<std::string>& leaving) {
    for (const std::string& name : leaving) {
      running_.erase(name);
      cluster_.state.Remove(name);
    }
    return leaving.empty() ? "" : CheckRound();
  }

  int64_t GpusOf(const std::string& queue) const {
    int64_t gpus = 0;
    for (const auto& [name, pods] : running_) {
      gpus += requests_.at(name).queue == queue ? TotalGpus(requests_.at(name)) : 0;
    }
    return gpus;
  }

  static int64_t TotalGpus(const GangRequest& request) {
    int64_t gpus = 0;
    for (const PodClass& pod_class : request.gang.classes) {
      gpus += pod_class.request.gpu_count * static_cast<int64_t>(pod_class.pods.size());
    }
    return gpus;
  }

  // Whether so many GPUs more in the queue are within what is written.
  bool IsWithinQuota(const std::string& queue, int64_t gpus) const {
    const QueueSpec& own = specs_[queue == "a" ? 0 : 1];
    const QueueSpec& other = specs_[queue == "a" ? 1 : 0];
    const auto amount = [](const std::map<std::string, int64_t>& amounts, int64_t otherwise) {
      return amounts.contains("nvidia.com/gpu") ? amounts.at("nvidia.com/gpu") : otherwise;
    };
    const int64_t own_nominal = amount(own.nominal, 0);
    const int64_t other_nominal = amount(other.nominal, 0);
    const int64_t held = GpusOf(queue);
    const int64_t held_by_other = GpusOf(other.name);
    const int64_t kept = std::max<int64_t>(
        0, other_nominal - amount(other.lending_limit, 1'000'000) - held_by_other);
    return held + gpus <= own_nominal + amount(own.borrowing_limit, 1'000'000) &&
           held + held_by_other + kept + gpus <= own_nominal + other_nominal;
  }

  std::string CheckQuotas() const {
    for (const char* const queue : {"a", "b"}) {
      if (rules_ == Rules::kQuotas && GpusOf(queue) > 0 && !IsWithinQuota(queue, 0)) {
        return std::string("queue ") + queue + " holds more than it may";
      }
    }
    return "";
  }

  std::string CheckWaiting(const GangRecord& gang) {
    const std::string& name = gang.request.name;
    if (!gang.told) {
      return name + " was told nothing";
    }
    const auto everybody = [](const std::string& /*name*/) { return true; };
    std::vector<PlainNode> books = Books(everybody);
    for (const GangRecord* const claiming : cluster_.state.claiming()) {
      TakeAll(claiming->request, claiming->claimed_pods, &books);
    }
    const bool has_place = Exists(books, gang.request);
    if (gang.told->constraint == Constraint::kQuota) {
      ++tally_.over_quota;
      const int64_t gpus = TotalGpus(gang.request);
      return gpus == 0 || IsWithinQuota(gang.request.queue, gpus) ? name + " is within its quota"
                                                                  : "";
    }
    if (gang.told->constraint != Constraint::kQueue) {
      ++tally_.refused;
      if (has_place) {
        return name + " has a place, and was told: " + gang.told->shortfall;
      }
      if (rules_ == Rules::kPreempting && HasPlaceWithoutLower(gang)) {
        return name + " could evict those of lower priority, and was told: " + gang.told->shortfall;
      }
    } else {
      ++tally_.out_of_turn;
    }
    if (rules_ != Rules::kFifo) {
      return "";
    }
    const auto younger = [&](const std::string& other) {
      return requests_.at(other).since > gang.request.since;
    };
    const auto nobody = [](const std::string& /*name*/) { return false; };
    return Exists(Books(nobody), gang.request) && !Exists(Books(younger), gang.request)
               ? name + " would not fit if all older ones had ended"
               : "";
  }

  bool HasPlaceWithoutLower(const GangRecord& gang) const {
    std::vector<PlainNode> books = Books([&](const std::string& other) {
      const GangRequest& request = requests_.at(other);
      return request.priority >= gang.request.priority || !request.is_preemptible;
    });
    for (const GangRecord* const claiming : cluster_.state.claiming()) {
      TakeAll(claiming->request, claiming->claimed_pods, &books);
    }
    return Exists(books, gang.request);
  }

  Prng prng_;
  BruteForceTally& tally_;
  Rules rules_ = Rules::kFifo;
  FakeCluster cluster_;
  std::vector<SnapshotNode> nodes_;
  std::vector<QueueSpec> specs_;
  std::map<std::string, GangRequest> requests_;
  std::map<std::string, PlacedPods> running_;
};

}  // namespace

std::string WrongInCase(uint64_t seed, BruteForceTally* tally, StateRecorder* recorder) {
  return Case(seed, tally, recorder).Run();
}

std::vector<std::string> BruteForceLevels() {
  return {kLevels[0], kLevels[1]};
}

}  // namespace lockstep::control
