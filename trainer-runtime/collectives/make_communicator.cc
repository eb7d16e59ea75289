#include <algorithm>
#include <array>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

#include "common/base/digest.h"
#include "trainer-runtime/collectives/communicator/communicator_front.h"
#include "trainer-runtime/collectives/communicator/failure_latch.h"
#include "trainer-runtime/collectives/hierarchical_communicator.h"
#include "trainer-runtime/collectives/host_groups.h"
#include "trainer-runtime/collectives/shared_memory/lent_memory.h"
#include "trainer-runtime/collectives/shared_memory/setup_messages.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_communicator.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_layout.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"
#include "trainer-runtime/collectives/tcp/tcp_communicator.h"

// How ranks agree on a backend. Rank 0 leads; every message is Hello or one of setup_messages.h,
// over the links.
//
//   all -> all       Hello     who I am, what I plan, whether I can share memory, what I lend
//
// Then on each host with several ranks, whose first one leads there:
//
//   lead -> others   Offer     where to fetch the segment
//   others -> lead   Answer    mapped it or not
//   lead -> others   Answer    all mapped it
//
// and where there are other hosts besides:
//
//   all -> 0         Answer    my host's ranks share memory, or I am alone there
//   0 -> all         Answer    so do all: shared memory within hosts, TCP between; else TCP
//
// At last, where all ranks of a host lend as much, what lent_memory.cc says.

namespace lockstep::runtime {
namespace {

constexpr uint64_t kProtocol = 0x344c4c4f434b534c;  // "LSKCOLL4": magic, byte order and version

struct Hello {
  uint64_t protocol = kProtocol;
  int64_t epoch = 0;
  uint64_t plan_hash = 0;
  int32_t rank = 0;
  int32_t world_size = 0;
  uint64_t lent_bytes = 0;         // of memory for the ranks of its host to read
  char host[kSetupNameSize] = {};  // hash of the host id; empty: cannot share memory
};

Status CheckOptions(const CommunicatorOptions& options) {
  const auto fail = [](const std::string& what) {
    return Error(ErrorCode::kInvalidArgument, "communicator: " + what);
  };
  if (options.world_size < 1 || options.world_size > kWorldSizeMax) {
    return fail("world size " + std::to_string(options.world_size) + " is not in 1.." +
                std::to_string(kWorldSizeMax));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    return fail("rank " + std::to_string(options.rank) + " is not below the world size " +
                std::to_string(options.world_size));
  }
  const auto world_size = static_cast<std::size_t>(options.world_size);
  if (options.world_size > 1 && options.links.size() != world_size) {
    return fail(std::to_string(options.links.size()) + " links for a world size of " +
                std::to_string(options.world_size));
  }
  if (!options.host_ids.empty() && options.host_ids.size() != world_size) {
    return fail(std::to_string(options.host_ids.size()) + " host ids for a world size of " +
                std::to_string(options.world_size));
  }
  for (int peer = 0; peer < options.world_size && options.world_size > 1; ++peer) {
    if (options.links[static_cast<std::size_t>(peer)].is_open() == (peer == options.rank)) {
      return fail("this rank has a link to itself, or no link to rank " + std::to_string(peer));
    }
  }
  return OkStatus();
}

Hello MakeHello(const CommunicatorOptions& options) {
  Hello hello;
  hello.epoch = options.epoch.value();
  hello.plan_hash = options.plan_hash;
  hello.rank = options.rank;
  hello.world_size = options.world_size;
  if (options.allow_shared_memory && !options.host_ids.empty()) {
    hello.lent_bytes = options.lent == nullptr ? 0 : options.lent->size();
    SetText(hello.host, Sha256Hex(options.host_ids[static_cast<std::size_t>(options.rank)]));
  }
  return hello;
}

// What differs, or nothing.
std::string Difference(const Hello& mine, const Hello& theirs, int peer) {
  const auto differs = [&](const char* what, auto ours, auto other) {
    return std::string(what) + " differs: rank " + std::to_string(mine.rank) + " has " +
           std::to_string(ours) + ", rank " + std::to_string(peer) + " has " +
           std::to_string(other);
  };
  if (theirs.protocol != kProtocol) {
    return differs("collectives protocol", mine.protocol, theirs.protocol);
  }
  if (theirs.epoch != mine.epoch) {
    return differs("epoch", mine.epoch, theirs.epoch);
  }
  if (theirs.world_size != mine.world_size) {
    return differs("world size", mine.world_size, theirs.world_size);
  }
  if (theirs.plan_hash != mine.plan_hash) {
    return differs("plan hash", mine.plan_hash, theirs.plan_hash);
  }
  if (theirs.rank != peer) {
    return differs("rank at the other end of a link", peer, theirs.rank);
  }
  return std::string();
}

// What the ranks say of themselves.
struct World {
  std::vector<std::string> hosts;    // of each rank; empty: cannot share memory
  std::vector<uint64_t> lent_bytes;  // Hello's, of each rank
};

// Everyone tells everyone before anyone reads: a rank that disagrees learns it from each peer, and
// so does each peer.
Result<World> ExchangeHellos(const CommunicatorOptions& options, Deadline deadline) {
  const Hello mine = MakeHello(options);
  std::optional<Error> lost;
  for (int peer = 0; peer < options.world_size; ++peer) {
    if (peer != options.rank) {
      Status sent = SendTo(options, peer, mine, deadline);
      if (!sent.ok() && !lost) {
        lost = std::move(sent).error();
      }
    }
  }
  const auto world_size = static_cast<std::size_t>(options.world_size);
  World world{std::vector<std::string>(world_size), std::vector<uint64_t>(world_size)};
  const auto note = [&world](int rank, const Hello& hello) {
    world.hosts[static_cast<std::size_t>(rank)] = BoundedText(hello.host);
    world.lent_bytes[static_cast<std::size_t>(rank)] = hello.lent_bytes;
  };
  note(options.rank, mine);
  for (int peer = 0; peer < options.world_size; ++peer) {
    if (peer == options.rank) {
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const Hello theirs, ReceiveFrom<Hello>(options, peer, deadline));
    if (const std::string difference = Difference(mine, theirs, peer); !difference.empty()) {
      return Error(ErrorCode::kMismatch, "ranks disagree: " + difference);
    }
    note(peer, theirs);
  }
  if (lost) {
    return *std::move(lost);
  }
  return world;
}

// Collects one answer from every peer, serving the segment to those who ask meanwhile.
Result<bool> CollectAnswers(const CommunicatorOptions& options,
                            SegmentServer& server,
                            const SharedSegment& segment,
                            Deadline deadline) {
  bool all_mapped = true;
  for (int peer = 1; peer < options.world_size; ++peer) {
    const int link = options.links[static_cast<std::size_t>(peer)].get();
    for (;;) {
      std::array<pollfd, 2> entries{{{server.fd(), POLLIN, 0}, {link, POLLIN, 0}}};
      const int wait_ms = deadline.RemainingMilliseconds(SteadyNow());
      const int ready = ::poll(entries.data(), entries.size(), wait_ms);
      if (ready == 0 && deadline.HasPassed(SteadyNow())) {
        return SetupError(
            options,
            peer,
            Error(ErrorCode::kTimeout, "the peer did not map the shared memory in time"));
      }
      if (entries[0].revents != 0) {
        server.ServeOne(segment);
      }
      if (entries[1].revents != 0) {
        break;
      }
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const SetupAnswer answer,
                              ReceiveFrom<SetupAnswer>(options, peer, deadline));
    all_mapped = all_mapped && answer.is_yes != 0;
  }
  return all_mapped;
}

template <typename Message>
Status SendToOthers(const CommunicatorOptions& options, const Message& message, Deadline deadline) {
  for (int peer = 1; peer < options.world_size; ++peer) {
    LOCKSTEP_RETURN_IF_ERROR(SendTo(options, peer, message, deadline));
  }
  return OkStatus();
}

// Rank 0's part. Null: shared memory is not possible here, use TCP.
Result<std::optional<SharedSegment>> LeadSharing(const CommunicatorOptions& options,
                                                 Deadline deadline) {
  SetupOffer offer;
  auto segment = SharedSegment::Create(SharedMemoryLayout::ByteCount(options.world_size));
  std::optional<SegmentServer> server;
  if (segment.ok()) {
    if (auto opened = SegmentServer::Open(*segment); opened.ok()) {
      server = std::move(opened).value();
      offer = ToSetupOffer(server->offer());
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(SendToOthers(options, offer, deadline));
  if (!server) {
    return std::optional<SharedSegment>();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const bool all_mapped,
                            CollectAnswers(options, *server, *segment, deadline));
  LOCKSTEP_RETURN_IF_ERROR(SendToOthers(options, SetupAnswer{all_mapped}, deadline));
  return all_mapped ? std::optional(std::move(segment).value()) : std::nullopt;
}

// The other ranks' part.
Result<std::optional<SharedSegment>> FollowSharing(const CommunicatorOptions& options,
                                                   Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const SetupOffer offer, ReceiveFrom<SetupOffer>(options, 0, deadline));
  if (offer.byte_count == 0) {
    return std::optional<SharedSegment>();
  }
  std::optional<SharedSegment> segment;
  if (offer.byte_count == SharedMemoryLayout::ByteCount(options.world_size)) {
    auto fetched = FetchSegment(FromSetupOffer(offer), options.links.front(), deadline);
    if (fetched.ok()) {
      segment = std::move(fetched).value();
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(SendTo(options, 0, SetupAnswer{segment.has_value()}, deadline));
  LOCKSTEP_ASSIGN_OR_RETURN(const SetupAnswer all, ReceiveFrom<SetupAnswer>(options, 0, deadline));
  if (all.is_yes == 0) {
    segment.reset();
  }
  return segment;
}

// A world of one: every operation is the identity.
class LoneCommunicator final : public CommunicatorFront {
 public:
  explicit LoneCommunicator(Epoch epoch) : CommunicatorFront(0, 1, epoch) {}

  void Abort(const Error& reason) noexcept override { failure_.Set(reason); }

  Status CheckHealth() override { return failure_.is_set() ? Status(failure_.Get()) : OkStatus(); }

  const char* BackendName() const override { return "alone"; }

 private:
  Status Run(const CallContext&, std::byte*) override { return CheckHealth(); }

  FailureLatch failure_;
};

const std::vector<int>& OwnGroup(const std::vector<std::vector<int>>& groups, int rank) {
  return groups[static_cast<std::size_t>(GroupOf(groups, rank))];
}

// The options of this rank among `members`, with the links to them, which are taken away.
CommunicatorOptions TakeMembers(const std::vector<int>& members, CommunicatorOptions* options) {
  CommunicatorOptions part;
  part.world_size = static_cast<int>(members.size());
  part.epoch = options->epoch;
  part.plan_hash = options->plan_hash;
  part.lent = options->lent;
  part.names = members;
  for (std::size_t i = 0; i < members.size(); ++i) {
    part.rank = members[i] == options->rank ? static_cast<int>(i) : part.rank;
    part.links.push_back(std::move(options->links[static_cast<std::size_t>(members[i])]));
  }
  return part;
}

// Makes or fetches the segment of the ranks `own` of this host. Null: there is none.
Result<std::optional<SharedSegment>> ShareWithin(const std::vector<int>& own,
                                                 CommunicatorOptions* options,
                                                 Deadline deadline) {
  if (own.size() == 1) {
    return std::optional<SharedSegment>();
  }
  CommunicatorOptions within = TakeMembers(own, options);
  auto segment = within.rank == 0 ? LeadSharing(within, deadline) : FollowSharing(within, deadline);
  for (std::size_t i = 0; i < own.size(); ++i) {
    options->links[static_cast<std::size_t>(own[i])] = std::move(within.links[i]);
  }
  return segment;
}

// Whether the ranks `own` of a host lend each other memory: all as much, and not too many.
bool LendAlike(const std::vector<int>& own, const std::vector<uint64_t>& lent_bytes) {
  // Choice: each maps the memory of every other one, and opens as many sockets for that.
  constexpr std::size_t kLendersMax = 64;
  const uint64_t bytes = lent_bytes[static_cast<std::size_t>(own.front())];
  return bytes > 0 && own.size() <= kLendersMax && std::ranges::all_of(own, [&](int rank) {
           return lent_bytes[static_cast<std::size_t>(rank)] == bytes;
         });
}

// Whether all ranks say yes, as rank 0 finds.
Result<bool> AskWhetherAll(const CommunicatorOptions& options, bool is_yes, Deadline deadline) {
  if (options.rank != 0) {
    LOCKSTEP_RETURN_IF_ERROR(SendTo(options, 0, SetupAnswer{is_yes}, deadline));
    LOCKSTEP_ASSIGN_OR_RETURN(const SetupAnswer all,
                              ReceiveFrom<SetupAnswer>(options, 0, deadline));
    return all.is_yes != 0;
  }
  for (int peer = 1; peer < options.world_size; ++peer) {
    LOCKSTEP_ASSIGN_OR_RETURN(const SetupAnswer answer,
                              ReceiveFrom<SetupAnswer>(options, peer, deadline));
    is_yes = is_yes && answer.is_yes != 0;
  }
  LOCKSTEP_RETURN_IF_ERROR(SendToOthers(options, SetupAnswer{is_yes}, deadline));
  return is_yes;
}

Result<std::unique_ptr<Communicator>> JoinByTcp(CommunicatorOptions options) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<CommunicatorFront> joined,
                            MakeTcpCommunicator(std::move(options)));
  return std::unique_ptr<Communicator>(std::move(joined));
}

// The communicator of the ranks of one host. `lends`: all of them lend as much.
Result<std::unique_ptr<CommunicatorFront>> JoinWithin(CommunicatorOptions options,
                                                      SharedSegment segment,
                                                      bool lends,
                                                      Deadline deadline) {
  LentMemory lent;
  if (lends) {
    LOCKSTEP_ASSIGN_OR_RETURN(lent, ShareLentMemory(options, deadline));
  }
  return MakeSharedMemoryCommunicator(std::move(options), std::move(segment), std::move(lent));
}

// What a rank of several hosts knows before it joins them.
struct HierarchyPlan {
  std::vector<std::vector<int>> groups;
  std::optional<SharedSegment> segment;  // of this host's ranks
  bool lends = false;                    // these ranks, all as much
};

Result<std::unique_ptr<Communicator>> JoinHierarchy(HierarchyPlan plan,
                                                    CommunicatorOptions options,
                                                    Deadline deadline) {
  HierarchyParts parts;
  parts.groups = std::move(plan.groups);
  const std::vector<int>& own = OwnGroup(parts.groups, options.rank);
  if (plan.segment.has_value()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        parts.within,
        JoinWithin(TakeMembers(own, &options), *std::move(plan.segment), plan.lends, deadline));
  }
  if (own.front() == options.rank) {
    std::vector<int> leaders;
    for (const std::vector<int>& group : parts.groups) {
      leaders.push_back(group.front());
    }
    LOCKSTEP_ASSIGN_OR_RETURN(parts.across, MakeTcpCommunicator(TakeMembers(leaders, &options)));
  }
  parts.spare_links = std::move(options.links);
  return MakeHierarchicalCommunicator(options, std::move(parts));
}

}  // namespace

Result<std::unique_ptr<Communicator>> MakeCommunicator(CommunicatorOptions options,
                                                       Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  if (options.world_size == 1) {
    return std::unique_ptr<Communicator>(std::make_unique<LoneCommunicator>(options.epoch));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const World world, ExchangeHellos(options, deadline));
  HierarchyPlan plan;
  plan.groups = GroupByHost(world.hosts);
  if (plan.groups.size() == world.hosts.size()) {
    return JoinByTcp(std::move(options));
  }
  const std::vector<int>& own = OwnGroup(plan.groups, options.rank);
  LOCKSTEP_ASSIGN_OR_RETURN(plan.segment, ShareWithin(own, &options, deadline));
  plan.lends = LendAlike(own, world.lent_bytes);
  if (plan.groups.size() == 1) {
    if (!plan.segment.has_value()) {
      return JoinByTcp(std::move(options));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(
        std::unique_ptr<CommunicatorFront> joined,
        JoinWithin(std::move(options), *std::move(plan.segment), plan.lends, deadline));
    return std::unique_ptr<Communicator>(std::move(joined));
  }
  const bool is_mine_ready = own.size() == 1 || plan.segment.has_value();
  LOCKSTEP_ASSIGN_OR_RETURN(const bool are_all_ready,
                            AskWhetherAll(options, is_mine_ready, deadline));
  return are_all_ready ? JoinHierarchy(std::move(plan), std::move(options), deadline)
                       : JoinByTcp(std::move(options));
}

}  // namespace lockstep::runtime
