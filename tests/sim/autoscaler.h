#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/api_server.h"
#include "tests/sim/nodes.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/sim_context.h"

namespace lockstep::control::sim {

// A cluster autoscaler that serves ProvisioningRequests, as far as the operator can tell: it takes
// them up when it comes to them, says whether there is room, orders nodes for all pods or none,
// keeps what it found for a while, and removes nodes that nobody uses. In the time of faults it may
// also be slow, silent, wrong, or gone. What it says, and in which words, is what Kubernetes' own
// says.
// Source: Kubernetes' cluster autoscaler, provisioningrequest: conditions.go, checkcapacity and
// besteffortatomic; CapacityRevoked is what others say of the same kind.
class Autoscaler {
 public:
  struct Parts {
    SimContext* context = nullptr;
    ApiServer* server = nullptr;
    Nodes* nodes = nullptr;
    std::function<void()> on_added;                           // a node of it has joined
    std::function<void(const std::string& node)> on_removal;  // one is about to go
  };

  Autoscaler(Parts parts, int gpus_of_node)
      : parts_(std::move(parts)), gpus_of_node_(gpus_of_node) {}

  // A moment passes.
  void Run();

  // Its process ends; the next one begins then, and knows what is stored.
  void Crash(TimePoint back_at);

 private:
  enum class Mood { kWilling, kSlow, kSilent, kFailing, kRevoking };

  // What it has in mind with one request.
  struct Intent {
    Mood mood = Mood::kWilling;
    TimePoint due{};       // does nothing before
    bool is_kept = false;  // what was found is kept until then
  };

  // What one set of pods asks for.
  struct PodSet {
    Amounts request;
    int64_t count = 0;
  };

  using Rooms = std::vector<Amounts>;

  Intent NewIntent(const std::string& name);
  Mood MoodOf(const Intent& intent) const;
  void JoinNodes();
  void Serve(const kube::ObjectKey& key, const Json& request);
  void Accept(const kube::ObjectKey& key, const std::string& missing, Intent* intent);
  void EndBooking(const kube::ObjectKey& key, Intent* intent);
  void Check(const kube::ObjectKey& key, const Json& request, Intent* intent);
  void ScaleUp(const kube::ObjectKey& key, const Json& request, Intent* intent);
  void Find(const kube::ObjectKey& key, const std::string& reason, Intent* intent);
  void Fail(const kube::ObjectKey& key, const std::string& reason, const std::string& message);
  void Say(const kube::ObjectKey& key,
           const std::string& type,
           bool is_true,
           const std::string& reason,
           const std::string& message);
  std::string MissingTemplate(const kube::ObjectKey& key, const Json& request) const;
  std::vector<PodSet> PodSetsOf(const kube::ObjectKey& key, const Json& request) const;
  Rooms FreeRooms(const std::string& but) const;
  std::optional<int64_t> NodesMissing(const std::vector<PodSet>& sets, Rooms rooms) const;
  bool IsAnythingKept() const;
  void RemoveIdle();
  bool IsUsed(const std::string& node) const;

  Prng* prng() { return &parts_.context->autoscaler_prng; }

  Duration Soon(std::chrono::milliseconds min, std::chrono::milliseconds max);

  Parts parts_;
  int gpus_of_node_;
  TimePoint back_at_{};
  std::map<std::string, Intent> intents_;          // by uid
  std::multiset<TimePoint> ordered_;               // when nodes join
  std::set<std::string> own_;                      // nodes that it has added
  std::map<std::string, TimePoint> unused_since_;  // of those
  std::map<std::string, TimePoint> leaves_at_;     // of those
  int next_node_ = 1;
};

}  // namespace lockstep::control::sim
