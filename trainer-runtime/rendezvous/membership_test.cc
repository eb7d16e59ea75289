#include "trainer-runtime/rendezvous/membership.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr LinkId kLinkToOne{11};
constexpr LinkId kLinkToTwo{12};

Hello HelloFrom(int rank, int64_t incarnation = 0) {
  return Hello{MeshIdentity{"uid", Attempt(1), rank, 3, Incarnation(incarnation)}, "host"};
}

// Rank 0 of three, with the actions of each event kept for inspection.
class Rank0 {
 public:
  explicit Rank0(Hello self = HelloFrom(0))
      : seat_(self.seat), membership_(MembershipOptions{std::move(self), Epoch(4)}, now_) {}

  void Do(const Event& event) { actions_ = membership_.Apply(event, now_); }

  void Wait(Duration length) {
    now_ += length;
    Do(event::Tick{});
  }

  // What a peer says when it has joined and agrees with whatever we agree to.
  void Hear(LinkId link, int64_t epoch, bool agrees) {
    MemberState state;
    state.epoch = Epoch(epoch);
    state.joined = true;
    state.agreement = agrees ? agreement_ : 0;
    Do(event::StateReceived{link, state});
    for (const action::Send& send : All<action::Send>()) {
      agreement_ = send.state.agreement;
    }
  }

  void Connect() {
    Hello one = HelloFrom(1);
    one.seat = seat_;  // as close to rank 0 as it is itself
    Do(event::HelloReceived{kLinkToOne, one});
    Do(event::HelloReceived{kLinkToTwo, HelloFrom(2)});
  }

  void Join() { Do(event::MeetRequested{SelfFacts{}, Epoch(0), now_ + std::chrono::seconds(10)}); }

  void MeetAt(int64_t epoch) {
    Connect();
    Join();
    Hear(kLinkToOne, epoch, false);
    Hear(kLinkToTwo, epoch, false);
    Hear(kLinkToOne, epoch, true);
    Hear(kLinkToTwo, epoch, true);
    Do(event::DataLinksReady{Epoch(epoch)});
  }

  template <typename A>
  std::vector<A> All() const {
    std::vector<A> found;
    for (const Action& action : actions_) {
      if (const A* concrete = std::get_if<A>(&action)) {
        found.push_back(*concrete);
      }
    }
    return found;
  }

  // The only action of that kind; fails the test if there are none or several.
  template <typename A>
  A Only() const {
    const std::vector<A> found = All<A>();
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? A{} : found.front();
  }

  const Membership& membership() const { return membership_; }

  TimePoint now() const { return now_; }

 private:
  TimePoint now_{std::chrono::seconds(50)};
  Seat seat_;
  Membership membership_;
  std::vector<Action> actions_;
  uint64_t agreement_ = 0;
};

TEST(Membership, AllJoinedAndAgreedFormsTheMeetingWithEveryMember) {
  Rank0 rank;
  rank.Connect();
  rank.Join();
  rank.Hear(kLinkToOne, 4, false);
  EXPECT_THAT(rank.All<action::Formed>(), IsEmpty());
  rank.Hear(kLinkToTwo, 4, false);
  EXPECT_THAT(rank.All<action::Formed>(), IsEmpty());
  rank.Hear(kLinkToOne, 4, true);
  EXPECT_THAT(rank.All<action::Formed>(), IsEmpty());
  rank.Hear(kLinkToTwo, 4, true);
  const auto formed = rank.Only<action::Formed>();
  EXPECT_EQ(formed.epoch, Epoch(4));
  EXPECT_EQ(formed.members.size(), 3U);
  EXPECT_EQ(formed.members[2].rank, 2);
}

TEST(Membership, LoneRankMeetsItselfAtOnce) {
  MembershipOptions options{Hello{MeshIdentity{"uid", Attempt(0), 0, 1, Incarnation(0)}, "host"},
                            Epoch(7)};
  const TimePoint now{std::chrono::seconds(1)};
  Membership membership(options, now);
  const auto actions =
      membership.Apply(event::MeetRequested{SelfFacts{}, Epoch(0), now + milliseconds(1)}, now);
  const bool is_formed = std::any_of(actions.begin(), actions.end(), [](const Action& action) {
    return std::holds_alternative<action::Formed>(action);
  });
  EXPECT_TRUE(is_formed);
}

TEST(Membership, ClosedLinkBreaksTheMeetingOnceAndRaisesTheEpoch) {
  Rank0 rank;
  rank.MeetAt(4);
  rank.Do(event::LinkLost{kLinkToOne});
  const PeerLoss loss = rank.Only<action::Broken>().loss;
  EXPECT_EQ(loss.epoch, Epoch(4));
  EXPECT_EQ(loss.rank, 1);
  EXPECT_EQ(loss.reason, LossReason::kClosed);
  EXPECT_EQ(rank.membership().epoch(), Epoch(5));
  rank.Do(event::LinkLost{kLinkToTwo});
  EXPECT_THAT(rank.All<action::Broken>(), IsEmpty());
  EXPECT_EQ(rank.membership().epoch(), Epoch(5));
}

MemberState FinishedState(int64_t epoch) {
  MemberState state;
  state.epoch = Epoch(epoch);
  state.finished = true;
  return state;
}

// Rank 2 died in the last barrier; it had come through for rank 1, and failed here.
TEST(Membership, WhoWouldMeetAgainIsToldThatAllWorkIsDone) {
  Rank0 rank;
  rank.MeetAt(4);
  rank.Do(event::LinkLost{kLinkToTwo});
  rank.Join();
  EXPECT_THAT(rank.All<action::NobodyNeeded>(), IsEmpty());
  rank.Do(event::StateReceived{kLinkToOne, FinishedState(4)});
  EXPECT_EQ(rank.All<action::NobodyNeeded>().size(), 1U);
  EXPECT_TRUE(rank.Only<action::Send>().state.finished);
  rank.Join();  // for ever
  EXPECT_EQ(rank.All<action::NobodyNeeded>().size(), 1U);
}

TEST(Membership, TheEndIsKnownWhenEveryPeerThatIsThereSaysIt) {
  Rank0 rank;
  rank.MeetAt(4);
  rank.Do(event::StateReceived{kLinkToOne, FinishedState(4)});
  EXPECT_TRUE(rank.membership().has_finished());
  EXPECT_FALSE(rank.membership().IsFinishKnown());
  rank.Do(event::LinkLost{kLinkToTwo});
  EXPECT_TRUE(rank.membership().IsFinishKnown());
}

TEST(Membership, NewsOfALossFromAnotherRankNamesTheSameCulprit) {
  Rank0 rank;
  rank.MeetAt(4);
  MemberState state;
  state.epoch = Epoch(5);
  state.culprit = Culprit{Epoch(4), 1, Incarnation(0), LossReason::kSilent};
  rank.Do(event::StateReceived{kLinkToTwo, state});
  const PeerLoss loss = rank.Only<action::Broken>().loss;
  EXPECT_EQ(loss.rank, 1);
  EXPECT_EQ(loss.reason, LossReason::kSilent);
}

TEST(Membership, PeerThatMovedOnWithoutReasonIsNamedItself) {
  Rank0 rank;
  rank.MeetAt(4);
  rank.Hear(kLinkToTwo, 9, false);
  const PeerLoss loss = rank.Only<action::Broken>().loss;
  EXPECT_EQ(loss.rank, 2);
  EXPECT_EQ(loss.reason, LossReason::kMovedOn);
  EXPECT_EQ(rank.membership().epoch(), Epoch(9));
}

// Rank 0 hears nothing of rank 1 any more, and from rank 2 each heartbeat. Returns after how many
// it gives rank 1 up, each 250 ms; or nothing within a minute.
std::optional<int> HeartbeatsUntilLost(Rank0* rank, const MemberState& of_two, Sight answer) {
  constexpr int kHeartbeatsMax = 240;
  rank->MeetAt(4);
  for (int count = 1; count <= kHeartbeatsMax; ++count) {
    rank->Wait(milliseconds(250));
    for (const action::Look& look : rank->All<action::Look>()) {
      rank->Do(event::Seen{look.link, answer});
    }
    if (!rank->All<action::Broken>().empty()) {
      EXPECT_EQ(rank->Only<action::Broken>().loss.rank, 1);
      EXPECT_EQ(rank->Only<action::Broken>().loss.reason, LossReason::kSilent);
      EXPECT_EQ(rank->membership().Peers(rank->now())[0].state, PeerState::kSilent);
      return count;
    }
    rank->Do(event::StateReceived{kLinkToTwo, of_two});
  }
  return std::nullopt;
}

MemberState Saying(std::vector<Testimony> silent) {
  MemberState state;
  state.epoch = Epoch(4);
  state.joined = true;
  state.silent = std::move(silent);
  return state;
}

TEST(Membership, APeerOfAnotherHostThatOneRankMissesIsLostAfterFiveSeconds) {
  Rank0 rank;
  EXPECT_EQ(HeartbeatsUntilLost(&rank, Saying({}), {}), 20);
}

TEST(Membership, APeerThatTwoRanksMissIsLostAtOnce) {
  Rank0 rank;
  EXPECT_EQ(HeartbeatsUntilLost(&rank, Saying({{1, Sight::kUnseen}}), {}), 6);
}

TEST(Membership, WhatARankSeesOfAPeerOnItsHostCountsForTheOthers) {
  Rank0 starved;
  EXPECT_EQ(HeartbeatsUntilLost(&starved, Saying({{1, Sight::kStarved}}), {}), 120);
  Rank0 stopped;
  EXPECT_EQ(HeartbeatsUntilLost(&stopped, Saying({{1, Sight::kStopped}}), {}), 6);
}

TEST(Membership, APeerOfThisHostIsJudgedByWhatTheKernelSays) {
  const auto until_lost = [](Sight sight) {
    Hello self = HelloFrom(0);
    self.seat = Seat{7, 100, 2000};
    Rank0 rank(self);
    return HeartbeatsUntilLost(&rank, Saying({{1, Sight::kUnseen}}), sight);
  };
  EXPECT_EQ(until_lost(Sight::kStopped), 6);
  EXPECT_EQ(until_lost(Sight::kRunning), 6) << "the other rank misses it, too";
  EXPECT_EQ(until_lost(Sight::kStrained), 20) << "the other's word counts for nothing";
  EXPECT_EQ(until_lost(Sight::kStarved), 120);
}

TEST(Membership, ASuspicionIsToldToThePeersAndInTheStatus) {
  Rank0 rank;
  rank.MeetAt(4);
  for (int tick = 1; tick <= 5; ++tick) {
    rank.Wait(milliseconds(250));
    rank.Hear(kLinkToTwo, 4, true);
    EXPECT_EQ(rank.membership().Peers(rank.now())[0].state, PeerState::kConnected) << tick;
  }
  rank.Wait(milliseconds(250));
  EXPECT_EQ(rank.membership().Peers(rank.now())[0].state, PeerState::kSilent);
  ASSERT_THAT(rank.All<action::Send>(), Not(IsEmpty()));
  EXPECT_THAT(rank.All<action::Send>().front().state.silent,
              ElementsAre(Testimony{1, Sight::kUnseen}));
  rank.Hear(kLinkToOne, 4, true);
  EXPECT_EQ(rank.membership().Peers(rank.now())[0].state, PeerState::kConnected);
}

TEST(Membership, ARankThatWasHeldUpItselfIsNotLostByTheWordOfTwo) {
  Rank0 rank;
  rank.MeetAt(4);
  MemberState strained = Saying({});
  strained.is_strained = true;
  rank.Do(event::StateReceived{kLinkToOne, strained});
  for (int tick = 1; tick < 20; ++tick) {
    rank.Wait(milliseconds(250));
    ASSERT_THAT(rank.All<action::Broken>(), IsEmpty()) << tick;
    rank.Do(event::StateReceived{kLinkToTwo, Saying({{1, Sight::kUnseen}})});
  }
  rank.Wait(milliseconds(250));
  EXPECT_EQ(rank.Only<action::Broken>().loss.rank, 1);
}

TEST(Membership, TheWordOfARankThatIsSilentItselfCountsForNothing) {
  Rank0 rank;
  rank.MeetAt(4);
  rank.Do(event::StateReceived{kLinkToTwo, Saying({{1, Sight::kUnseen}})});
  for (int tick = 1; tick < 20; ++tick) {
    rank.Wait(milliseconds(250));
    ASSERT_THAT(rank.All<action::Broken>(), IsEmpty()) << tick;
  }
}

TEST(Membership, ARankThatWasHeldUpSaysSo) {
  Rank0 rank;
  rank.Connect();
  rank.Wait(milliseconds(250));
  EXPECT_FALSE(rank.All<action::Send>().front().state.is_strained);
  rank.Wait(milliseconds(700));
  EXPECT_TRUE(rank.All<action::Send>().front().state.is_strained);
}

TEST(Membership, PeerThatNeverCameIsMissedSinceTheMeetingWasAskedFor) {
  Rank0 rank;
  rank.Wait(milliseconds(250));
  EXPECT_EQ(rank.membership().Peers(rank.now())[0].silent_seconds, 0);
  rank.Join();
  rank.Wait(milliseconds(250));

  const PeerStatus peer = rank.membership().Peers(rank.now())[0];

  EXPECT_EQ(peer.state, PeerState::kMissing);
  EXPECT_EQ(peer.silent_seconds, 0.25);
}

// A machine with many ranks takes seconds to start it: the silence of the one before is not its
// own.
TEST(Membership, SuccessorThatHasNotComeIsMissingAndNotLost) {
  Rank0 rank;
  rank.MeetAt(4);
  rank.Wait(milliseconds(250));
  rank.Do(event::PeerGone{1, Incarnation(1), Epoch(5)});
  rank.Join();
  rank.Wait(milliseconds(250));

  const PeerStatus peer = rank.membership().Peers(rank.now())[0];
  EXPECT_EQ(peer.incarnation, Incarnation(1));
  EXPECT_EQ(peer.state, PeerState::kMissing);
  EXPECT_EQ(peer.silent_seconds, 0.25);
}

TEST(Membership, PeerStarvedForASecondIsNotLost) {
  Rank0 rank;
  rank.MeetAt(4);
  for (int tick = 0; tick < 4; ++tick) {
    rank.Wait(milliseconds(250));
    EXPECT_THAT(rank.All<action::Broken>(), IsEmpty());
    rank.Hear(kLinkToTwo, 4, true);
  }
  rank.Hear(kLinkToOne, 4, true);
  rank.Wait(milliseconds(250));
  EXPECT_THAT(rank.All<action::Broken>(), IsEmpty());
}

TEST(Membership, ProcessThatWasItselfStoppedBlamesNobody) {
  Rank0 rank;
  rank.MeetAt(4);
  rank.Wait(std::chrono::seconds(60));
  EXPECT_THAT(rank.All<action::Broken>(), IsEmpty());
  rank.Wait(milliseconds(250));
  EXPECT_THAT(rank.All<action::Broken>(), IsEmpty());
}

TEST(Membership, NewerIncarnationReplacesTheOlderAndTellsIt) {
  Rank0 rank;
  rank.MeetAt(4);
  rank.Do(event::HelloReceived{LinkId(13), HelloFrom(1, 1)});
  EXPECT_EQ(rank.Only<action::Broken>().loss.reason, LossReason::kReplaced);
  EXPECT_EQ(rank.Only<action::Close>().link, kLinkToOne);
  EXPECT_TRUE(rank.Only<action::Close>().tell_superseded);
  EXPECT_EQ(rank.Only<action::Accept>().link, LinkId(13));
}

TEST(Membership, ZombieOfAnOlderIncarnationOrAttemptIsRefusedForGood) {
  Rank0 rank;
  rank.Do(event::HelloReceived{kLinkToOne, HelloFrom(1, 2)});
  rank.Do(event::HelloReceived{LinkId(13), HelloFrom(1, 1)});
  EXPECT_EQ(rank.Only<action::Refuse>().reason, Refusal::kSuperseded);
  Hello older = HelloFrom(2);
  older.identity.attempt = Attempt(0);
  rank.Do(event::HelloReceived{LinkId(14), older});
  EXPECT_EQ(rank.Only<action::Refuse>().reason, Refusal::kSuperseded);
}

TEST(Membership, HelloOfANewerAttemptMakesThisProcessTheZombie) {
  Rank0 rank;
  rank.MeetAt(4);
  Hello newer = HelloFrom(2);
  newer.identity.attempt = Attempt(2);
  rank.Do(event::HelloReceived{LinkId(14), newer});
  EXPECT_EQ(rank.All<action::Superseded>().size(), 1U);
  EXPECT_TRUE(rank.membership().is_superseded());
  rank.Join();
  EXPECT_EQ(rank.All<action::Superseded>().size(), 1U);
}

TEST(Membership, StrangersAreRefused) {
  Rank0 rank;
  std::vector<Hello> strangers(4, HelloFrom(1));
  strangers[0].identity.job_uid = "other";
  strangers[1].identity.world_size = 4;
  strangers[2].identity.rank = 3;
  strangers[3].identity.rank = 0;  // our own
  for (const Hello& stranger : strangers) {
    rank.Do(event::HelloReceived{LinkId(20), stranger});
    EXPECT_EQ(rank.Only<action::Refuse>().reason, Refusal::kWrongJob);
  }
}

TEST(Membership, WhenBothCallAtOnceTheHigherRanksCallWins) {
  Rank0 rank;
  rank.Do(event::Tick{});
  rank.Do(event::DialConnected{1});
  rank.Do(event::HelloReceived{kLinkToOne, HelloFrom(1)});
  EXPECT_EQ(rank.Only<action::CancelDial>().rank, 1);
  EXPECT_EQ(rank.Only<action::Accept>().link, kLinkToOne);

  Membership higher(MembershipOptions{HelloFrom(2), Epoch(0)}, rank.now());
  (void)higher.Apply(event::Tick{}, rank.now());
  (void)higher.Apply(event::DialConnected{1}, rank.now());
  const auto actions = higher.Apply(event::HelloReceived{kLinkToOne, HelloFrom(1)}, rank.now());
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(std::get<action::Refuse>(actions[0]).reason, Refusal::kBusy);
}

TEST(Membership, OperatorsWordEndsTheMeetingBeforeTheConnectionDoes) {
  Rank0 rank;
  rank.MeetAt(4);
  rank.Do(event::PeerGone{2, Incarnation(1), Epoch(8)});
  EXPECT_EQ(rank.Only<action::Broken>().loss.reason, LossReason::kGone);
  EXPECT_EQ(rank.Only<action::Broken>().loss.rank, 2);
  EXPECT_EQ(rank.membership().epoch(), Epoch(8));
  rank.Do(event::PeerGone{2, Incarnation(1), Epoch(8)});
  EXPECT_THAT(rank.All<action::Broken>(), IsEmpty());
  EXPECT_EQ(rank.membership().epoch(), Epoch(8));
}

TEST(Membership, OperatorsWordAboutThisRankSupersedesIt) {
  Rank0 rank;
  rank.Do(event::PeerGone{0, Incarnation(0), Epoch(5)});
  EXPECT_FALSE(rank.membership().is_superseded());
  rank.Do(event::PeerGone{0, Incarnation(1), Epoch(5)});
  EXPECT_TRUE(rank.membership().is_superseded());
}

TEST(Membership, DeadlineNamesWhoDidNotCome) {
  Rank0 rank;
  rank.Connect();
  rank.Join();
  for (int tick = 0; tick < 40; ++tick) {
    EXPECT_THAT(rank.All<action::TimedOut>(), IsEmpty());
    rank.Hear(kLinkToOne, 4, false);
    rank.Hear(kLinkToTwo, 3, false);
    rank.Wait(milliseconds(250));
  }
  EXPECT_THAT(rank.Only<action::TimedOut>().missing, ElementsAre(2));
}

TEST(Membership, LossWhileWiringMeetsAgainWithoutTheCallerKnowing) {
  Rank0 rank;
  rank.Connect();
  rank.Join();
  rank.Hear(kLinkToOne, 4, false);
  rank.Hear(kLinkToTwo, 4, false);
  rank.Hear(kLinkToOne, 4, true);
  rank.Hear(kLinkToTwo, 4, true);
  rank.Do(event::LinkLost{kLinkToTwo});
  EXPECT_EQ(rank.All<action::Abandon>().size(), 1U);
  EXPECT_THAT(rank.All<action::Broken>(), IsEmpty());
  EXPECT_EQ(rank.membership().epoch(), Epoch(5));
  EXPECT_TRUE(rank.All<action::Send>().at(0).state.joined);
  rank.Do(event::DataLinksReady{Epoch(4)});
  EXPECT_THAT(rank.All<action::Met>(), IsEmpty());
}

TEST(Membership, DataLinksAreWantedOnlyForTheEpochBeingMet) {
  Rank0 rank;
  rank.Connect();
  rank.Join();
  EXPECT_FALSE(rank.membership().WantsDataLink(1, Incarnation(0), Epoch(4)));
  rank.Hear(kLinkToOne, 4, false);
  rank.Hear(kLinkToTwo, 4, false);
  EXPECT_TRUE(rank.membership().WantsDataLink(1, Incarnation(0), Epoch(4)));
  EXPECT_FALSE(rank.membership().WantsDataLink(1, Incarnation(0), Epoch(3)));
  EXPECT_FALSE(rank.membership().WantsDataLink(1, Incarnation(1), Epoch(4)));
  EXPECT_FALSE(rank.membership().WantsDataLink(0, Incarnation(0), Epoch(4)));
}

TEST(Membership, MissingPeerIsDialledAgainWithGrowingPauses) {
  Rank0 rank;
  rank.Do(event::Tick{});
  EXPECT_EQ(rank.All<action::Dial>().size(), 2U);
  rank.Do(event::DialFailed{1, false});
  EXPECT_THAT(rank.All<action::Dial>(), IsEmpty());
  rank.Wait(milliseconds(2));
  EXPECT_EQ(rank.Only<action::Dial>().rank, 1);
  rank.Do(event::DialFailed{1, false});
  rank.Wait(milliseconds(2));
  EXPECT_THAT(rank.All<action::Dial>(), IsEmpty());
  rank.Wait(milliseconds(2));
  EXPECT_EQ(rank.Only<action::Dial>().rank, 1);
}

}  // namespace
}  // namespace lockstep::runtime
