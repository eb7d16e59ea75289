#include "trainer-runtime/rendezvous/handshake.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

Hello HelloOf(int rank) {
  return Hello{MeshIdentity{"uid", Attempt(0), rank, 3, Incarnation(0)}, "host"};
}

HelloFrame CallTo(int target_rank) {
  return HelloFrame{LinkKind::kControl, HelloOf(2), target_rank, Epoch(5), {}};
}

TEST(Handshake, BothSidesLearnWhoTheOtherIs) {
  CallerHandshake caller(CallTo(1), "key");
  AcceptorHandshake acceptor(HelloOf(1), "key");
  const Result<std::string> reply = acceptor.OnHello(caller.HelloBody());
  ASSERT_TRUE(reply.ok());
  const Result<std::string> proof = caller.OnReply(*reply);
  ASSERT_TRUE(proof.ok());
  EXPECT_TRUE(acceptor.OnProof(*proof).ok());
  EXPECT_EQ(caller.peer().identity.rank, 1);
  EXPECT_EQ(acceptor.caller().hello.identity.rank, 2);
  EXPECT_EQ(acceptor.caller().epoch, Epoch(5));
  const VerdictFrame verdict{true, Refusal::kBusy, Epoch(5), {}};
  EXPECT_TRUE(caller.OnVerdict(EncodeFrame(verdict)).ok());
}

TEST(Handshake, CallerNoticesAnAcceptorWithoutTheKey) {
  CallerHandshake caller(CallTo(1), "key");
  AcceptorHandshake acceptor(HelloOf(1), "guess");
  const Result<std::string> reply = acceptor.OnHello(caller.HelloBody());
  EXPECT_EQ(caller.OnReply(*reply).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Handshake, AcceptorNoticesACallerWithoutTheKey) {
  CallerHandshake caller(CallTo(1), "key");
  AcceptorHandshake acceptor(HelloOf(1), "key");
  ASSERT_TRUE(acceptor.OnHello(caller.HelloBody()).ok());
  const std::string forged = EncodeFrame(ProofFrame{std::string(64, '0')});
  EXPECT_EQ(acceptor.OnProof(forged).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Handshake, RecordedHelloAndProofOpenNothing) {
  CallerHandshake caller(CallTo(1), "key");
  AcceptorHandshake first(HelloOf(1), "key");
  const Result<std::string> proof = caller.OnReply(*first.OnHello(caller.HelloBody()));
  ASSERT_TRUE(first.OnProof(*proof).ok());
  AcceptorHandshake second(HelloOf(1), "key");
  ASSERT_TRUE(second.OnHello(caller.HelloBody()).ok());
  EXPECT_FALSE(second.OnProof(*proof).ok());
}

TEST(Handshake, ChangedIdentityBreaksTheProof) {
  CallerHandshake caller(CallTo(1), "key");
  AcceptorHandshake acceptor(HelloOf(1), "key");
  const std::string reply = *acceptor.OnHello(caller.HelloBody());
  const Result<Frame> frame = DecodeFrame(reply);
  auto changed = std::get<ReplyFrame>(*frame);
  changed.hello.identity.incarnation = Incarnation(7);
  EXPECT_FALSE(caller.OnReply(EncodeFrame(changed)).ok());
}

TEST(Handshake, WrongDoorIsSaidSoAtOnce) {
  AcceptorHandshake acceptor(HelloOf(1), "key");
  CallerHandshake other_rank(CallTo(0), "key");
  EXPECT_EQ(acceptor.OnHello(other_rank.HelloBody()).error().code(), ErrorCode::kMismatch);
  HelloFrame hello = CallTo(1);
  hello.hello.identity.job_uid = "other";
  CallerHandshake other_job(hello, "key");
  EXPECT_EQ(acceptor.OnHello(other_job.HelloBody()).error().code(), ErrorCode::kMismatch);
}

TEST(Handshake, OnlyAProvenPeerCanSupersede) {
  CallerHandshake caller(CallTo(1), "key");
  const std::string verdict = EncodeFrame(VerdictFrame{false, Refusal::kSuperseded, Epoch(0), {}});
  EXPECT_EQ(caller.OnReply(verdict).error().code(), ErrorCode::kCorrupt);
  AcceptorHandshake acceptor(HelloOf(1), "key");
  ASSERT_TRUE(caller.OnReply(*acceptor.OnHello(caller.HelloBody())).ok());
  EXPECT_EQ(caller.OnVerdict(verdict).error().code(), ErrorCode::kStale);
}

TEST(Handshake, FramesOutOfTurnAreRefused) {
  CallerHandshake caller(CallTo(1), "key");
  AcceptorHandshake acceptor(HelloOf(1), "key");
  EXPECT_EQ(acceptor.OnHello(EncodeFrame(ProofFrame{"x"})).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(caller.OnReply(caller.HelloBody()).error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace lockstep::runtime
