#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/prng.h"
#include "trainer-runtime/rendezvous/membership.h"

// What can be asked of a Membership without changing it.

namespace lockstep::runtime {
namespace {

uint64_t HashText(uint64_t seed, std::string_view text) {
  for (const char byte : text) {
    seed = Mix64(seed ^ static_cast<unsigned char>(byte));
  }
  return seed;
}

}  // namespace

TimePoint Membership::NextTick() const {
  if (stage_ == Stage::kSuperseded) {
    return TimePoint::max();
  }
  TimePoint next = last_sent_ + options_.heartbeat;
  if (stage_ == Stage::kJoined || stage_ == Stage::kWiring) {
    next = std::min(next, meet_deadline_);
  }
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (IsSelf(rank)) {
      continue;
    }
    if (peer.link.has_value()) {
      next = std::min(next, std::max(peer.last_heard + options_.silent_after, peer.next_look));
    } else if (peer.dial == DialStage::kIdle) {
      next = std::min(next, peer.next_dial);
    }
  }
  return next;
}

bool Membership::WantsDataLink(int rank, Incarnation incarnation, Epoch epoch) const {
  // A peer may form the meeting first: having agreed is enough to let its connection in.
  const bool is_meeting = (stage_ == Stage::kJoined && agreement_ != 0) || stage_ == Stage::kWiring;
  return is_meeting && epoch == epoch_ && IsRank(rank) && !IsSelf(rank) &&
         peers_[static_cast<std::size_t>(rank)].incarnation == incarnation;
}

std::vector<PeerStatus> Membership::Peers(TimePoint now) const {
  const bool is_meeting = stage_ == Stage::kJoined || stage_ == Stage::kWiring;
  std::vector<PeerStatus> statuses;
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    if (IsSelf(rank)) {
      continue;
    }
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    PeerStatus status;
    status.rank = rank;
    status.incarnation = peer.incarnation;
    if (peer.was_linked) {
      status.silent_seconds = ToSeconds(std::max(Duration::zero(), now - peer.last_heard));
    } else if (is_meeting) {
      status.silent_seconds = ToSeconds(std::max(Duration::zero(), now - joined_at_));
    }
    if (peer.link.has_value()) {
      status.state = peer.is_suspect ? PeerState::kSilent : PeerState::kConnected;
    } else if (peer.was_linked) {
      const bool is_silent = peer.last_loss == LossReason::kSilent;
      status.state = is_silent ? PeerState::kSilent : PeerState::kLost;
      status.reason = LossReasonName(peer.last_loss);
    }
    statuses.push_back(std::move(status));
  }
  return statuses;
}

std::optional<int> Membership::RankOf(LinkId link) const {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].link == link) {
      return static_cast<int>(rank);
    }
  }
  return std::nullopt;
}

bool Membership::AllJoined() const {
  return MissingRanks().empty();
}

bool Membership::AllAgreed() const {
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    const MemberState& state = peers_[static_cast<std::size_t>(rank)].state;
    if (!IsSelf(rank) && (state.epoch != epoch_ || state.agreement != agreement_)) {
      return false;
    }
  }
  return true;
}

bool Membership::IsFinishKnown() const {
  const auto knows = [](const Peer& peer) { return !peer.link.has_value() || peer.state.finished; };
  return has_finished_ && std::all_of(peers_.begin(), peers_.end(), knows);
}

std::vector<MemberFacts> Membership::View() const {
  std::vector<MemberFacts> members;
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    const SelfFacts& facts = IsSelf(rank) ? facts_ : peer.state.facts;
    MemberFacts member;
    member.rank = rank;
    member.incarnation = IsSelf(rank) ? options_.self.identity.incarnation : peer.incarnation;
    member.host_id = IsSelf(rank) ? options_.self.host_id : peer.host_id;
    member.has_state = facts.has_state;
    member.last_applied = facts.last_applied;
    member.plan_hash = facts.plan_hash;
    members.push_back(std::move(member));
  }
  return members;
}

// Equal on ranks with equal views. Not against forgery: members have proved that they belong.
// Never 0, which stands for "no agreement".
uint64_t Membership::HashView(const std::vector<MemberFacts>& members) const {
  uint64_t hash = Mix64(static_cast<uint64_t>(epoch_.value()));
  for (const MemberFacts& member : members) {
    hash = Mix64(hash ^ static_cast<uint64_t>(member.incarnation.value()));
    hash = Mix64(hash ^ (member.has_state ? 1U : 2U));
    hash = Mix64(hash ^ static_cast<uint64_t>(member.last_applied.value()));
    hash = Mix64(hash ^ member.plan_hash);
    hash = HashText(hash, member.host_id);
  }
  return hash == 0 ? 1 : hash;
}

// The first rank whose plan is not that of rank 0.
std::optional<int> Membership::OddPlan(const std::vector<MemberFacts>& members) {
  for (const MemberFacts& member : members) {
    if (member.plan_hash != members.front().plan_hash) {
      return member.rank;
    }
  }
  return std::nullopt;
}

std::vector<int> Membership::MissingRanks() const {
  std::vector<int> missing;
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    const bool has_joined =
        peer.link.has_value() && peer.state.joined && peer.state.epoch == epoch_;
    if (!IsSelf(rank) && !has_joined) {
      missing.push_back(rank);
    }
  }
  return missing;
}

bool Membership::IsVisible(const Peer& peer) const {
  const Seat& own = options_.self.seat;
  return peer.seat.thread > 0 && own.pid_namespace != 0 &&
         peer.seat.pid_namespace == own.pid_namespace && peer.host_id == options_.self.host_id;
}

SilenceLimits Membership::LimitsFor(const Peer& peer) const {
  constexpr double kMilli = 1000;
  const auto is_beside = [&peer](const Peer& other) {
    return other.link.has_value() && other.host_id == peer.host_id;
  };
  const auto count = std::count_if(peers_.begin(), peers_.end(), is_beside) +
                     (options_.self.host_id == peer.host_id ? 1 : 0);
  const auto cores = static_cast<double>(std::max<int64_t>(1, peer.seat.cpu_milli)) / kMilli;
  return LimitsOf(options_.silent_after, static_cast<double>(count) / cores);
}

// Whether all ranks that are linked are on that host.
bool Membership::IsHostAlone(const std::string& host_id) const {
  return std::all_of(peers_.begin(), peers_.end(), [&host_id](const Peer& peer) {
    return !peer.link.has_value() || peer.host_id == host_id;
  });
}

// Whether what the peer has said of others is of now.
bool Membership::IsListenedTo(int rank, TimePoint now) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return peer.link.has_value() && now - peer.last_heard < options_.silent_after;
}

// The best that anybody knows of a silent peer: a rank on its host sees what others cannot.
Sight Membership::SightOf(int rank) const {
  const Peer& accused = peers_[static_cast<std::size_t>(rank)];
  Sight best = accused.sight.value_or(Sight::kUnseen);
  if (best != Sight::kUnseen) {
    return best;
  }
  for (int other = 0; other < static_cast<int>(peers_.size()); ++other) {
    if (other == rank || !IsListenedTo(other, now_)) {
      continue;
    }
    for (const Testimony& testimony : peers_[static_cast<std::size_t>(other)].state.silent) {
      best = testimony.rank == rank ? std::max(best, testimony.sight) : best;
    }
  }
  return best == Sight::kUnseen && accused.state.is_strained ? Sight::kStrained : best;
}

bool Membership::HasNeighbour(int rank) const {
  const Peer& accused = peers_[static_cast<std::size_t>(rank)];
  for (int other = 0; other < static_cast<int>(peers_.size()); ++other) {
    if (other != rank && IsListenedTo(other, now_) &&
        peers_[static_cast<std::size_t>(other)].host_id == accused.host_id) {
      return true;
    }
  }
  return false;
}

// Where ranks on its host can be heard, their word is waited for, and counts alone: the others have
// seen no more than this one.
bool Membership::IsMissedByOthers(int rank) const {
  const Peer& accused = peers_[static_cast<std::size_t>(rank)];
  const bool all_count = IsVisible(accused) || !HasNeighbour(rank);
  for (int other = 0; other < static_cast<int>(peers_.size()); ++other) {
    const Peer& witness = peers_[static_cast<std::size_t>(other)];
    const auto& silent = witness.state.silent;
    if (other != rank && IsListenedTo(other, now_) &&
        (all_count || witness.host_id == accused.host_id) &&
        std::any_of(silent.begin(), silent.end(), [rank](const Testimony& testimony) {
          return testimony.rank == rank;
        })) {
      return true;
    }
  }
  return false;
}

std::vector<Testimony> Membership::Testimonies() const {
  std::vector<Testimony> testimonies;
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    const bool is_silent = peer.link.has_value() && now_ - peer.last_heard >= options_.silent_after;
    const bool is_unseen_yet = IsVisible(peer) && !peer.sight.has_value();
    if (is_silent && !is_unseen_yet && testimonies.size() < kTestimoniesMax) {
      testimonies.push_back({rank, peer.sight.value_or(Sight::kUnseen)});
    }
  }
  return testimonies;
}

}  // namespace lockstep::runtime
