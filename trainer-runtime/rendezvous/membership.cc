#include "trainer-runtime/rendezvous/membership.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// A rank that was held up says so for this long. Choice: what held it up once may do so again.
constexpr Duration kStrainLasts = std::chrono::seconds(10);

}  // namespace

const char* RefusalName(Refusal refusal) {
  switch (refusal) {
    case Refusal::kBusy:
      return "busy";
    case Refusal::kStaleEpoch:
      return "stale_epoch";
    case Refusal::kSuperseded:
      return "superseded";
    case Refusal::kWrongJob:
      return "wrong_job";
  }
  return "busy";
}

Membership::Membership(MembershipOptions options, TimePoint now)
    : options_(std::move(options)),
      now_(now),
      last_tick_(now),
      last_sent_(now),
      epoch_(options_.initial_epoch) {
  const MeshIdentity& self = options_.self.identity;
  LOCKSTEP_CHECK(self.world_size >= 1, std::to_string(self.world_size));
  LOCKSTEP_CHECK(self.rank >= 0 && self.rank < self.world_size, std::to_string(self.rank));
  peers_.resize(static_cast<std::size_t>(self.world_size));
  for (Peer& peer : peers_) {
    peer.next_dial = now;
    peer.last_heard = now;
  }
}

std::vector<Action> Membership::Apply(const Event& event, TimePoint now) {
  now_ = std::max(now_, now);
  if (stage_ == Stage::kSuperseded) {
    // A zombie says nothing more, except to those who wait for an answer.
    if (const auto* hello = std::get_if<event::HelloReceived>(&event)) {
      actions_.emplace_back(action::Refuse{hello->link, Refusal::kBusy});
    } else if (std::holds_alternative<event::MeetRequested>(event)) {
      actions_.emplace_back(action::Superseded{});
    }
    return std::exchange(actions_, {});
  }
  std::visit([this](const auto& concrete) { On(concrete); }, event);
  if (stage_ != Stage::kSuperseded) {
    Progress();
    DialMissing();
    if (must_send_) {
      SendState();
    }
    if (const auto odd = std::exchange(plan_to_tell_, std::nullopt)) {
      actions_.emplace_back(action::PlansDiffer{*odd});
    }
  }
  return std::exchange(actions_, {});
}

void Membership::On(const event::Tick& /*event*/) {
  ForgiveOwnSilence();
  NoticeSilence();
  const bool is_meeting = stage_ == Stage::kJoined || stage_ == Stage::kWiring;
  if (is_meeting && now_ >= meet_deadline_) {
    actions_.emplace_back(action::TimedOut{MissingRanks()});
    On(event::MeetWithdrawn{});
  }
  if (now_ - last_sent_ >= options_.heartbeat) {
    must_send_ = true;
  }
}

void Membership::On(const event::MeetRequested& event) {
  LOCKSTEP_CHECK(stage_ == Stage::kApart || stage_ == Stage::kMet,
                 "this process is already in a rendezvous");
  if (has_finished_) {
    actions_.emplace_back(action::NobodyNeeded{});
    return;
  }
  const int self = options_.self.identity.rank;
  stage_ =
      Stage::kApart;  // leaving a good meeting is the caller's choice and breaks nothing for it
  Epoch wanted = std::max(epoch_, event.at_least);
  if (joined_last_.has_value() && *joined_last_ >= wanted) {
    // An epoch is joined once only: its facts may have changed since.
    wanted = joined_last_->Next();
  }
  AdoptEpoch(wanted,
             Culprit{epoch_, self, options_.self.identity.incarnation, LossReason::kMovedOn});
  stage_ = Stage::kJoined;
  joined_last_ = epoch_;
  facts_ = event.facts;
  joined_at_ = now_;
  meet_deadline_ = event.deadline;
  must_send_ = true;
}

void Membership::On(const event::MeetWithdrawn& /*event*/) {
  if (stage_ != Stage::kJoined && stage_ != Stage::kWiring) {
    return;
  }
  const MeshIdentity& self = options_.self.identity;
  // Peers may count on our agreement: withdraw it by ending the epoch.
  Lose(Culprit{epoch_, self.rank, self.incarnation, LossReason::kMovedOn});
  stage_ = Stage::kApart;
  must_send_ = true;
}

void Membership::On(const event::HelloReceived& event) {
  if (const std::optional<Refusal> refusal = Judge(event.hello); refusal.has_value()) {
    actions_.emplace_back(action::Refuse{event.link, *refusal});
    return;
  }
  const int rank = event.hello.identity.rank;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const bool is_newer = event.hello.identity.incarnation > peer.incarnation;
  LearnIncarnation(rank, event.hello.identity.incarnation, LossReason::kReplaced);
  // When both sides call at once, the higher rank's call wins, unless it may have reached the
  // process that this one replaces. A second call while a link stands means that the peer lost the
  // link and we have not heard yet: we will, so it shall try again.
  const bool is_ours_better =
      !is_newer && peer.dial == DialStage::kSaidHello && options_.self.identity.rank > rank;
  if (peer.link.has_value() || is_ours_better) {
    actions_.emplace_back(action::Refuse{event.link, Refusal::kBusy});
    return;
  }
  if (peer.dial != DialStage::kIdle) {
    actions_.emplace_back(action::CancelDial{rank});
  }
  actions_.emplace_back(action::Accept{event.link});
  LinkUp(rank, event.link, event.hello);
}

void Membership::On(const event::DialConnected& event) {
  peers_[static_cast<std::size_t>(event.rank)].dial = DialStage::kSaidHello;
}

void Membership::On(const event::DialAccepted& event) {
  Peer& peer = peers_[static_cast<std::size_t>(event.rank)];
  peer.dial = DialStage::kIdle;
  const std::optional<Refusal> refusal = Judge(event.hello);
  if (refusal.has_value() || event.hello.identity.rank != event.rank || peer.link.has_value()) {
    // A name may still lead to the process that was replaced: it had better know.
    actions_.emplace_back(action::Close{event.link, refusal == Refusal::kSuperseded});
    Retry(event.rank);
    return;
  }
  LearnIncarnation(event.rank, event.hello.identity.incarnation, LossReason::kReplaced);
  LinkUp(event.rank, event.link, event.hello);
}

void Membership::On(const event::DialFailed& event) {
  peers_[static_cast<std::size_t>(event.rank)].dial = DialStage::kIdle;
  if (event.is_superseded) {
    BecomeSuperseded();
    return;
  }
  Retry(event.rank);
}

void Membership::On(const event::StateReceived& event) {
  const std::optional<int> rank = RankOf(event.link);
  if (!rank.has_value()) {
    return;
  }
  Peer& peer = peers_[static_cast<std::size_t>(*rank)];
  NoteHeard(&peer);
  peer.state = event.state;
  if (event.state.epoch > epoch_) {
    Culprit culprit = event.state.culprit;
    if (culprit.ended != epoch_ || !IsRank(culprit.rank) || IsSelf(culprit.rank)) {
      culprit = Culprit{epoch_, *rank, peer.incarnation, LossReason::kMovedOn};
    }
    AdoptEpoch(event.state.epoch, culprit);
  }
  if (event.state.finished && !has_finished_) {
    On(event::Finished{});
  }
  for (const Testimony& testimony : event.state.silent) {
    HeedTestimony(testimony);
  }
}

void Membership::On(const event::LinkLost& event) {
  if (const std::optional<int> rank = RankOf(event.link); rank.has_value()) {
    DropLink(*rank, LossReason::kClosed);
  }
}

void Membership::On(const event::SupersededNotice& /*event*/) {
  BecomeSuperseded();
}

void Membership::On(const event::DataLinksReady& event) {
  if (stage_ == Stage::kWiring && event.epoch == epoch_) {
    stage_ = Stage::kMet;
    actions_.emplace_back(action::Met{epoch_});
  }
}

void Membership::On(const event::DataLinkFailed& event) {
  if (stage_ == Stage::kWiring && event.epoch == epoch_) {
    const Peer& peer = peers_[static_cast<std::size_t>(event.rank)];
    Lose(Culprit{epoch_, event.rank, peer.incarnation, LossReason::kClosed});
  }
}

void Membership::On(const event::Finished& /*event*/) {
  has_finished_ = true;
  must_send_ = true;
  if (stage_ == Stage::kWiring) {
    actions_.emplace_back(action::Abandon{});
  }
  if (stage_ == Stage::kWiring || stage_ == Stage::kJoined) {
    stage_ = Stage::kApart;
    actions_.emplace_back(action::NobodyNeeded{});
  }
}

void Membership::On(const event::Seen& event) {
  const std::optional<int> rank = RankOf(event.link);
  if (!rank.has_value()) {
    return;
  }
  Peer& peer = peers_[static_cast<std::size_t>(*rank)];
  if (now_ - peer.last_heard < options_.silent_after) {
    return;  // it has spoken since
  }
  // Others wait for what its neighbours see, unless they see it themselves.
  must_send_ = must_send_ || (!peer.sight.has_value() && !IsHostAlone(peer.host_id));
  peer.sight = event.sight;
  JudgeSilenceOf(*rank);
}

void Membership::On(const event::PeerGone& event) {
  if (!IsRank(event.rank)) {
    return;
  }
  if (IsSelf(event.rank)) {
    if (event.replacement > options_.self.identity.incarnation) {
      BecomeSuperseded();
    }
    return;
  }
  const Peer& peer = peers_[static_cast<std::size_t>(event.rank)];
  const Culprit culprit{epoch_, event.rank, peer.incarnation, LossReason::kGone};
  LearnIncarnation(event.rank, event.replacement, LossReason::kGone);
  AdoptEpoch(event.epoch, culprit);
}

// Whether the caller is a peer at all; may find that it is we who are superseded.
std::optional<Refusal> Membership::Judge(const Hello& hello) {
  const MeshIdentity& self = options_.self.identity;
  const MeshIdentity& other = hello.identity;
  if (other.job_uid != self.job_uid || other.world_size != self.world_size || !IsRank(other.rank) ||
      IsSelf(other.rank)) {
    return Refusal::kWrongJob;
  }
  if (other.attempt < self.attempt) {
    return Refusal::kSuperseded;
  }
  if (other.attempt > self.attempt) {
    BecomeSuperseded();
    return Refusal::kBusy;
  }
  if (other.incarnation < peers_[static_cast<std::size_t>(other.rank)].incarnation) {
    return Refusal::kSuperseded;
  }
  return std::nullopt;
}

void Membership::LearnIncarnation(int rank, Incarnation incarnation, LossReason reason) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (incarnation <= peer.incarnation) {
    return;
  }
  if (peer.link.has_value()) {
    actions_.emplace_back(action::Close{*peer.link, true});
    DropLink(rank, reason);
  }
  peer.incarnation = incarnation;
  peer.was_linked = false;  // what became of its predecessor is not held against it
}

void Membership::LinkUp(int rank, LinkId link, const Hello& hello) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.was_linked = true;
  peer.link = link;
  peer.host_id = hello.host_id;
  peer.seat = hello.seat;
  peer.state = MemberState{};
  NoteHeard(&peer);
  peer.dial = DialStage::kIdle;
  peer.backoff = Duration::zero();
  must_send_ = true;
}

void Membership::DropLink(int rank, LossReason reason) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.link.reset();
  peer.state = MemberState{};
  peer.last_loss = reason;
  Retry(rank);
  Lose(Culprit{epoch_, rank, peer.incarnation, reason});
}

void Membership::Retry(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.backoff = std::clamp(peer.backoff * 2, options_.dial_backoff_min, options_.dial_backoff_max);
  peer.next_dial = now_ + peer.backoff;
}

// Something spoiled what this process agreed to at its epoch, if it agreed to anything.
void Membership::Lose(const Culprit& culprit) {
  if (agreement_ != 0) {
    AdoptEpoch(epoch_.Next(), culprit);
  }
}

// Raises the epoch; whatever was agreed at the old one is over.
void Membership::AdoptEpoch(Epoch epoch, const Culprit& culprit) {
  if (epoch <= epoch_) {
    return;
  }
  if (stage_ == Stage::kMet) {
    actions_.emplace_back(
        action::Broken{PeerLoss{epoch_, culprit.rank, culprit.incarnation, culprit.reason}});
    stage_ = Stage::kApart;
  } else if (stage_ == Stage::kWiring) {
    actions_.emplace_back(action::Abandon{});
    stage_ = Stage::kJoined;
  } else if (stage_ == Stage::kJoined && odd_plan_.has_value()) {
    TellOfPlans();
  }
  epoch_ = epoch;
  agreement_ = 0;
  odd_plan_.reset();
  culprit_ = culprit;
  if (stage_ == Stage::kJoined) {
    joined_last_ = epoch_;
  }
  must_send_ = true;
}

void Membership::BecomeSuperseded() {
  if (stage_ == Stage::kWiring) {
    actions_.emplace_back(action::Abandon{});
  }
  for (Peer& peer : peers_) {
    if (peer.link.has_value()) {
      actions_.emplace_back(action::Close{*peer.link, false});
      peer.link.reset();
      peer.last_loss = LossReason::kClosed;
    }
  }
  stage_ = Stage::kSuperseded;
  actions_.emplace_back(action::Superseded{});
}

// A process that was itself stopped or starved must not blame its peers for the time in which it
// did not listen. What they sent meanwhile was handed in before this tick.
void Membership::ForgiveOwnSilence() {
  const Duration gap = now_ - last_tick_;
  last_tick_ = now_;
  if (gap <= 2 * options_.heartbeat) {
    return;
  }
  strained_until_ = now_ + kStrainLasts;
  for (Peer& peer : peers_) {
    peer.last_heard = std::min(now_, peer.last_heard + gap - options_.heartbeat);
  }
}

void Membership::NoteHeard(Peer* peer) {
  peer->last_heard = now_;
  peer->next_look = now_;
  peer->sight.reset();
  peer->is_suspect = false;
}

void Membership::NoticeSilence() {
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    const bool is_silent = peer.link.has_value() && now_ - peer.last_heard >= options_.silent_after;
    if (!is_silent || now_ < peer.next_look) {
      continue;
    }
    peer.next_look = now_ + LimitsFor(peer).look;
    if (IsVisible(peer)) {
      actions_.emplace_back(action::Look{*peer.link, peer.seat.thread});  // the answer decides
    } else {
      JudgeSilenceOf(rank);
    }
  }
}

// A second one misses the peer: that decides now, unless the peer has an excuse.
void Membership::HeedTestimony(const Testimony& testimony) {
  if (!IsRank(testimony.rank)) {
    return;
  }
  Peer& accused = peers_[static_cast<std::size_t>(testimony.rank)];
  const bool is_excused = accused.sight == Sight::kStarved || accused.sight == Sight::kStrained;
  if (!is_excused && testimony.sight != Sight::kStarved) {
    accused.next_look = std::min(accused.next_look, now_);
  }
}

void Membership::JudgeSilenceOf(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const Duration silent = now_ - peer.last_heard;
  const SilenceLimits limits = LimitsFor(peer);
  const Sight sight = SightOf(rank);
  if (IsGivenUp(silent, limits, sight, IsMissedByOthers(rank))) {
    actions_.emplace_back(action::Close{*peer.link, false});
    DropLink(rank, LossReason::kSilent);
    return;
  }
  const bool is_suspect = IsSuspect(silent, limits, sight);
  must_send_ = must_send_ || (is_suspect && !peer.is_suspect);
  peer.is_suspect = is_suspect;
}

void Membership::DialMissing() {
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    const bool is_idle = !peer.link.has_value() && peer.dial == DialStage::kIdle;
    if (!IsSelf(rank) && is_idle && now_ >= peer.next_dial) {
      peer.dial = DialStage::kConnecting;
      actions_.emplace_back(action::Dial{rank});
    }
  }
}

// Moves from joined to agreed to formed as far as the peers' states allow.
void Membership::Progress() {
  if (stage_ != Stage::kJoined) {
    return;
  }
  if (agreement_ == 0 && AllJoined()) {
    const std::vector<MemberFacts> members = View();
    agreement_ = HashView(members);
    odd_plan_ = OddPlan(members);
    must_send_ = true;
  }
  if (agreement_ == 0 || !AllAgreed()) {
    return;
  }
  if (odd_plan_.has_value()) {
    TellOfPlans();
  } else {
    stage_ = Stage::kWiring;
    actions_.emplace_back(action::Formed{epoch_, View()});
  }
}

// This meeting has failed. Each rank that has agreed knows all plans, so it can tell by itself when
// another one ends over this before it has heard from all.
void Membership::TellOfPlans() {
  stage_ = Stage::kApart;
  plan_to_tell_ = odd_plan_;
}

void Membership::SendState() {
  must_send_ = false;
  last_sent_ = now_;
  MemberState state;
  state.epoch = epoch_;
  state.joined = stage_ == Stage::kJoined || stage_ == Stage::kWiring || stage_ == Stage::kMet;
  state.finished = has_finished_;
  state.agreement = agreement_;
  state.facts = facts_;
  state.culprit = culprit_;
  state.is_strained = now_ < strained_until_;
  state.silent = Testimonies();
  for (const Peer& peer : peers_) {
    if (peer.link.has_value()) {
      actions_.emplace_back(action::Send{*peer.link, state});
    }
  }
}

}  // namespace lockstep::runtime
