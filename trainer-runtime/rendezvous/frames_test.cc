#include "trainer-runtime/rendezvous/frames.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/prng.h"

namespace lockstep::runtime {
namespace {

Hello SomeHello() {
  return Hello{MeshIdentity{"uid-1", Attempt(2), 1, 3, Incarnation(4)},
               "host-a",
               Seat{0xf0000001U, 4711, 1500}};
}

std::vector<Frame> OneOfEach() {
  MemberState state;
  state.epoch = Epoch(9);
  state.joined = true;
  state.finished = true;
  state.agreement = 0xfedcba9876543210U;
  state.facts = SelfFacts{true, Step(77), 0xabcU};
  state.culprit = Culprit{Epoch(8), 2, Incarnation(1), LossReason::kSilent};
  state.is_strained = true;
  state.silent = {{2, Sight::kStarved}, {5, Sight::kUnseen}};
  return {HelloFrame{LinkKind::kData, SomeHello(), 2, Epoch(9), "nonce"},
          ReplyFrame{SomeHello(), "nonce", "proof"},
          ProofFrame{"proof"},
          VerdictFrame{false, Refusal::kStaleEpoch, Epoch(3), "detail"},
          state,
          MemberState{},
          SupersededFrame{}};
}

TEST(Frames, EveryKindIsReadAsItWasWritten) {
  for (const Frame& frame : OneOfEach()) {
    const std::string body = EncodeFrame(frame);
    const Result<Frame> read = DecodeFrame(body);
    ASSERT_TRUE(read.ok()) << frame.index();
    EXPECT_EQ(read->index(), frame.index());
    EXPECT_EQ(EncodeFrame(*read), body);
  }
}

TEST(Frames, FieldsArriveUnchanged) {
  const Result<Frame> read = DecodeFrame(EncodeFrame(OneOfEach()[4]));
  const auto& state = std::get<MemberState>(*read);
  EXPECT_EQ(state.epoch, Epoch(9));
  EXPECT_TRUE(state.joined);
  EXPECT_TRUE(state.finished);
  EXPECT_EQ(state.agreement, 0xfedcba9876543210U);
  EXPECT_EQ(state.facts.last_applied, Step(77));
  EXPECT_EQ(state.culprit, (Culprit{Epoch(8), 2, Incarnation(1), LossReason::kSilent}));
  EXPECT_TRUE(state.is_strained);
  EXPECT_EQ(state.silent, (std::vector<Testimony>{{2, Sight::kStarved}, {5, Sight::kUnseen}}));
  const Result<Frame> hello = DecodeFrame(EncodeFrame(OneOfEach()[0]));
  const Seat& seat = std::get<HelloFrame>(*hello).hello.seat;
  EXPECT_EQ(seat.pid_namespace, 0xf0000001U);
  EXPECT_EQ(seat.thread, 4711);
  EXPECT_EQ(seat.cpu_milli, 1500);
}

TEST(Frames, EveryCutAndEveryExtraByteIsRefused) {
  for (const Frame& frame : OneOfEach()) {
    const std::string body = EncodeFrame(frame);
    for (std::size_t size = 0; size < body.size(); ++size) {
      EXPECT_FALSE(DecodeFrame(body.substr(0, size)).ok()) << frame.index() << " at " << size;
    }
    EXPECT_FALSE(DecodeFrame(body + '\0').ok());
  }
}

// What a damaged frame decodes to, if anything, is something that we could have written.
TEST(Frames, DamagedBytesAreRefusedOrMeanExactlyOneFrame) {
  Prng prng(1);
  const std::vector<Frame> frames = OneOfEach();
  int accepted_count = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string body = EncodeFrame(frames[prng.Below(frames.size())]);
    for (uint64_t change = 0; change <= prng.Below(3); ++change) {
      body[prng.Below(body.size())] = static_cast<char>(prng.Below(256));
    }
    const Result<Frame> read = DecodeFrame(body);
    if (read.ok()) {
      ++accepted_count;
      EXPECT_EQ(EncodeFrame(*read), body);
    }
  }
  EXPECT_GT(accepted_count, 0);
}

TEST(Frames, OtherProtocolsAreToldFromDamage) {
  std::string body = EncodeFrame(OneOfEach()[0]);
  body[1] = '!';
  EXPECT_EQ(DecodeFrame(body).error().message(), "the caller uses a different protocol version");
}

}  // namespace
}  // namespace lockstep::runtime
