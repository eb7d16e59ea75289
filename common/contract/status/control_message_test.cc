#include "common/contract/status/control_message.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr const char* kKey = "0123456789abcdef";

ControlMessage PeerGone() {
  ControlMessage message;
  message.job_uid = "uid-1";
  message.attempt = Attempt(2);
  message.counter = 7;
  message.kind = ControlKind::kPeerGone;
  message.rank = 3;
  message.epoch = Epoch(8);
  message.incarnation = Incarnation(1);
  return message;
}

ControlMessage Stop() {
  ControlMessage message;
  message.job_uid = "uid-1";
  message.attempt = Attempt(2);
  message.counter = 8;
  message.kind = ControlKind::kStop;
  return message;
}

ControlMessage OfRelaunch(ControlKind kind) {
  ControlMessage message = Stop();
  message.kind = kind;
  message.relaunch = 2;
  message.epoch = kind == ControlKind::kRelaunch ? Epoch(9) : Epoch();
  return message;
}

TEST(ControlMessage, RoundTripsUnderItsSignature) {
  for (const ControlMessage& message :
       {PeerGone(), Stop(), OfRelaunch(ControlKind::kHalt), OfRelaunch(ControlKind::kRelaunch)}) {
    const std::string body = EncodeControlMessage(message);
    const Result<ControlMessage> read =
        VerifyControlMessage(kKey, body, SignControlBody(kKey, body));
    ASSERT_TRUE(read.ok()) << read.error().ToString();
    EXPECT_EQ(*read, message);
  }
}

TEST(ControlMessage, AnyChangedByteIsRefused) {
  const std::string body = EncodeControlMessage(PeerGone());
  const std::string signature = SignControlBody(kKey, body);
  for (std::size_t i = 0; i < body.size(); ++i) {
    std::string changed = body;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(VerifyControlMessage(kKey, changed, signature).ok()) << i;
  }
  for (std::size_t i = 0; i < signature.size(); ++i) {
    std::string changed = signature;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_FALSE(VerifyControlMessage(kKey, body, changed).ok()) << i;
  }
}

TEST(ControlMessage, OtherKeysAndNoKeyAreRefused) {
  const std::string body = EncodeControlMessage(Stop());
  const std::string signature = SignControlBody(kKey, body);
  EXPECT_FALSE(VerifyControlMessage("another key", body, signature).ok());
  EXPECT_FALSE(VerifyControlMessage("", body, signature).ok());
  EXPECT_FALSE(VerifyControlMessage(kKey, body, "").ok());
  EXPECT_FALSE(VerifyControlMessage(kKey, body, signature + "0").ok());
}

TEST(ControlMessage, ABadSignatureIsNotedBeforeABadBody) {
  const Result<ControlMessage> read = VerifyControlMessage(kKey, "{", "00");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message(), HasSubstr("signature"));
}

TEST(ControlMessage, DecodesStrictly) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON"},
      {"[]", "an object"},
      {R"({"attempt":0,"counter":1,"kind":"stop"})", "jobUid: missing"},
      {R"({"jobUid":"u","counter":1,"kind":"stop"})", "attempt: missing"},
      {R"({"jobUid":"u","attempt":0,"kind":"stop"})", "counter: missing"},
      {R"({"jobUid":"u","attempt":0,"counter":0,"kind":"stop"})", "counter: 0 found"},
      {R"({"jobUid":"u","attempt":0,"counter":1})", "kind: missing"},
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"pause"})",
       "kind: \"pause\" found, expected one of peer_gone, stop, halt, relaunch"},
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"halt"})", "relaunch: missing"},
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"halt","relaunch":1,"epoch":1})",
       "epoch: unknown field"},
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"relaunch","relaunch":101,"epoch":1})",
       "relaunch: 101 found"},
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"relaunch","relaunch":1})",
       "epoch: missing"},
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"stop","deadlineSeconds":1})",
       "deadlineSeconds"},
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"stop","rank":0})", "rank: unknown field"},
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"peer_gone","epoch":1,"incarnation":0})",
       "rank: missing"},
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"peer_gone","rank":0,"incarnation":0})",
       "epoch: missing"},
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"peer_gone","rank":0,"epoch":1})",
       "incarnation: missing"},
      {std::string(5000, ' '), "5000 bytes found, expected at most 4096"},
  };
  for (const auto& [body, why] : cases) {
    const Result<ControlMessage> read = DecodeControlMessage(body);
    ASSERT_FALSE(read.ok()) << body;
    EXPECT_THAT(read.error().ToString(), HasSubstr(why)) << body;
  }
}

TEST(ControlFreshness, OnlyANewerCounterOfThisAttemptIsFresh) {
  const ControlMessage message = PeerGone();  // counter 7, attempt 2
  EXPECT_TRUE(CheckControlFreshness(message, {"uid-1", Attempt(2), 0}).ok());
  EXPECT_TRUE(CheckControlFreshness(message, {"uid-1", Attempt(2), 6}).ok());
  const Status repeated = CheckControlFreshness(message, {"uid-1", Attempt(2), 7});
  ASSERT_FALSE(repeated.ok());
  EXPECT_EQ(repeated.error().code(), ErrorCode::kStale);
  EXPECT_EQ(repeated.error().ToString(), "counter: 7 found, expected more than 7");
  const Status older = CheckControlFreshness(message, {"uid-1", Attempt(3), 0});
  ASSERT_FALSE(older.ok());
  EXPECT_EQ(older.error().code(), ErrorCode::kStale);
  const Status foreign = CheckControlFreshness(message, {"uid-2", Attempt(2), 0});
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().code(), ErrorCode::kMismatch);
}

constexpr const char* kPod = "mnist-worker-1-r2";
constexpr WallTime kNow{std::chrono::seconds(1'800'000'000)};

bool Opens(const std::string& header, WallTime now = kNow, const std::string& pod = kPod) {
  return JudgeStatusToken(kKey, pod, header, now) == TokenVerdict::kTaken;
}

TEST(StatusToken, OpensTheStatusToWhoKnowsTheKey) {
  const std::string token = StatusToken(kKey, kPod, kNow);
  EXPECT_TRUE(Opens("Bearer " + token));
  EXPECT_FALSE(Opens(token));
  EXPECT_FALSE(Opens("Bearer "));
  EXPECT_FALSE(Opens("Bearer " + StatusToken("another key", kPod, kNow)));
  EXPECT_FALSE(Opens("Basic " + token));
  EXPECT_FALSE(Opens(""));
  EXPECT_EQ(JudgeStatusToken("", kPod, "Bearer " + token, kNow), TokenVerdict::kForeign);
}

TEST(StatusToken, OpensOnePodAloneAndNotForLong) {
  const std::string header = "Bearer " + StatusToken(kKey, kPod, kNow);
  EXPECT_FALSE(Opens(header, kNow, "mnist-worker-1-r3"));
  EXPECT_TRUE(Opens(header, kNow + kStatusTokenLife + kStatusClockSkewMax));
  EXPECT_FALSE(
      Opens(header, kNow + kStatusTokenLife + kStatusClockSkewMax + std::chrono::seconds(1)));
  EXPECT_TRUE(Opens(header, kNow - kStatusClockSkewMax));
  EXPECT_FALSE(Opens(header, kNow - kStatusClockSkewMax - std::chrono::seconds(1)));
}

TEST(StatusToken, OnlyWhoSignedItHearsThatItIsOfAnotherTime) {
  const WallTime later = kNow + std::chrono::hours(1);
  EXPECT_EQ(JudgeStatusToken(kKey, kPod, "Bearer " + StatusToken(kKey, kPod, kNow), later),
            TokenVerdict::kExpired);
  EXPECT_EQ(JudgeStatusToken(kKey, kPod, "Bearer " + StatusToken("another", kPod, kNow), later),
            TokenVerdict::kForeign);
}

TEST(StatusToken, ExpiryIsSignedToo) {
  const std::string token = StatusToken(kKey, kPod, kNow);
  const std::string later = "1900000000" + token.substr(token.find('.'));
  EXPECT_FALSE(Opens("Bearer " + later, WallTime(std::chrono::seconds(1'899'999'990))));
  EXPECT_FALSE(Opens("Bearer x" + token.substr(1)));
}

TEST(StatusToken, IsNotASignatureOfAnyMessage) {
  EXPECT_FALSE(VerifyControlMessage(kKey, "status", StatusToken(kKey, kPod, kNow)).ok());
}

}  // namespace
}  // namespace lockstep
