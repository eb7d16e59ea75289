#include "trainer-runtime/collectives/shared_memory/lent_memory.h"

#include <algorithm>
#include <poll.h>
#include <utility>

#include "common/base/check.h"
#include "trainer-runtime/collectives/shared_memory/setup_messages.h"

// Everyone fetches from everyone:
//
//   all -> all   Offer     where this peer fetches my memory
//   all -> all   (socket)  calls there; nobody waits for an answer before it has called all
//   all -> all   (socket)  each serves its callers, then takes what it called for
//   all -> all   Answer    mapped all of them or not
//
// Whoever cannot goes on all the same and says no, and nobody waits for a call of one who has said
// so already.

namespace lockstep::runtime {
namespace {

// How one rank hands its memory to each of the others, and takes theirs.
class MemoryExchange {
 public:
  MemoryExchange(const CommunicatorOptions& options, Deadline deadline)
      : options_(options),
        deadline_(deadline),
        servers_(static_cast<std::size_t>(options.world_size)),
        calls_(servers_.size()) {}

  Result<LentMemory> Run();

 private:
  template <typename Visit>
  Status ForEachPeer(const Visit& visit) const {
    for (int peer = 0; peer < options_.world_size; ++peer) {
      if (peer != options_.rank) {
        LOCKSTEP_RETURN_IF_ERROR(visit(peer, static_cast<std::size_t>(peer)));
      }
    }
    return OkStatus();
  }

  Status Offer();
  Status Call();
  Status Serve();
  std::vector<SharedSegment> Take();

  const CommunicatorOptions& options_;
  const Deadline deadline_;
  std::vector<std::optional<SegmentServer>> servers_;  // [ranks], one for each peer's call
  std::vector<std::optional<UniqueFd>> calls_;         // [ranks], to each peer's server
};

// A server for each peer, so that it is known who has called.
Status MemoryExchange::Offer() {
  return ForEachPeer([&](int peer, std::size_t i) {
    if (Result<SegmentServer> server = SegmentServer::Open(*options_.lent); server.ok()) {
      servers_[i] = std::move(server).value();
    }
    return SendTo(options_,
                  peer,
                  servers_[i].has_value() ? ToSetupOffer(servers_[i]->offer()) : SetupOffer(),
                  deadline_);
  });
}

Status MemoryExchange::Call() {
  return ForEachPeer([&](int peer, std::size_t i) -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const SetupOffer offer,
                              ReceiveFrom<SetupOffer>(options_, peer, deadline_));
    if (offer.byte_count != options_.lent->size()) {
      return OkStatus();
    }
    if (Result<UniqueFd> call = CallSegmentServer(FromSetupOffer(offer)); call.ok()) {
      calls_[i] = std::move(call).value();
    }
    return OkStatus();
  });
}

// A peer that has sent its answer has called before, or never will.
Status MemoryExchange::Serve() {
  return ForEachPeer([&](int peer, std::size_t i) -> Status {
    while (servers_[i].has_value()) {
      std::array<pollfd, 2> entries{
          {{servers_[i]->fd(), POLLIN, 0}, {options_.links[i].get(), POLLIN, 0}}};
      const int wait_ms = deadline_.RemainingMilliseconds(SteadyNow());
      ::poll(entries.data(), entries.size(), wait_ms);
      const bool is_served = entries[0].revents != 0 && servers_[i]->ServeOne(*options_.lent);
      if (is_served || entries[1].revents != 0) {
        break;
      }
      if (deadline_.HasPassed(SteadyNow())) {
        return SetupError(
            options_,
            peer,
            Error(ErrorCode::kTimeout, "the peer did not fetch this rank's shared memory in time"));
      }
    }
    return OkStatus();
  });
}

// Empty: not all could be had.
std::vector<SharedSegment> MemoryExchange::Take() {
  std::vector<SharedSegment> memories;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (i == static_cast<std::size_t>(options_.rank)) {
      memories.push_back(SharedSegment::Borrow(*options_.lent));
      continue;
    }
    if (!calls_[i].has_value()) {
      return {};
    }
    Result<UniqueFd> fd = AwaitDescriptor(*calls_[i], options_.links[i], deadline_);
    if (!fd.ok()) {
      return {};
    }
    auto memory = SharedSegment::MapReadOnly(std::move(fd).value(), options_.lent->size());
    if (!memory.ok()) {
      return {};
    }
    memories.push_back(std::move(memory).value());
  }
  return memories;
}

Result<LentMemory> MemoryExchange::Run() {
  LOCKSTEP_RETURN_IF_ERROR(Offer());
  LOCKSTEP_RETURN_IF_ERROR(Call());
  LOCKSTEP_RETURN_IF_ERROR(Serve());
  std::vector<SharedSegment> memories = Take();
  const SetupAnswer mine{!memories.empty()};
  LOCKSTEP_RETURN_IF_ERROR(
      ForEachPeer([&](int peer, std::size_t) { return SendTo(options_, peer, mine, deadline_); }));
  bool have_all = mine.is_yes != 0;
  LOCKSTEP_RETURN_IF_ERROR(ForEachPeer([&](int peer, std::size_t) -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const SetupAnswer theirs,
                              ReceiveFrom<SetupAnswer>(options_, peer, deadline_));
    have_all = have_all && theirs.is_yes != 0;
    return OkStatus();
  }));
  return have_all ? LentMemory(options_.rank, std::move(memories)) : LentMemory();
}

}  // namespace

LentMemory::LentMemory(int rank, std::vector<SharedSegment> memories)
    : rank_(rank), memories_(std::move(memories)) {
  for (const SharedSegment& memory : memories_) {
    LOCKSTEP_CHECK(memory.size() == memories_.front().size(),
                   "the shared memories of the ranks have different sizes");
  }
}

uint64_t LentMemory::PlaceOf(const void* data, std::size_t byte_count) const {
  if (memories_.empty() || byte_count == 0) {
    return 0;
  }
  const SharedSegment& own = memories_[static_cast<std::size_t>(rank_)];
  const auto begin = reinterpret_cast<std::uintptr_t>(own.data());
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  if (at + byte_count <= begin || at >= begin + own.size()) {
    return 0;
  }
  LOCKSTEP_CHECK(at >= begin && at + byte_count <= begin + own.size(),
                 "the data begins or ends outside the shared memory");
  return at - begin + 1;
}

bool LentMemory::Contains(uint64_t place, std::size_t byte_count) const {
  if (memories_.empty() || place == 0) {
    return false;
  }
  const std::size_t size = memories_.front().size();
  return place - 1 <= size && byte_count <= size - (place - 1);
}

Result<LentMemory> ShareLentMemory(const CommunicatorOptions& options, Deadline deadline) {
  return MemoryExchange(options, deadline).Run();
}

}  // namespace lockstep::runtime
