#include "operator/scheduler/state/cluster_state.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "operator/scheduler/plan/arrangement.h"
#include "operator/scheduler/state/state_event.h"

namespace lockstep::control {
namespace {

bool ComesFirst(const GangRecord* a, const GangRecord* b) {
  return IsOlder(*a, *b);
}

// In what way a gang in this state holds its room.
Holding HoldingOf(GangState state) {
  return state == GangState::kClaiming  ? Holding::kClaimed
         : state == GangState::kLeaving ? Holding::kLeaving
                                        : Holding::kStaying;
}

bool StopsFirst(const GangRecord* a, const GangRecord* b) {
  return std::tie(a->run.stops_at, a->request.name) < std::tie(b->run.stops_at, b->request.name);
}

bool IsExpectedFirst(const GangRecord* a, const GangRecord* b) {
  const std::optional<WallTime> end_of_a = LearntEndOf(*a);
  const std::optional<WallTime> end_of_b = LearntEndOf(*b);
  return std::tie(end_of_a, a->request.name) < std::tie(end_of_b, b->request.name);
}

// Whether what the gang holds counts against its queue. Whoever was asked to go has given it back.
bool IsCharged(GangState state) {
  return state == GangState::kClaiming || state == GangState::kRunning;
}

}  // namespace

std::map<NodeIndex, NodeUsage> SumByNode(const std::vector<NodeHold>& holds) {
  std::map<NodeIndex, NodeUsage> by_node;
  for (const NodeHold& hold : holds) {
    NodeUsage& sum = by_node[hold.node];
    sum = {Sum(sum.resources, hold.usage.resources), sum.pod_count + hold.usage.pod_count};
  }
  return by_node;
}

bool IsOlder(const GangRecord& a, const GangRecord& b) {
  return std::tie(a.request.since, a.request.name) < std::tie(b.request.since, b.request.name);
}

ClusterState::ClusterState(Options options)
    : nodes_(std::move(options.levels), options.is_one_machine),
      holding_(ComesFirst),
      claiming_(ComesFirst),
      leaving_(ComesFirst),
      stopping_(StopsFirst),
      expecting_(IsExpectedFirst) {
  const Status set = SetQueues({});
  LOCKSTEP_CHECK(set.ok(), set.error().ToString());
}

// The event is made only where somebody hears of it.
template <typename MakeEvent>
void ClusterState::Record(const MakeEvent& make_event) const {
  if (recorder_ != nullptr) {
    recorder_->OnEvent(make_event());
  }
}

void ClusterState::SetNode(const SnapshotNode& node) {
  Record([&] { return NodeSeen{node}; });
  nodes_.SetNode(node);
  ++news_;
}

void ClusterState::RemoveNode(const std::string& name) {
  Record([&] { return NodeGone{name}; });
  nodes_.RemoveNode(name);
  ++news_;
}

void ClusterState::SetStrangers(const std::string& node, const NodeUsage& usage) {
  Record([&] { return StrangersSeen{node, usage}; });
  nodes_.SetStrangers(node, usage);
  ++news_;
}

Status ClusterState::SetQueues(const std::vector<QueueSpec>& specs,
                               std::map<std::string, std::string> unserved) {
  LOCKSTEP_RETURN_IF_ERROR(queues_.Set(specs));
  Record([&] { return QueuesSeen{specs, unserved}; });
  unserved_ = std::move(unserved);
  waiting_.assign(queues_.size(), WaitingSet(ComesFirst));
  running_.assign(queues_.size(), {});
  priorities_.assign(queues_.size(), {});
  holding_.clear();
  claiming_.clear();
  leaving_.clear();
  stopping_.clear();
  expecting_.clear();
  ++news_;
  for (auto& [name, gang] : gangs_) {
    gang.queue = queues_.Find(gang.request.queue);
    Enter(&gang);
  }
  return OkStatus();
}

void ClusterState::SetPastUse(const PastUseByQueue& past) {
  Record([&] { return PastUseSeen{past}; });
  queues_.SetPastUse(past);
}

const GangRecord* ClusterState::Find(const std::string& gang) const {
  const auto found = gangs_.find(gang);
  return found == gangs_.end() ? nullptr : &found->second;
}

const std::string* ClusterState::WhyUnserved(const std::string& queue) const {
  const auto found = unserved_.find(queue.empty() ? kDefaultQueue : queue);
  return found == unserved_.end() ? nullptr : &found->second;
}

std::optional<int64_t> ClusterState::LowestPriorityIn(QueueIndex queue) const {
  const auto& priorities = priorities_[queue];
  return priorities.empty() ? std::nullopt : std::optional(priorities.begin()->first);
}

GangRecord& ClusterState::At(const std::string& gang) {
  const auto found = gangs_.find(gang);
  LOCKSTEP_CHECK(found != gangs_.end(), gang);
  return found->second;
}

GangRecord& ClusterState::Insert(const GangRequest& request) {
  Forget(request.name);
  ++news_;
  GangRecord& gang = gangs_[request.name];
  gang.request = request;
  gang.serial = ++serials_;
  gang.classes = MergedClasses(request.gang, nodes_.is_one_machine());
  gang.space = request.name.substr(0, request.name.find('/'));
  gang.queue = queues_.Find(request.queue);
  for (const PodClass& pod_class : gang.classes) {
    const auto count = static_cast<int64_t>(pod_class.pods.size());
    gang.total = Sum(gang.total, Times(pod_class.request, count));
    gang.pod_count += count;
  }
  return gang;
}

void ClusterState::AddShapes(GangRecord* gang) {
  for (const PodClass& pod_class : gang->classes) {
    gang->shapes.push_back(nodes_.AddShape(pod_class));
  }
}

void ClusterState::DropShapes(GangRecord* gang) {
  for (const ShapeIndex shape : gang->shapes) {
    nodes_.DropShape(shape);
  }
  gang->shapes.clear();
}

void ClusterState::Enter(GangRecord* gang) {
  Join(gang);
  if (gang->state != GangState::kWaiting) {
    holding_.insert(gang);
  }
}

void ClusterState::Exit(GangRecord* gang) {
  if (gang->state != GangState::kWaiting) {
    holding_.erase(gang);
  }
  Leave(gang);
}

// Into the lists that its state belongs to, and onto its queue's bill.
void ClusterState::Join(GangRecord* gang) {
  const QueueIndex queue = gang->queue.value_or(kTopQueue);
  switch (gang->state) {
    case GangState::kWaiting:
      waiting_[queue].insert(gang);
      return;
    case GangState::kClaiming:
      claiming_.insert(gang);
      break;
    case GangState::kLeaving:
      leaving_.insert(gang);
      break;
    case GangState::kRunning:
      gang->place = running_[queue].size();
      running_[queue].push_back(gang);
      ++priorities_[queue][gang->request.priority];
      if (gang->run.stops_at != WallTime{}) {
        stopping_.insert(gang);
      }
      if (LearntEndOf(*gang)) {
        expecting_.insert(gang);
      }
      break;
  }
  if (IsCharged(gang->state) && gang->queue) {
    queues_.Charge({queue, gang->space}, gang->total);
  }
  if (gang->is_promised && gang->queue) {
    queues_.Promise(queue, gang->total);
  }
}

void ClusterState::Leave(GangRecord* gang) {
  const QueueIndex queue = gang->queue.value_or(kTopQueue);
  switch (gang->state) {
    case GangState::kWaiting:
      waiting_[queue].erase(gang);
      return;
    case GangState::kClaiming:
      claiming_.erase(gang);
      break;
    case GangState::kLeaving:
      leaving_.erase(gang);
      break;
    case GangState::kRunning: {
      std::vector<const GangRecord*>& running = running_[queue];
      running[gang->place] = running.back();
      running[gang->place]->place = gang->place;
      running.pop_back();
      const auto priority = priorities_[queue].find(gang->request.priority);
      if (--priority->second == 0) {
        priorities_[queue].erase(priority);
      }
      stopping_.erase(gang);
      expecting_.erase(gang);
      break;
    }
  }
  if (IsCharged(gang->state) && gang->queue) {
    queues_.Refund({queue, gang->space}, gang->total);
  }
  if (gang->is_promised && gang->queue) {
    queues_.EndPromise(queue, gang->total);
  }
}

void ClusterState::Submit(const GangRequest& request) {
  Record([&] { return GangSubmitted{request}; });
  GangRecord& gang = Insert(request);
  AddShapes(&gang);
  Enter(&gang);
}

void ClusterState::SetRunning(const GangRequest& request,
                              const PlacedPods& pods,
                              const RunTerms& run) {
  Record([&] { return GangRuns{request, pods, run}; });
  GangRecord& gang = Insert(request);
  for (const PlacedPod& placed : pods) {
    nodes_.IndexOf(placed.node);  // it may be seen later than its pods
  }
  EnterRunning(&gang, HoldsOf(gang, pods), run);
  for (const PlacedPod& placed : pods) {
    if (const auto node = nodes_.Find(placed.node)) {
      nodes_.ForgetIfGone(*node);  // where pods are that it does not ask for
    }
  }
}

void ClusterState::SetHolding(const GangRequest& request,
                              const UsageByNode& usage,
                              const RunTerms& run) {
  Record([&] { return GangHolds{request, usage, run}; });
  GangRecord& gang = Insert(request);
  std::vector<NodeHold> holds;
  gang.total = ResourceVector{};
  gang.pod_count = 0;
  for (const auto& [node, use] : usage) {
    holds.push_back({nodes_.IndexOf(node), use});
    gang.total = Sum(gang.total, use.resources);
    gang.pod_count += use.pod_count;
  }
  EnterRunning(&gang, std::move(holds), run);
}

void ClusterState::EnterRunning(GangRecord* gang,
                                std::vector<NodeHold> holds,
                                const RunTerms& run) {
  gang->state = GangState::kRunning;
  gang->run = run;
  gang->holds = std::move(holds);
  NoteHolders(*gang);
  Enter(gang);
  for (const NodeHold& hold : gang->holds) {
    nodes_.Hold(hold.node, Holding::kStaying, hold.usage);
  }
}

void ClusterState::SetPromised(const std::string& gang, bool is_promised) {
  Record([&] { return GangPromised{gang, is_promised}; });
  NotePromised(&At(gang), is_promised);
}

void ClusterState::NotePromised(GangRecord* gang, bool is_promised) {
  if (gang->state != GangState::kRunning || gang->is_promised == is_promised) {
    return;
  }
  gang->is_promised = is_promised;
  if (gang->queue) {
    is_promised ? queues_.Promise(*gang->queue, gang->total)
                : queues_.EndPromise(*gang->queue, gang->total);
  }
  if (!is_promised && MayAnybodyPreempt()) {
    ++news_;  // it may go for another now
  }
}

bool ClusterState::MayAnybodyPreempt() const {
  for (QueueIndex queue = 1; queue < queues_.size(); ++queue) {
    const QueueSpec& spec = queues_.SpecOf(queue);
    if (spec.preempts_lower_priority || spec.reclaims) {
      return true;
    }
  }
  return false;
}

void ClusterState::SetAsking(const std::string& gang, const Asking& asking) {
  Record([&] { return GangAsks{gang, asking}; });
  if (const auto found = gangs_.find(gang); found != gangs_.end()) {
    found->second.request.asking = asking;
    ++news_;
  }
}

void ClusterState::SetPermission(const std::string& gang, const PodPermission& permission) {
  Record([&] { return GangPermitted{gang, permission}; });
  if (const auto found = gangs_.find(gang); found != gangs_.end()) {
    found->second.request.permission = permission;
    ++news_;
  }
}

void ClusterState::SetSaved(const std::string& gang, WallTime saved_at) {
  Record([&] { return GangSaved{gang, saved_at}; });
  if (const auto found = gangs_.find(gang); found != gangs_.end()) {
    found->second.run.saved_at = saved_at;
  }
}

void ClusterState::Remove(const std::string& gang) {
  Record([&] { return GangRemoved{gang}; });
  Forget(gang);
}

void ClusterState::Forget(const std::string& gang) {
  const auto found = gangs_.find(gang);
  if (found == gangs_.end()) {
    return;
  }
  ++news_;
  GangRecord& record = found->second;
  Exit(&record);
  ForgetHolders(record);
  for (const NodeHold& hold : record.holds) {
    nodes_.Release(hold.node, HoldingOf(record.state), hold.usage);
  }
  DropShapes(&record);
  for (const NodeHold& hold : record.holds) {
    nodes_.ForgetIfGone(hold.node);
  }
  gangs_.erase(found);
}

void ClusterState::Apply(const Operation& operation, WallTime now) {
  Record([&] { return OperationDone{operation, now}; });
  const Undo before = Do(operation, now);
  for (const NodeHold& hold : before.holds) {
    nodes_.ForgetIfGone(hold.node);
  }
  ++news_;
  GangRecord& gang = At(operation.gang);
  if (operation.kind == OperationKind::kStart) {
    NotePromised(&gang, false);  // it was, within its round
    DropShapes(&gang);
    gang.told.reset();
  }
}

void ClusterState::Tell(const std::string& gang, const Unschedulable& refusal) {
  Record([&] { return GangTold{gang, refusal}; });
  GangRecord& record = At(gang);
  record.told = refusal;
  record.told_at = news_;
}

// What pods ask for by node. Neighbours in rank order mostly share their node: they are one hold.
std::vector<NodeHold> ClusterState::HoldsOf(const GangRecord& gang, const PlacedPods& pods) const {
  std::map<std::string_view, const PodClass*> class_of;  // where there is a choice
  for (std::size_t c = 0; gang.classes.size() > 1 && c < gang.classes.size(); ++c) {
    for (const std::string& pod : gang.classes[c].pods) {
      class_of.emplace(pod, &gang.classes[c]);
    }
  }
  std::vector<NodeHold> holds;
  for (std::size_t begin = 0; begin < pods.size();) {
    const auto class_at = [&](std::size_t index) -> const PodClass* {
      if (gang.classes.size() == 1) {
        return &gang.classes.front();
      }
      const auto found = class_of.find(pods[index].pod);
      return found == class_of.end() ? nullptr : found->second;
    };
    const PodClass* const pod_class = class_at(begin);
    if (pod_class == nullptr) {
      ++begin;  // of an earlier request, in which it was called otherwise
      continue;
    }
    std::size_t end = begin + 1;
    while (end < pods.size() && pods[end].node == pods[begin].node && class_at(end) == pod_class) {
      ++end;
    }
    const auto count = static_cast<int64_t>(end - begin);
    holds.push_back({*nodes_.Find(pods[begin].node), {Times(pod_class->request, count), count}});
    begin = end;
  }
  return holds;
}

void ClusterState::NoteHolders(const GangRecord& gang) {
  if (holders_.size() < nodes_.index_end()) {
    holders_.resize(nodes_.index_end());
  }
  for (const NodeHold& hold : gang.holds) {
    holders_[hold.node].push_back({&gang, &hold.usage});
  }
}

void ClusterState::ForgetHolders(const GangRecord& gang) {
  for (const NodeHold& hold : gang.holds) {
    std::vector<NodeHolder>& holders = holders_[hold.node];
    const auto own = std::find_if(holders.begin(), holders.end(), [&](const NodeHolder& holder) {
      return holder.usage == &hold.usage;
    });
    *own = holders.back();
    holders.pop_back();
  }
}

std::vector<NodeIndex> ClusterState::NodesOfYounger(const GangRecord& gang) const {
  std::vector<NodeIndex> nodes;
  for (auto younger = holding_.upper_bound(&gang); younger != holding_.end(); ++younger) {
    for (const NodeHold& hold : (*younger)->holds) {
      nodes.push_back(hold.node);
    }
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

NodeFree ClusterState::FreeLater(NodeIndex node, const GangRecord& gang) const {
  NodeFree later = nodes_.FreeOfStrangers(node);
  if (node >= holders_.size()) {
    return later;
  }
  for (const NodeHolder& holder : holders_[node]) {
    if (holder.gang->state != GangState::kLeaving && IsOlder(gang, *holder.gang)) {
      later = Beside(std::move(later), *holder.usage);
    }
  }
  return later;
}

}  // namespace lockstep::control
