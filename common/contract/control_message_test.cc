#include "common/contract/control_message.h"

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

TEST(ControlMessage, RoundTripsUnderItsSignature) {
  for (const ControlMessage& message : {PeerGone(), Stop()}) {
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
      {R"({"jobUid":"u","attempt":0,"counter":1,"kind":"halt"})",
       "kind: \"halt\" found, expected one of peer_gone, stop"},
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

TEST(StatusToken, OpensTheStatusToWhoKnowsTheKey) {
  const std::string token = StatusToken(kKey);
  EXPECT_TRUE(IsStatusAuthorized(kKey, "Bearer " + token));
  EXPECT_FALSE(IsStatusAuthorized(kKey, token));
  EXPECT_FALSE(IsStatusAuthorized(kKey, "Bearer "));
  EXPECT_FALSE(IsStatusAuthorized(kKey, "Bearer " + StatusToken("another key")));
  EXPECT_FALSE(IsStatusAuthorized(kKey, "Basic " + token));
  EXPECT_FALSE(IsStatusAuthorized(kKey, ""));
  EXPECT_FALSE(IsStatusAuthorized("", "Bearer "));
}

TEST(StatusToken, IsNotASignatureOfAnyMessage) {
  EXPECT_FALSE(VerifyControlMessage(kKey, "status", StatusToken(kKey)).ok());
}

}  // namespace
}  // namespace lockstep
