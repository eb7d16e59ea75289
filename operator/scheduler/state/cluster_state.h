#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/resources/node_usage.h"
#include "operator/scheduler/nodes/node_ledger.h"
#include "operator/scheduler/queue/queue_tree.h"
#include "operator/scheduler/state/gang_request.h"

namespace lockstep::control {

enum class GangState {
  kWaiting,
  kClaiming,  // room is kept for it, and those in its way were asked to go
  kRunning,
  kLeaving,  // was asked to go, and holds its room until it has gone
};

// What a gang holds of one node.
struct NodeHold {
  NodeIndex node = 0;
  NodeUsage usage;
};

// What is held of each node, of which `holds` may have several parts.
std::map<NodeIndex, NodeUsage> SumByNode(const std::vector<NodeHold>& holds);

struct GangRecord {
  GangRequest request;
  uint64_t serial = 0;             // another one for every request, for what is remembered of it
  std::vector<PodClass> classes;   // as MergedClasses gives them; of a gang that waits or claims
  std::vector<ShapeIndex> shapes;  // one for each class
  ResourceVector total;
  int64_t pod_count = 0;
  std::string space;                // its namespace
  std::optional<QueueIndex> queue;  // empty: no such queue
  GangState state = GangState::kWaiting;
  PlacedPods claimed_pods;      // of kClaiming
  WallTime claimed_at{};        // of kClaiming: since when its room is kept
  std::vector<NodeHold> holds;  // of all but kWaiting
  RunTerms run;                 // of kRunning and kLeaving
  // Of kRunning: its places are not in its status yet. It holds them, and goes for nobody.
  bool is_promised = false;
  std::string beneficiary;            // of kLeaving
  std::optional<Unschedulable> told;  // what was said last of why it waits
  uint64_t told_at = 0;               // news() then
  mutable std::size_t place = 0;      // among RunningIn its queue, which keeps it
};

// When the gang will have ended at the latest if it starts now; null: nobody stops it.
std::optional<WallTime> EndOf(const GangRequest& request, WallTime now);

// When it will have ended if it runs no longer than others of its kind did, or than it may; null:
// nobody knows.
std::optional<WallTime> ExpectedEndOf(const GangRequest& request, WallTime now);

// When the running gang will have ended if it runs no longer than others of its kind did; null:
// nothing is known of those, or it is stopped sooner.
std::optional<WallTime> LearntEndOf(const GangRecord& gang);

// Who comes first: by time, then by name.
bool IsOlder(const GangRecord& a, const GangRecord& b);

// What one gang holds of a node, and who it is.
struct NodeHolder {
  const GangRecord* gang = nullptr;
  const NodeUsage* usage = nullptr;
};

class StateRecorder;

// Whether the operation is for a gang in this state.
bool IsFor(OperationKind kind, GangState state);

// All that a scheduling round knows: nodes and what everybody holds of them, gangs, queues. It
// changes by events, one at a time, and by operations that a round decided; cost in what changes.
//
// Nothing in it depends on the order in which nodes, queues or gangs became known.
// Thread: one.
class ClusterState {
 public:
  struct Options {
    std::vector<std::string> levels;  // labels of nodes, from wide to narrow; not kHostLevel
    bool is_one_machine = false;
  };

  explicit ClusterState(Options options);
  ClusterState(const ClusterState&) = delete;
  ClusterState& operator=(const ClusterState&) = delete;

  // Hears of every event from now on, before it is done, and outlives the state; null: nobody does.
  void SetRecorder(StateRecorder* recorder) { recorder_ = recorder; }

  StateRecorder* recorder() const { return recorder_; }

  // Events.
  // The node; `used` and `pod_count` of it are what strangers hold.
  void SetNode(const SnapshotNode& node);
  void RemoveNode(const std::string& name);
  void SetStrangers(const std::string& node, const NodeUsage& usage);

  // `unserved`: why queues of those names, in `specs` or not, are not served. What gangs hold that
  // run in one of `specs` counts there all the same. Errors as of QueueTree::Set.
  Status SetQueues(const std::vector<QueueSpec>& specs,
                   std::map<std::string, std::string> unserved = {});
  // As of QueueTree; no news: it counts in the next round, and asks for none.
  void SetPastUse(const PastUseByQueue& past);
  // The gang waits, from now on with this request; one that holds room loses it.
  void Submit(const GangRequest& request);
  // The gang runs there, whatever was known of it: what is found when a program starts.
  void SetRunning(const GangRequest& request, const PlacedPods& pods, const RunTerms& run);
  // The same where what it holds of each node is known, rather than what it asked for: `request`
  // may leave out its pods.
  void SetHolding(const GangRequest& request, const UsageByNode& usage, const RunTerms& run);
  // The running gang's places were only promised to it, or are its own now.
  void SetPromised(const std::string& gang, bool is_promised);
  // The waiting or claiming gang is so far with asking autoscalers; what it was told stands.
  void SetAsking(const std::string& gang, const Asking& asking);
  // Whether the pods of the waiting or claiming gang may be created; what it was told stands.
  void SetPermission(const std::string& gang, const PodPermission& permission);
  // A running gang has a newer checkpoint.
  void SetSaved(const std::string& gang, WallTime saved_at);
  // The gang has ended, is suspended or is gone, with all its pods.
  void Remove(const std::string& gang);

  // Does what a round decided. Precondition (checked): the gang is known, and in the state that the
  // operation is for.
  void Apply(const Operation& operation, WallTime now);
  // Notes what is said of why the gang waits.
  void Tell(const std::string& gang, const Unschedulable& refusal);

  // Questions.
  // How many events and operations there were.
  uint64_t news() const { return news_; }

  const NodeLedger& nodes() const { return nodes_; }

  const QueueTree& queues() const { return queues_; }

  const GangRecord* Find(const std::string& gang) const;

  const std::map<std::string, GangRecord>& gangs() const { return gangs_; }

  // Waiting gangs by queue, the oldest first; those of no queue under kTopQueue.
  using WaitingSet = std::set<const GangRecord*, bool (*)(const GangRecord*, const GangRecord*)>;

  const std::vector<WaitingSet>& waiting() const { return waiting_; }

  const WaitingSet& claiming() const { return claiming_; }

  // Why the queue of that name is there and is not served; null: it is not there, or is served.
  const std::string* WhyUnserved(const std::string& queue) const;

  // Queues that are there and are not served, with why.
  const std::map<std::string, std::string>& unserved() const { return unserved_; }

  // In no order that means anything.
  const std::vector<const GangRecord*>& RunningIn(QueueIndex queue) const {
    return running_[queue];
  }

  // Running gangs that are stopped some day, the first first.
  using StopSet = std::set<const GangRecord*, bool (*)(const GangRecord*, const GangRecord*)>;

  const StopSet& stopping() const { return stopping_; }

  // Running gangs that have a LearntEndOf, the first by that first.
  const StopSet& expecting() const { return expecting_; }

  // The least among the running gangs of the queue; empty where none runs.
  std::optional<int64_t> LowestPriorityIn(QueueIndex queue) const;

  const WaitingSet& leaving() const { return leaving_; }

  // Running, leaving and claiming gangs of the node, in no order that means anything.
  const std::vector<NodeHolder>& HoldersOf(NodeIndex node) const { return holders_[node]; }

  // What the pods would hold of their nodes, all of which are known. One node may come twice.
  std::vector<NodeHold> HoldsOf(const GangRecord& gang, const PlacedPods& pods) const;
  // Nodes on which gangs that are younger hold room, or will; each once.
  std::vector<NodeIndex> NodesOfYounger(const GangRecord& gang) const;
  // What the node has left when all have ended that are older than `gang`, or were asked to go.
  NodeFree FreeLater(NodeIndex node, const GangRecord& gang) const;

 private:
  friend class Statement;

  // What an operation took away, so that it can be undone.
  struct Undo {
    GangRecord* gang = nullptr;
    Operation operation;
    GangState state = GangState::kWaiting;
    std::vector<NodeHold> holds;
    PlacedPods claimed_pods;
    WallTime claimed_at;
    RunTerms run;
    std::string beneficiary;
    bool is_undone = false;
  };

  template <typename MakeEvent>
  void Record(const MakeEvent& make_event) const;
  void Forget(const std::string& gang);
  void NotePromised(GangRecord* gang, bool is_promised);
  Undo Do(const Operation& operation, WallTime now);
  void TakeBack(const Undo& undo);
  // The gang's pods are gone from the nodes, and from its queue's bill, or are back: for looking,
  // without any record.
  void Vacate(const GangRecord& gang);
  void Reoccupy(const GangRecord& gang);

  GangRecord& At(const std::string& gang);
  GangRecord& Insert(const GangRequest& request);
  void EnterRunning(GangRecord* gang, std::vector<NodeHold> holds, const RunTerms& run);
  void AddShapes(GangRecord* gang);
  void DropShapes(GangRecord* gang);
  void Enter(GangRecord* gang);
  void Exit(GangRecord* gang);
  // The same between two states in which it holds its room.
  void Join(GangRecord* gang);
  void Leave(GangRecord* gang);
  bool MayAnybodyPreempt() const;
  void NoteHolders(const GangRecord& gang);
  void ForgetHolders(const GangRecord& gang);

  StateRecorder* recorder_ = nullptr;
  NodeLedger nodes_;
  QueueTree queues_;
  std::map<std::string, std::string> unserved_;  // queues that are not served, and why
  uint64_t serials_ = 0;
  uint64_t news_ = 0;
  std::map<std::string, GangRecord> gangs_;
  std::vector<WaitingSet> waiting_;
  std::vector<std::vector<const GangRecord*>> running_;  // by queue
  std::vector<std::map<int64_t, int64_t>> priorities_;   // of those, with how many
  WaitingSet holding_;                                   // all that do not wait
  WaitingSet claiming_;
  WaitingSet leaving_;
  StopSet stopping_;
  StopSet expecting_;
  std::vector<std::vector<NodeHolder>> holders_;  // by node
};

// Tentative operations on a state, in the order in which they were done, all of which are undone
// when the statement ends. Statements of one state nest; the inner ends first.
class Statement {
 public:
  Statement(ClusterState* state, WallTime now) : state_(state), now_(now) {}

  ~Statement() { RollBack(0); }

  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void Do(const Operation& operation) { undos_.push_back(state_->Do(operation, now_)); }

  std::size_t checkpoint() const { return undos_.size(); }

  void RollBack(std::size_t checkpoint);
  // Undoes the one operation that was done at that checkpoint, an eviction whose gang no later one
  // is about.
  void TakeBack(std::size_t checkpoint);

  // Gangs whose pods are looked away from. They are to be put back before anything is done about
  // them, or rolled back.
  void Vacate(const GangRecord& gang) { state_->Vacate(gang); }

  void Reoccupy(const GangRecord& gang) { state_->Reoccupy(gang); }

  const ClusterState& state() const { return *state_; }

  WallTime now() const { return now_; }

  std::vector<Operation> operations() const;

 private:
  ClusterState* state_;
  WallTime now_;
  std::vector<ClusterState::Undo> undos_;
};

// One line for each: "start default/a w-0@n1 w-1@n2", "evict default/b for default/a".
std::string ToText(const Operation& operation);

}  // namespace lockstep::control
