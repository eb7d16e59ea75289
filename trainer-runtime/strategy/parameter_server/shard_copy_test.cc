#include "trainer-runtime/strategy/parameter_server/shard_copy.h"

#include <string>

#include <gtest/gtest.h>

#include "trainer-runtime/strategy/parameter_server/testing/shard_values.h"

namespace lockstep::runtime {
namespace {

using testing::AppendDigit;
using testing::kFirst;
using testing::kFirstAgain;
using testing::kSecond;
using testing::Values;
using testing::ViewOf;

ShardCopyOptions OptionsOf(ShardPlace place, const ShardView& view) {
  ShardCopyOptions options;
  options.place = place;
  options.incarnation = view.at(place);
  options.view = view;
  options.rule = AppendDigit;
  return options;
}

// Words for what is sent, short enough to compare whole.
struct Describe {
  std::string operator()(const WorkerReply& reply) const {
    const std::string to = "to " + std::to_string(reply.process.worker) + ": ";
    return to + std::visit(*this, reply.body);
  }

  std::string operator()(const CopyMessage& message) const {
    return std::visit(*this, message.body);
  }

  std::string operator()(const reply::Pulled& pulled) const {
    return "pulled " + std::to_string(static_cast<int>(pulled.parameters->at(0)));
  }

  std::string operator()(const reply::Done& /*done*/) const { return "done"; }

  std::string operator()(const reply::Unseeded& /*unseeded*/) const { return "unseeded"; }

  std::string operator()(const reply::NotServing& /*no*/) const { return "not serving"; }

  std::string operator()(const reply::Outdated& /*outdated*/) const { return "outdated"; }

  std::string operator()(const reply::Lost& /*lost*/) const { return "lost"; }

  std::string operator()(const reply::Misfit& /*misfit*/) const { return "misfit"; }

  std::string operator()(const copying::Append& append) const {
    return "append " + std::to_string(append.index);
  }

  std::string operator()(const copying::Confirm& confirm) const {
    return "confirm " + std::to_string(confirm.index);
  }

  std::string operator()(const copying::FillRequest& /*request*/) const { return "fill me"; }

  std::string operator()(const copying::Fill& fill) const {
    return "fill " + std::to_string(fill.content->entry_count);
  }

  std::string operator()(const copying::Notice& /*notice*/) const { return "notice"; }
};

using Words = std::vector<std::string>;

// One copy of a shard, with the workers and the other copy played by the test.
class Played {
 public:
  explicit Played(ShardCopyOptions options) : copy(std::move(options)) {}

  Words Said() {
    Words words;
    for (const ShardCopy::Duty& duty : copy.TakeDuties()) {
      words.push_back(std::visit(Describe(), duty));
    }
    return words;
  }

  Words Ask(const WorkerProcess& process, int64_t sequence, decltype(WorkerRequest::body) body) {
    copy.OnRequest({copy.view(), process, ++number_, sequence, std::move(body)});
    return Said();
  }

  Words Seed(const WorkerProcess& process = kFirst) {
    return Ask(process, 0, request::Seed{Values({0}), Values({}), 0, kGateOpen, ""});
  }

  Words Push(const WorkerProcess& process, int64_t sequence, float digit) {
    return Ask(process, sequence, request::Push{Values({digit}), {}});
  }

  Words Pull(const WorkerProcess& process, int64_t sequence) {
    return Ask(process, sequence, request::Pull{});
  }

  template <typename Body>
  Words Hear(Body body) {
    const Status taken = copy.OnCopyMessage({copy.view(), std::move(body)});
    EXPECT_TRUE(taken.ok()) << taken.error().ToString();
    return Said();
  }

  Words HearOf(const ShardView& view) {
    copy.OnView(view);
    return Said();
  }

  ShardCopy copy;

 private:
  int64_t number_ = 0;
};

Played ServingAlone(int64_t gate = kGateOpen) {
  ShardCopyOptions options = OptionsOf(ShardPlace::kHome, ViewOf(0, 0, 0));
  options.has_partner = false;
  Played played(std::move(options));
  played.Ask(kFirst, 0, request::Seed{Values({0}), Values({}), 0, gate, "note"});
  return played;
}

TEST(ShardCopy, PushIsAcknowledgedOnceTheBuddyHasIt) {
  Played home(OptionsOf(ShardPlace::kHome, ViewOf(0, 0, 0)));

  EXPECT_EQ(home.Seed(), (Words{"append 1", "append 2"}));  // who seeds is let in first
  EXPECT_EQ(home.Hear(copying::Confirm{2}), (Words{"to 0: done"}));
  EXPECT_EQ(home.Push(kFirst, 1, 7), (Words{"append 3"}));
  EXPECT_EQ(home.Push(kFirst, 1, 7), Words{}) << "asked again before it is confirmed";
  EXPECT_EQ(home.Hear(copying::Confirm{3}), (Words{"to 0: done"}));
  EXPECT_EQ(home.Push(kFirst, 1, 7), (Words{"to 0: done"})) << "asked again after";
  EXPECT_EQ(home.copy.content().parameters, std::vector<float>{7});
}

TEST(ShardCopy, WhatIsNotConfirmedIsSentAgain) {
  Played home(OptionsOf(ShardPlace::kHome, ViewOf(0, 0, 0)));
  home.Seed();
  home.Hear(copying::Confirm{1});

  home.copy.Resend();

  EXPECT_EQ(home.Said(), (Words{"append 2"}));
}

TEST(ShardCopy, SecondSeedIsAcknowledgedOnceTheFirstIsConfirmed) {
  Played home(OptionsOf(ShardPlace::kHome, ViewOf(0, 0, 0)));
  home.Seed();
  EXPECT_EQ(home.Seed(kSecond), Words{});
  home.Hear(copying::Confirm{2});
  EXPECT_EQ(home.Seed(kSecond), (Words{"to 1: done"}));
}

TEST(ShardCopy, PullShowsWhatIsThereAndWaitsForWhatMakesItDue) {
  Played home(OptionsOf(ShardPlace::kHome, ViewOf(0, 0, 0)));
  EXPECT_EQ(home.Pull(kFirst, 0), (Words{"append 1", "to 0: unseeded"}));
  home.Seed();
  home.Hear(copying::Confirm{2});
  EXPECT_EQ(home.Pull(kSecond, 0), (Words{"append 3"}));
  EXPECT_EQ(home.Hear(copying::Confirm{3}), (Words{"to 1: pulled 0"}));
}

TEST(ShardCopy, WorkerTooFarAheadWaitsForTheSlowestOne) {
  Played home = ServingAlone();
  home.Pull(kFirst, 0);
  home.Pull(kSecond, 0);

  EXPECT_EQ(home.Push(kFirst, 1, 3), (Words{"to 0: done"}));
  EXPECT_EQ(home.Pull(kFirst, 1), Words{});
  EXPECT_EQ(home.Push(kSecond, 1, 4), (Words{"to 1: done", "to 0: pulled 34"}));
}

TEST(ShardCopy, NobodyWaitsForAWorkerThatIsGone) {
  Played home = ServingAlone();
  home.Pull(kFirst, 0);
  home.Pull(kSecond, 0);
  home.Push(kFirst, 1, 3);
  ASSERT_EQ(home.Pull(kFirst, 1), Words{});

  home.copy.OnWorkerGone(1, Incarnation(1));

  EXPECT_EQ(home.Said(), (Words{"to 0: pulled 3"}));
  EXPECT_EQ(home.Push(kSecond, 1, 4), (Words{"to 1: outdated"}));
}

// A shard of two workers' job, before its seed.
Played UnseededOfTwo() {
  ShardCopyOptions options = OptionsOf(ShardPlace::kHome, ViewOf(0, 0, 0));
  options.has_partner = false;
  options.worker_count = 2;
  return Played(std::move(options));
}

TEST(ShardCopy, WorkerTooFarAheadWaitsForOneThatHasNotBegun) {
  Played home = UnseededOfTwo();
  home.Seed();
  EXPECT_EQ(home.Pull(kFirst, 0), (Words{"to 0: pulled 0"}));
  EXPECT_TRUE(home.copy.AwaitedToBegin().empty()) << "nobody waits yet";
  EXPECT_EQ(home.Push(kFirst, 1, 3), (Words{"to 0: done"}));
  EXPECT_EQ(home.Pull(kFirst, 1), Words{});
  EXPECT_EQ(home.copy.AwaitedToBegin(), std::set<int>{1});

  EXPECT_EQ(home.Pull(kSecond, 0), (Words{"to 1: pulled 3"}));
  EXPECT_TRUE(home.copy.AwaitedToBegin().empty()) << "it has begun";
  EXPECT_EQ(home.Push(kSecond, 1, 4), (Words{"to 1: done", "to 0: pulled 34"}));
}

TEST(ShardCopy, NobodyWaitsForAWorkerThatIsGoneBeforeItHasBegun) {
  Played home = UnseededOfTwo();
  home.Seed();
  home.Push(kFirst, 1, 3);
  ASSERT_EQ(home.Pull(kFirst, 1), Words{});

  home.copy.OnWorkerGone(1, Incarnation(1));

  EXPECT_EQ(home.Said(), (Words{"to 0: pulled 3"}));
  EXPECT_TRUE(home.copy.AwaitedToBegin().empty());
}

TEST(ShardCopy, WorkerThatIsGoneBeforeTheSeedIsNotWaitedFor) {
  Played home = UnseededOfTwo();
  home.copy.OnWorkerGone(1, Incarnation(1));
  home.Seed();
  home.Push(kFirst, 1, 3);
  EXPECT_EQ(home.Pull(kFirst, 1), (Words{"to 0: pulled 3"}));
}

// Nobody told this copy of the loss: the successor takes its predecessor's place.
TEST(ShardCopy, SuccessorOfAWorkerThatNeverBeganStandsWhereTheSlowestDoes) {
  Played home = UnseededOfTwo();
  home.Seed();
  home.Push(kFirst, 1, 3);
  ASSERT_EQ(home.Pull(kFirst, 1), Words{});
  EXPECT_EQ(home.Pull({1, Incarnation(1)}, 0), (Words{"to 0: pulled 3", "to 1: pulled 3"}));
}

TEST(ShardCopy, WhoTakesOverWaitsForThoseThatHaveNotBegunToo) {
  ShardCopyOptions options = OptionsOf(ShardPlace::kHome, ViewOf(0, 0, 0));
  options.worker_count = 2;
  Played home(std::move(options));
  EXPECT_EQ(home.Seed(), (Words{"append 1", "append 2", "append 3"})) << "both are let in first";
}

TEST(ShardCopy, WorkerThatLeavesIsAcknowledgedAndNotWaitedFor) {
  Played home = ServingAlone();
  home.Pull(kFirst, 0);
  home.Pull(kSecond, 0);
  home.Push(kFirst, 1, 3);
  home.Pull(kFirst, 1);

  EXPECT_EQ(home.Ask(kSecond, 0, request::Leave{}), (Words{"to 1: done", "to 0: pulled 3"}));
  EXPECT_EQ(home.Ask(kSecond, 0, request::Leave{}), (Words{"to 1: done"}));
}

TEST(ShardCopy, FollowingCopyTakesEntriesInTheirOrderAndServesNobody) {
  Played buddy(OptionsOf(ShardPlace::kBuddy, ViewOf(0, 0, 0)));
  const entry::Seed seed{Values({0}), Values({}), 0, kGateOpen, ""};

  EXPECT_EQ(buddy.Hear(copying::Append{2, entry::Admit{kFirst}}), (Words{"confirm 0"}));
  EXPECT_EQ(buddy.Hear(copying::Append{1, seed}), (Words{"confirm 1"}));
  EXPECT_EQ(buddy.Hear(copying::Append{1, seed}), (Words{"confirm 1"}));
  buddy.copy.Resend();
  EXPECT_EQ(buddy.Said(), (Words{"confirm 1"})) << "what it said may be lost";
  EXPECT_EQ(buddy.Pull(kFirst, 0), (Words{"to 0: not serving"}));
}

TEST(ShardCopy, BuddyServesInAHigherTermAndFillsTheNewcomer) {
  Played buddy(OptionsOf(ShardPlace::kBuddy, ViewOf(0, 0, 0)));
  buddy.Hear(copying::Append{1, entry::Seed{Values({0}), Values({}), 0, kGateOpen, ""}});
  buddy.Hear(copying::Append{2, entry::Admit{kFirst}});
  buddy.Hear(copying::Append{3, entry::Push{kFirst, 1, Values({7}), {}}});

  buddy.HearOf(ViewOf(1, 1, 0));
  EXPECT_EQ(buddy.copy.role(), CopyRole::kServing);
  EXPECT_EQ(buddy.Push(kFirst, 1, 7), (Words{"to 0: done"})) << "its predecessor took it";
  EXPECT_EQ(buddy.Push(kFirst, 2, 8), (Words{"to 0: done"})) << "nobody follows yet";

  EXPECT_EQ(buddy.Hear(copying::FillRequest{}), (Words{"fill 4"}));
  EXPECT_FALSE(buddy.copy.is_followed());
  EXPECT_EQ(buddy.Push(kFirst, 3, 9), (Words{"append 5"})) << "from here on it needs the newcomer";
  EXPECT_EQ(buddy.Hear(copying::Confirm{4}), Words{});
  EXPECT_TRUE(buddy.copy.is_followed());
  EXPECT_EQ(buddy.Hear(copying::Confirm{5}), (Words{"to 0: done"}));
  EXPECT_EQ(buddy.copy.content().parameters, std::vector<float>{789});
}

TEST(ShardCopy, NewcomerAsksUntilItIsFilledAndThenFollows) {
  Played home(OptionsOf(ShardPlace::kHome, ViewOf(1, 1, 0)));
  EXPECT_EQ(home.Said(), (Words{"fill me"}));
  home.copy.Resend();
  EXPECT_EQ(home.Said(), (Words{"fill me"}));

  ShardContent content;
  content.entry_count = 9;
  EXPECT_EQ(home.Hear(copying::Fill{std::make_shared<const ShardContent>(content)}),
            (Words{"confirm 9"}));
  EXPECT_EQ(home.copy.role(), CopyRole::kFollowing);
}

TEST(ShardCopy, WhoServesNextHasHeardOfWhoIsGone) {
  Played buddy(OptionsOf(ShardPlace::kBuddy, ViewOf(0, 0, 0)));
  buddy.Hear(copying::Append{1, entry::Seed{Values({0}), Values({}), 0, kGateOpen, ""}});
  buddy.Hear(copying::Append{2, entry::Admit{kFirst}});
  buddy.Hear(copying::Append{3, entry::Admit{kSecond}});
  buddy.copy.OnWorkerGone(1, Incarnation(1));

  buddy.HearOf(ViewOf(1, 1, 0));

  buddy.Push(kFirst, 1, 7);
  EXPECT_EQ(buddy.Pull(kFirst, 1), (Words{"to 0: pulled 7"}));
}

TEST(ShardCopy, OldTermIsRefusedAndToldOfTheNewOne) {
  Played home(OptionsOf(ShardPlace::kHome, ViewOf(0, 0, 0)));
  home.Seed();
  Played buddy(OptionsOf(ShardPlace::kBuddy, ViewOf(0, 0, 0)));
  buddy.HearOf(ViewOf(1, 1, 0));

  EXPECT_TRUE(
      buddy.copy.OnCopyMessage({ViewOf(0, 0, 0), copying::Append{1, entry::Admit{kFirst}}}).ok());
  EXPECT_EQ(buddy.Said(), (Words{"notice"}));
  EXPECT_EQ(buddy.copy.content().entry_count, 0);

  EXPECT_TRUE(home.copy.OnCopyMessage({buddy.copy.view(), copying::Notice{}}).ok());
  EXPECT_EQ(home.copy.role(), CopyRole::kSuperseded);
  EXPECT_EQ(home.Push(kFirst, 1, 7), (Words{"to 0: not serving"}));
}

TEST(ShardCopy, NewcomerWhoseFillerDiesIsLost) {
  Played home(OptionsOf(ShardPlace::kHome, ViewOf(1, 1, 0)));
  home.Said();

  home.HearOf(ViewOf(2, 1, 1));

  EXPECT_EQ(home.copy.role(), CopyRole::kLost);
  EXPECT_EQ(home.Pull(kFirst, 0), (Words{"to 0: lost"}));
}

// Both were named in one breath: neither was there when the other one was named.
TEST(ShardCopy, NewcomerThatANewcomerAsksIsLost) {
  Played home(OptionsOf(ShardPlace::kHome, ViewOf(2, 1, 1)));
  home.Said();

  home.Hear(copying::FillRequest{});

  EXPECT_EQ(home.copy.role(), CopyRole::kLost);
  EXPECT_EQ(home.Pull(kFirst, 0), (Words{"to 0: lost"}));
}

// Updates up to the gate are made, and then the values stand until it is opened.
TEST(ShardCopy, NobodyBeginsAStepBeyondTheGate) {
  Played home = ServingAlone(/*gate=*/2);
  const auto pull = [&](const WorkerProcess& process, int64_t step) {
    return home.Ask(process, 0, request::Pull{false, false, step, 0});
  };
  pull(kFirst, 1);
  pull(kSecond, 2);
  home.Push(kFirst, 1, 3);

  EXPECT_EQ(pull(kFirst, 3), Words{});
  EXPECT_EQ(home.Push(kSecond, 1, 4), (Words{"to 1: done"}));
  EXPECT_EQ(pull(kSecond, 4), Words{});
  EXPECT_EQ(home.Ask(kFirst, 0, request::Open{4}),
            (Words{"to 0: done", "to 0: pulled 34", "to 1: pulled 34"}));
  EXPECT_EQ(home.Ask(kFirst, 0, request::Open{3}), (Words{"to 0: done"}));
  EXPECT_EQ(home.copy.content().gate, 4);
}

TEST(ShardCopy, ReaderWaitsForTheUpdatesItNamesAndForNobodyElse) {
  Played home = ServingAlone(/*gate=*/2);
  home.Pull(kFirst, 0);
  home.Pull(kSecond, 0);
  home.Push(kFirst, 1, 3);

  EXPECT_EQ(home.Ask(kFirst, 0, request::Pull{false, true, 0, 2}), Words{});
  EXPECT_EQ(home.Push(kSecond, 1, 4), (Words{"to 1: done", "to 0: pulled 34"}));
}

// The second is two steps behind by its clock, and may not go on: the first has to.
TEST(ShardCopy, NobodyWaitsForWhoRestsAtTheGate) {
  Played home = ServingAlone(/*gate=*/3);
  const auto pull = [&](const WorkerProcess& process, int64_t step) {
    return home.Ask(process, 0, request::Pull{false, false, step, 0});
  };
  pull(kFirst, 1);
  pull(kSecond, 4);
  home.Push(kFirst, 1, 3);

  EXPECT_EQ(pull(kFirst, 2), (Words{"to 0: pulled 3"}));
}

// Its shares are done once, by whichever of its processes.
TEST(ShardCopy, SuccessorGoesOnWithTheShareAfterItsPredecessors) {
  Played home = ServingAlone();
  home.Pull(kFirst, 0);
  home.Push(kFirst, 1, 3);

  home.Pull(kFirstAgain, 0);
  EXPECT_EQ(home.Push(kFirst, 2, 9), (Words{"to 0: outdated"}));
  EXPECT_EQ(home.Push(kFirstAgain, 1, 9), (Words{"to 0: done"})) << "which it was";
  EXPECT_EQ(home.Push(kFirstAgain, 2, 4), (Words{"to 0: done"}));

  EXPECT_EQ(home.copy.content().parameters, std::vector<float>{34});
}

TEST(ShardCopy, SuccessorOfTheOnlyCopyIsLost) {
  ShardCopyOptions options = OptionsOf(ShardPlace::kHome, ViewOf(1, 1, 0));
  options.has_partner = false;
  Played home(std::move(options));

  EXPECT_EQ(home.Pull(kFirst, 0), (Words{"to 0: lost"}));
}

TEST(ShardCopy, SeedWithoutItsSlotsIsRefusedAndAnotherOneTaken) {
  ShardCopyOptions options = OptionsOf(ShardPlace::kHome, ViewOf(0, 0, 0));
  options.has_partner = false;
  options.slot_count = 2;
  Played home(std::move(options));
  const auto seed = [&](SharedValues parameters, SharedValues slots) {
    return home.Ask(
        kFirst, 0, request::Seed{std::move(parameters), std::move(slots), 0, kGateOpen, ""});
  };

  EXPECT_EQ(seed(Values({1, 2}), Values({0, 0})), (Words{"to 0: misfit"}));
  EXPECT_EQ(seed(Values({1}), nullptr), (Words{"to 0: misfit"}));
  EXPECT_EQ(seed(nullptr, Values({})), (Words{"to 0: misfit"}));
  EXPECT_FALSE(home.copy.content().is_seeded);
  EXPECT_EQ(seed(Values({1}), Values({0, 0})), (Words{"to 0: done"}));
}

// What a partner of another model would send. It stops nobody.
TEST(ShardCopy, EntryThatDoesNotFitIsNotTaken) {
  const std::vector<std::pair<std::string, ShardEntry>> entries{
      {"a gradient too long", entry::Push{kFirst, 1, Values({7, 7}), {}}},
      {"no gradient", entry::Push{kFirst, 1, nullptr, {}}},
      {"a push before its time", entry::Push{kFirst, 2, Values({7}), {}}},
      {"a seed without its slots", entry::Seed{Values({1}), Values({}), 0, kGateOpen, ""}}};
  for (const auto& [name, entry] : entries) {
    SCOPED_TRACE(name);
    ShardCopyOptions options = OptionsOf(ShardPlace::kBuddy, ViewOf(0, 0, 0));
    options.slot_count = 1;
    Played buddy(std::move(options));
    buddy.Hear(copying::Append{1, entry::Seed{Values({0}), Values({0}), 0, kGateOpen, ""}});
    buddy.Hear(copying::Append{2, entry::Admit{kFirst}});
    const ShardContent before = buddy.copy.content();

    const Status taken = buddy.copy.OnCopyMessage({buddy.copy.view(), copying::Append{3, entry}});

    EXPECT_EQ(taken.error().code(), ErrorCode::kMismatch);
    EXPECT_EQ(buddy.copy.content(), before);
    EXPECT_EQ(buddy.Said(), Words{});
  }
}

TEST(ShardCopy, ContentWithoutItsSlotsFillsNobody) {
  ShardCopyOptions options = OptionsOf(ShardPlace::kHome, ViewOf(1, 1, 0));
  options.slot_count = 1;
  Played home(std::move(options));
  ShardContent content;
  content.is_seeded = true;
  content.parameters = {1, 2};
  content.slots = {1};

  const Status taken = home.copy.OnCopyMessage(
      {home.copy.view(), copying::Fill{std::make_shared<const ShardContent>(content)}});

  EXPECT_EQ(taken.error().code(), ErrorCode::kMismatch);
  EXPECT_EQ(home.copy.role(), CopyRole::kEmpty);
}

TEST(ShardCopy, PushOfAnotherSizeIsRefusedAndOneOutOfTurnDropped) {
  Played home = ServingAlone();

  EXPECT_EQ(home.Ask(kFirst, 1, request::Push{Values({1, 2}), {}}), (Words{"to 0: misfit"}));
  EXPECT_EQ(home.Ask(kFirst, 1, request::Push{nullptr, {}}), (Words{"to 0: misfit"}));
  EXPECT_EQ(home.Push(kFirst, 2, 7), Words{});
  EXPECT_EQ(home.Push(kFirst, 0, 7), Words{});
  EXPECT_EQ(home.copy.content().parameters, std::vector<float>{0});
}

}  // namespace
}  // namespace lockstep::runtime
