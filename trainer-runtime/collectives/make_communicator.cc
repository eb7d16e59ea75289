#include <array>
#include <cstring>
#include <optional>
#include <poll.h>
#include <string>
#include <type_traits>
#include <vector>

#include "common/base/digest.h"
#include "trainer-runtime/collectives/communicator_front.h"
#include "trainer-runtime/collectives/failure_latch.h"
#include "trainer-runtime/collectives/hierarchical_communicator.h"
#include "trainer-runtime/collectives/host_groups.h"
#include "trainer-runtime/collectives/links.h"
#include "trainer-runtime/collectives/shared_memory_communicator.h"
#include "trainer-runtime/collectives/shared_memory_layout.h"
#include "trainer-runtime/collectives/shared_segment.h"
#include "trainer-runtime/collectives/tcp_communicator.h"

// How ranks agree on a backend. Rank 0 leads; every message is one of the structs below, over the
// links.
//
//   all -> all       Hello     who I am, what I plan, whether I can share memory
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

namespace lockstep::runtime {
namespace {

constexpr uint64_t kProtocol = 0x334c4c4f434b534c;  // "LSKCOLL3": magic, byte order and version
constexpr std::size_t kNameSize = 64;

struct Hello {
  uint64_t protocol = kProtocol;
  int64_t epoch = 0;
  uint64_t plan_hash = 0;
  int32_t rank = 0;
  int32_t world_size = 0;
  char host[kNameSize] = {};  // hash of the host id; empty: cannot share memory
};

struct Offer {
  uint64_t byte_count = 0;  // 0: there is no segment
  char socket_name[kNameSize] = {};
  char token[kNameSize] = {};
};

struct Answer {
  uint64_t is_yes = 0;
};

std::string BoundedText(const char (&text)[kNameSize]) {
  return std::string(text, ::strnlen(text, kNameSize));
}

void SetText(char (&to)[kNameSize], const std::string& from) {
  LOCKSTEP_CHECK(from.size() <= kNameSize, from);
  std::memcpy(to, from.data(), from.size());
}

Error SetupError(const CommunicatorOptions& options, int peer, Error cause) {
  return std::move(cause).Wrap("rank " + std::to_string(NameOf(options.names, options.rank)) +
                               ": joining epoch " + std::to_string(options.epoch.value()) +
                               " with rank " + std::to_string(NameOf(options.names, peer)));
}

template <typename Message>
Status SendTo(const CommunicatorOptions& options, int peer, const Message& message, Deadline by) {
  static_assert(std::is_trivially_copyable_v<Message>);
  const UniqueFd& link = options.links[static_cast<std::size_t>(peer)];
  Status status = SendBytes(link, std::as_bytes(std::span(&message, 1)), by);
  return status.ok() ? status : SetupError(options, peer, std::move(status).error());
}

template <typename Message>
Result<Message> ReceiveFrom(const CommunicatorOptions& options, int peer, Deadline by) {
  static_assert(std::is_trivially_copyable_v<Message>);
  Message message;
  const UniqueFd& link = options.links[static_cast<std::size_t>(peer)];
  Status status = ReceiveBytes(link, std::as_writable_bytes(std::span(&message, 1)), by);
  if (!status.ok()) {
    return SetupError(options, peer, std::move(status).error());
  }
  return message;
}

Status CheckOptions(const CommunicatorOptions& options) {
  const auto fail = [](const std::string& what) {
    return Error(ErrorCode::kInvalidArgument, "communicator: " + what);
  };
  if (options.world_size < 1 || options.world_size > kWorldSizeMax) {
    return fail("world size " + std::to_string(options.world_size) + " is not in 1.." +
                std::to_string(kWorldSizeMax));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    return fail("rank " + std::to_string(options.rank) + " is not in the world of " +
                std::to_string(options.world_size));
  }
  const auto world_size = static_cast<std::size_t>(options.world_size);
  if (options.world_size > 1 && options.links.size() != world_size) {
    return fail(std::to_string(options.links.size()) + " links for a world of " +
                std::to_string(options.world_size));
  }
  if (!options.host_ids.empty() && options.host_ids.size() != world_size) {
    return fail(std::to_string(options.host_ids.size()) + " host ids for a world of " +
                std::to_string(options.world_size));
  }
  for (int peer = 0; peer < options.world_size && options.world_size > 1; ++peer) {
    if (options.links[static_cast<std::size_t>(peer)].is_open() == (peer == options.rank)) {
      return fail("a link to itself, or none to rank " + std::to_string(peer));
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
    return differs("rank at the end of one link", peer, theirs.rank);
  }
  return std::string();
}

// Everyone tells everyone before anyone reads: a rank that disagrees learns it from each peer, and
// so does each peer. Returns the host of each rank; empty: cannot share memory.
Result<std::vector<std::string>> ExchangeHellos(const CommunicatorOptions& options,
                                                Deadline deadline) {
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
  std::vector<std::string> hosts(static_cast<std::size_t>(options.world_size));
  hosts[static_cast<std::size_t>(options.rank)] = BoundedText(mine.host);
  for (int peer = 0; peer < options.world_size; ++peer) {
    if (peer == options.rank) {
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const Hello theirs, ReceiveFrom<Hello>(options, peer, deadline));
    if (const std::string difference = Difference(mine, theirs, peer); !difference.empty()) {
      return Error(ErrorCode::kMismatch, "ranks disagree: " + difference);
    }
    hosts[static_cast<std::size_t>(peer)] = BoundedText(theirs.host);
  }
  if (lost) {
    return *std::move(lost);
  }
  return hosts;
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
            options, peer, Error(ErrorCode::kTimeout, "it did not map the shared memory in time"));
      }
      if (entries[0].revents != 0) {
        server.ServeOne(segment);
      }
      if (entries[1].revents != 0) {
        break;
      }
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const Answer answer, ReceiveFrom<Answer>(options, peer, deadline));
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
  Offer offer;
  auto segment = SharedSegment::Create(SharedMemoryLayout::ByteCount(options.world_size));
  std::optional<SegmentServer> server;
  if (segment.ok()) {
    if (auto opened = SegmentServer::Open(*segment); opened.ok()) {
      server = std::move(opened).value();
      offer.byte_count = server->offer().byte_count;
      SetText(offer.socket_name, server->offer().socket_name);
      SetText(offer.token, server->offer().token);
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(SendToOthers(options, offer, deadline));
  if (!server) {
    return std::optional<SharedSegment>();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const bool all_mapped,
                            CollectAnswers(options, *server, *segment, deadline));
  LOCKSTEP_RETURN_IF_ERROR(SendToOthers(options, Answer{all_mapped}, deadline));
  return all_mapped ? std::optional(std::move(segment).value()) : std::nullopt;
}

// The other ranks' part.
Result<std::optional<SharedSegment>> FollowSharing(const CommunicatorOptions& options,
                                                   Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Offer offer, ReceiveFrom<Offer>(options, 0, deadline));
  if (offer.byte_count == 0) {
    return std::optional<SharedSegment>();
  }
  std::optional<SharedSegment> segment;
  if (offer.byte_count == SharedMemoryLayout::ByteCount(options.world_size)) {
    auto fetched =
        FetchSegment({BoundedText(offer.socket_name), BoundedText(offer.token), offer.byte_count},
                     options.links.front(),
                     deadline);
    if (fetched.ok()) {
      segment = std::move(fetched).value();
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(SendTo(options, 0, Answer{segment.has_value()}, deadline));
  LOCKSTEP_ASSIGN_OR_RETURN(const Answer all, ReceiveFrom<Answer>(options, 0, deadline));
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

// Whether all ranks say yes, as rank 0 finds.
Result<bool> AskWhetherAll(const CommunicatorOptions& options, bool is_yes, Deadline deadline) {
  if (options.rank != 0) {
    LOCKSTEP_RETURN_IF_ERROR(SendTo(options, 0, Answer{is_yes}, deadline));
    LOCKSTEP_ASSIGN_OR_RETURN(const Answer all, ReceiveFrom<Answer>(options, 0, deadline));
    return all.is_yes != 0;
  }
  for (int peer = 1; peer < options.world_size; ++peer) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Answer answer, ReceiveFrom<Answer>(options, peer, deadline));
    is_yes = is_yes && answer.is_yes != 0;
  }
  LOCKSTEP_RETURN_IF_ERROR(SendToOthers(options, Answer{is_yes}, deadline));
  return is_yes;
}

Result<std::unique_ptr<Communicator>> JoinByTcp(CommunicatorOptions options) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<CommunicatorFront> joined,
                            MakeTcpCommunicator(std::move(options)));
  return std::unique_ptr<Communicator>(std::move(joined));
}

Result<std::unique_ptr<Communicator>> JoinHierarchy(const std::vector<std::vector<int>>& groups,
                                                    CommunicatorOptions options,
                                                    std::optional<SharedSegment> segment) {
  HierarchyParts parts;
  parts.groups = groups;
  const std::vector<int>& own = OwnGroup(groups, options.rank);
  if (segment.has_value()) {
    parts.within = MakeSharedMemoryCommunicator(TakeMembers(own, &options), *std::move(segment));
  }
  if (own.front() == options.rank) {
    std::vector<int> leaders;
    for (const std::vector<int>& group : groups) {
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
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> hosts,
                            ExchangeHellos(options, deadline));
  const std::vector<std::vector<int>> groups = GroupByHost(hosts);
  if (groups.size() == hosts.size()) {
    return JoinByTcp(std::move(options));
  }
  const std::vector<int>& own = OwnGroup(groups, options.rank);
  LOCKSTEP_ASSIGN_OR_RETURN(std::optional<SharedSegment> segment,
                            ShareWithin(own, &options, deadline));
  if (groups.size() == 1) {
    if (!segment.has_value()) {
      return JoinByTcp(std::move(options));
    }
    return std::unique_ptr<Communicator>(
        MakeSharedMemoryCommunicator(std::move(options), *std::move(segment)));
  }
  const bool is_mine_ready = own.size() == 1 || segment.has_value();
  LOCKSTEP_ASSIGN_OR_RETURN(const bool are_all_ready,
                            AskWhetherAll(options, is_mine_ready, deadline));
  return are_all_ready ? JoinHierarchy(groups, std::move(options), std::move(segment))
                       : JoinByTcp(std::move(options));
}

}  // namespace lockstep::runtime
