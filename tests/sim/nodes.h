#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/api_server.h"
#include "tests/sim/decoded.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/processes.h"
#include "tests/sim/sim_context.h"

namespace lockstep::control::sim {

// The part of a cluster that the operator has to live with: the scheduler, the kubelets with their
// GPUs, and the controllers that watch over nodes. Each acts a little, or not at all, when run.
class Nodes {
 public:
  Nodes(SimContext* context, ApiServer* server, Processes* processes)
      : context_(context), server_(server), processes_(processes) {}

  void Add(const std::string& name, int gpus);

  // Everybody acts once.
  void Run();

  std::vector<std::string> names() const;

  // Moves of the adversary. A crashed node's processes are dead; one that is cut off goes on
  // running them, unheard. Back, it finds out what has become of its pods.
  void Crash(const std::string& name);
  void CutOff(const std::string& name);
  void Return(const std::string& name);
  void ReturnAll();

  // The node goes with all on it, and never comes back.
  void Remove(const std::string& name);

  // While a node's device plugin is away, pods that ask for GPUs are refused.
  void SetPlugin(const std::string& name, bool is_there) { nodes_.at(name).has_plugin = is_there; }

  // The node looks fine and lets no pod in.
  void SetRefusing(const std::string& name, bool is_refusing) {
    nodes_.at(name).refuses_all = is_refusing;
  }

  bool Refuses(const std::string& name) const { return nodes_.at(name).refuses_all; }

  // The kubelet goes on, but ends no pod that is to be deleted; with `ends_processes` the process
  // goes and nobody tells of it.
  void SetNeverEnds(const std::string& name, bool never_ends, bool ends_processes) {
    nodes_.at(name).never_ends = never_ends;
    nodes_.at(name).ends_processes = ends_processes;
  }

  bool NeverEnds(const std::string& name) const {
    const auto found = nodes_.find(name);
    return found != nodes_.end() && found->second.never_ends;
  }

  // Whether nobody looks after the node's pods.
  bool IsGone(const std::string& name) const {
    const auto found = nodes_.find(name);
    return found == nodes_.end() || found->second.is_crashed || found->second.is_cut_off;
  }

  // Pods whose images cannot be pulled, and those that no node takes for a reason that only the
  // scheduler knows. By uid; for good, also in peace: only other pods fare better.
  std::set<std::string> broken_images;
  std::set<std::string> unbindable;

  // By pod uid: devices in use, as the kubelets' device managers have recorded them.
  struct DeviceUse {
    std::string node;
    std::set<int> devices;
  };

  std::map<std::string, DeviceUse> DevicesInUse() const;

  // Pods that a kubelet refused for want of something, though the API server knew of no pods but
  // ours that held it: somebody gave it away twice.
  const std::vector<std::string>& given_twice() const { return given_twice_; }

 private:
  enum class Stage { kPulling, kRunning, kEnded };

  // A pod as its kubelet knows it.
  struct LocalPod {
    kube::ObjectKey key;
    Stage stage = Stage::kPulling;
    TimePoint ready_at{};
    std::set<int> devices;
    bool is_ours = false;  // its process is one of Processes
    TimePoint ends_at{};   // of a foreign pod
    bool is_reported = false;
  };

  struct Node {
    std::string name;
    int gpus = 0;
    bool is_crashed = false;
    bool is_cut_off = false;
    bool is_removed = false;
    bool has_plugin = true;
    bool refuses_all = false;
    bool never_ends = false;
    bool ends_processes = false;
    TimePoint gone_since{};
    std::map<std::string, LocalPod> pods;  // by uid
  };

  void RunScheduler();
  void Schedule(const kube::ObjectKey& key, const ObjectPtr& pod);
  std::string RefusalOf(const ObjectPtr& node, const ObjectPtr& pod) const;
  std::optional<std::string> ChooseNode(const ObjectPtr& pod, std::string* refusal);
  Amounts UsedOn(const std::string& node,
                 const Json& but,
                 const std::function<bool(const Json&)>& counts) const;
  void RunKubelets();
  void Sync(Node* node, const kube::ObjectKey& key, const ObjectPtr& pod);
  void Refuse(const Node& node, const kube::ObjectKey& key, const std::string& reason);
  void Admit(Node* node, const kube::ObjectKey& key, const ObjectPtr& pod);
  void Advance(const std::string& uid, const Json& pod, LocalPod* local);
  void Report(const LocalPod& local, const std::string& uid, const Json& pod);
  void SyncDeletion(Node* node, const kube::ObjectKey& key, const Json& pod);
  void DropUnknown(Node* node);
  std::set<int> FreeDevices(const Node& node) const;
  std::string Overcommitted(const Node& node, const ObjectPtr& pod) const;
  std::string RefusalBy(const Node& node, const ObjectPtr& pod);
  void SyncStuck(const Node& node, const LocalPod& local, const Json& pod);
  void RunNodeController();
  void SetReady(const std::string& name, bool is_ready);
  void EvictFrom(const Node& node);
  void KillAll(Node* node);

  SimContext* context_;
  ApiServer* server_;
  Processes* processes_;
  std::map<std::string, Node> nodes_;
  std::vector<std::string> given_twice_;
  int next_address_ = 1;
  mutable DecodedCache<Amounts> requests_{RequestsOfPod};
  mutable DecodedCache<Amounts> allocatable_{AllocatableOf};
};

}  // namespace lockstep::control::sim
