#include "trainer-runtime/collectives/hierarchical_communicator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "common/contract/status/lost_peer.h"
#include "trainer-runtime/collectives/communicator/failure_latch.h"
#include "trainer-runtime/collectives/communicator/links.h"
#include "trainer-runtime/collectives/host_groups.h"

namespace lockstep::runtime {
namespace {

// Above every place in a group.
constexpr int32_t kNobody = std::numeric_limits<int32_t>::max();

class HierarchicalCommunicator final : public CommunicatorFront {
 public:
  HierarchicalCommunicator(const CommunicatorOptions& options, HierarchyParts parts)
      : CommunicatorFront(options.rank, options.world_size, options.epoch),
        own_group_(GroupOf(parts.groups, options.rank)),
        parts_(std::move(parts)) {}

  Status CheckHealth() override;

  const char* BackendName() const override { return "hierarchical"; }

  std::string Detail() const override {
    const std::string within = parts_.within == nullptr ? "" : parts_.within->Detail();
    return "shared memory within a host, TCP between hosts" + (within.empty() ? "" : ", " + within);
  }

  void Abort(const Error& reason) noexcept override;

 private:
  Status Run(const CallContext& context, std::byte* data) override;
  Status RunPhases(const CallContext& context, std::byte* data);
  // For the next call of each: the first that compares the ranks' calls.
  void NoteTermsOfParts(const Call& call);
  Status AllReduce(const CallContext& context, std::byte* data);
  Status Broadcast(const CallContext& context, std::byte* data);
  Result<int32_t> FindFirstHolder(const CallContext& context);
  Status Barrier(const CallContext& context);
  // Makes one part's failure that of both, and of this communicator.
  Status Fail(const Error& error);

  const int own_group_;
  HierarchyParts parts_;
  FailureLatch failure_;
};

Status HierarchicalCommunicator::Run(const CallContext& context, std::byte* data) {
  if (failure_.is_set()) {
    return failure_.Get();
  }
  const Status status = RunPhases(context, data);
  if (status.ok()) {
    return status;
  }
  // A peer of another host may have said why, before a lesser reason ended the call on this one.
  const Status elsewhere = parts_.across == nullptr ? OkStatus() : parts_.across->CheckHealth();
  return Fail(elsewhere.ok() ? status.error() : elsewhere.error());
}

Status HierarchicalCommunicator::RunPhases(const CallContext& context, std::byte* data) {
  switch (context.call.operation) {
    case Operation::kAllReduce:
      return AllReduce(context, data);
    case Operation::kBroadcast:
      return Broadcast(context, data);
    case Operation::kBarrier:
    case Operation::kAnnounceBroadcast:
      return Barrier(context);
  }
  return OkStatus();
}

void HierarchicalCommunicator::NoteTermsOfParts(const Call& call) {
  for (CommunicatorFront* part : {parts_.within.get(), parts_.across.get()}) {
    if (part != nullptr) {
      part->NoteTerms(call.terms);
    }
  }
}

//   rank      0     1  |  2     3          two hosts
//   within    0+1  0+1 |  2+3  2+3
//   across    0+1+2+3     0+1+2+3
//   within          ^--|        ^--        from the host's first rank
//
// All get the bits that the first ranks have got from each other.
Status HierarchicalCommunicator::AllReduce(const CallContext& context, std::byte* data) {
  const Call& call = context.call;
  const Deadline deadline = context.deadline;
  NoteTermsOfParts(call);
  if (parts_.within != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(
        parts_.within->AllReduce(data, call.count, call.type, call.reduce, deadline));
  }
  if (parts_.across != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(
        parts_.across->AllReduce(data, call.count, call.type, call.reduce, deadline));
  }
  return parts_.within == nullptr
             ? OkStatus()
             : parts_.within->Broadcast(data, CallBytes(call), /*root=*/0, deadline);
}

// Before bytes move all have to want the same: the parts know their own roots only. A host of which
// one rank holds the bytes already gets them from that one, and nothing comes over the wire.
Status HierarchicalCommunicator::Broadcast(const CallContext& context, std::byte* data) {
  const std::size_t bytes = CallBytes(context.call);
  const int root = context.call.root;
  const Deadline deadline = context.deadline;
  const int root_group = GroupOf(parts_.groups, root);
  const std::vector<int>& ranks = parts_.groups[static_cast<std::size_t>(own_group_)];
  NoteTermsOfParts(context.call);
  if (parts_.within != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(parts_.within->AnnounceBroadcast(bytes, root, deadline));
  }
  if (parts_.across != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(parts_.across->AnnounceBroadcast(bytes, root, deadline));
  }
  const bool holds = context.call.holds != 0;
  // Who serves this host's ranks: the root if it is here, else the first that holds the bytes.
  const auto root_place = std::find(ranks.begin(), ranks.end(), root) - ranks.begin();
  auto place = own_group_ == root_group            ? static_cast<int32_t>(root_place)
               : holds && parts_.within == nullptr ? 0
                                                   : kNobody;
  if (parts_.within != nullptr && own_group_ != root_group) {
    LOCKSTEP_ASSIGN_OR_RETURN(place, FindFirstHolder(context));
  }
  const bool is_held_here = place != kNobody;
  if (parts_.within != nullptr && is_held_here) {
    LOCKSTEP_RETURN_IF_ERROR(parts_.within->Fill(data, bytes, place, holds, deadline));
  }
  if (parts_.across != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(parts_.across->Fill(data, bytes, root_group, is_held_here, deadline));
  }
  return parts_.within == nullptr || is_held_here
             ? OkStatus()
             : parts_.within->Broadcast(data, bytes, /*root=*/0, deadline);
}

// The place in the group of its first rank that holds a broadcast's bytes, or kNobody.
// Precondition: the group has several ranks.
Result<int32_t> HierarchicalCommunicator::FindFirstHolder(const CallContext& context) {
  int32_t place = context.call.holds != 0 ? parts_.within->rank() : kNobody;
  LOCKSTEP_RETURN_IF_ERROR(
      parts_.within->AllReduce(&place, 1, DataType::kInt32, ReduceOp::kMin, context.deadline));
  return place;
}

Status HierarchicalCommunicator::Barrier(const CallContext& context) {
  if (parts_.within != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(parts_.within->Barrier(context.deadline));
  }
  if (parts_.across != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(parts_.across->Barrier(context.deadline));
  }
  return parts_.within == nullptr ? OkStatus() : parts_.within->Barrier(context.deadline);
}

Status HierarchicalCommunicator::Fail(const Error& error) {
  failure_.Set(error);
  const Error first = failure_.Get();
  if (parts_.within != nullptr) {
    parts_.within->Abort(first);
  }
  if (parts_.across != nullptr) {
    parts_.across->Abort(first);
  }
  return first;
}

// Each part keeps what a peer has reported to it before; the next call fails with that.
void HierarchicalCommunicator::Abort(const Error& reason) noexcept {
  if (parts_.within != nullptr) {
    parts_.within->Abort(reason);
  }
  if (parts_.across != nullptr) {
    parts_.across->Abort(reason);
  }
}

Status HierarchicalCommunicator::CheckHealth() {
  if (failure_.is_set()) {
    return failure_.Get();
  }
  for (CommunicatorFront* part : {parts_.within.get(), parts_.across.get()}) {
    if (part != nullptr) {
      if (const Status health = part->CheckHealth(); !health.ok()) {
        return Fail(health.error());
      }
    }
  }
  const std::vector<int> lost = FindLostPeers(parts_.spare_links);
  return lost.empty()
             ? OkStatus()
             : Fail(Error(ErrorCode::kPeerLost, DescribeLostPeers({lost.front()}, kLinkIsClosed)));
}

}  // namespace

std::unique_ptr<Communicator> MakeHierarchicalCommunicator(const CommunicatorOptions& options,
                                                           HierarchyParts parts) {
  return std::make_unique<HierarchicalCommunicator>(options, std::move(parts));
}

}  // namespace lockstep::runtime
