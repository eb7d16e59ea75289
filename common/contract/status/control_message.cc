#include "common/contract/status/control_message.h"

#include <array>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/contract/environment/relaunch.h"
#include "common/contract/text/problems.h"
#include "common/json/json.h"

namespace lockstep {
namespace {

constexpr std::size_t kJobUidBytesMax = 128;  // a uid is 36 characters

Error BadControl(std::string message) {
  return Error(ErrorCode::kInvalidArgument, std::move(message));
}

void ReadKind(ObjectReader* reader, ControlMessage* message) {
  constexpr std::array<ControlKind, 4> kKinds = {
      ControlKind::kPeerGone, ControlKind::kStop, ControlKind::kHalt, ControlKind::kRelaunch};
  std::vector<std::string_view> names;
  for (const ControlKind kind : kKinds) {
    names.push_back(ControlKindName(kind));
  }
  reader->Require("kind", "peer_gone, stop, halt or relaunch");
  const std::optional<std::string> found = reader->Choice("kind", names);
  if (!found.has_value()) {
    return;
  }
  for (const ControlKind kind : kKinds) {
    message->kind = *found == ControlKindName(kind) ? kind : message->kind;
  }
  if (message->kind == ControlKind::kPeerGone) {
    message->rank =
        static_cast<int>(reader->RequireInt("rank", 0, std::numeric_limits<int>::max()));
    message->incarnation = Incarnation(reader->RequireInt("incarnation", 0));
  }
  if (message->kind == ControlKind::kPeerGone || message->kind == ControlKind::kRelaunch) {
    message->epoch = Epoch(reader->RequireInt("epoch", 0));
  }
  if (message->kind == ControlKind::kHalt || message->kind == ControlKind::kRelaunch) {
    message->relaunch = reader->RequireInt("relaunch", 1, kRelaunchesMax);
  }
}

// "EXPIRY.SIGNATURE", the expiry in seconds of the calendar.
std::string SignedStatusToken(std::string_view job_key, std::string_view pod, int64_t expires) {
  LOCKSTEP_CHECK(!job_key.empty(), "the job key is empty");
  const std::string text = std::to_string(expires);
  return text + "." + HmacSha256Hex(job_key, "status\n" + std::string(pod) + "\n" + text);
}

}  // namespace

std::string_view ControlKindName(ControlKind kind) {
  switch (kind) {
    case ControlKind::kPeerGone:
      return "peer_gone";
    case ControlKind::kStop:
      return "stop";
    case ControlKind::kHalt:
      return "halt";
    case ControlKind::kRelaunch:
      return "relaunch";
  }
  LOCKSTEP_CHECK(false, "control kind out of range");
}

std::string EncodeControlMessage(const ControlMessage& message) {
  Json json = Json::object();
  json["jobUid"] = message.job_uid;
  json["attempt"] = message.attempt.value();
  json["counter"] = message.counter;
  json["kind"] = std::string(ControlKindName(message.kind));
  if (message.kind == ControlKind::kPeerGone) {
    json["rank"] = message.rank;
    json["incarnation"] = message.incarnation.value();
  }
  if (message.kind == ControlKind::kPeerGone || message.kind == ControlKind::kRelaunch) {
    json["epoch"] = message.epoch.value();
  }
  if (message.kind == ControlKind::kHalt || message.kind == ControlKind::kRelaunch) {
    json["relaunch"] = message.relaunch;
  }
  return DumpJson(json);
}

std::string SignControlBody(std::string_view job_key, std::string_view body) {
  LOCKSTEP_CHECK(!job_key.empty(), "the job key is empty");
  return HmacSha256Hex(job_key, body);
}

Result<ControlMessage> VerifyControlMessage(std::string_view job_key,
                                            std::string_view body,
                                            std::string_view signature) {
  if (job_key.empty()) {
    return BadControl("control message refused: this process has no job key");
  }
  if (body.size() > kControlBytesMax) {
    return BadControl("control message refused: " + std::to_string(body.size()) +
                      " bytes found, expected at most " + std::to_string(kControlBytesMax));
  }
  if (!ConstantTimeEquals(signature, SignControlBody(job_key, body))) {
    return BadControl("control message refused: its signature was not made with this job's key");
  }
  return DecodeControlMessage(body);
}

Result<ControlMessage> DecodeControlMessage(std::string_view body) {
  if (body.size() > kControlBytesMax) {
    return BadControl("control message of " + std::to_string(body.size()) +
                      " bytes found, expected at most " + std::to_string(kControlBytesMax));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Json json, ParseJson(body));
  ControlMessage message;
  std::vector<Error> errors;
  ObjectReader reader(json, "", &errors);
  reader.Require("jobUid", "the job's unique id");
  message.job_uid = reader.String("jobUid").value_or("");
  if (message.job_uid.size() > kJobUidBytesMax) {
    reader.Fail("jobUid",
                std::to_string(message.job_uid.size()) + " bytes found, expected at most " +
                    std::to_string(kJobUidBytesMax));
  }
  message.attempt = Attempt(reader.RequireInt("attempt", 0));
  message.counter = reader.RequireInt("counter", 1);
  ReadKind(&reader, &message);
  reader.Finish();
  if (!errors.empty()) {
    return CombineProblems(errors);
  }
  return message;
}

Status CheckControlFreshness(const ControlMessage& message, const ControlReceiver& receiver) {
  if (message.job_uid != receiver.job_uid) {
    return Error(ErrorCode::kMismatch,
                 Quoted(message.job_uid) + " found, expected " + Quoted(receiver.job_uid))
        .WithField("jobUid");
  }
  if (message.attempt != receiver.attempt) {
    return Error(ErrorCode::kStale,
                 std::to_string(message.attempt.value()) + " found, expected " +
                     std::to_string(receiver.attempt.value()))
        .WithField("attempt");
  }
  if (message.counter <= receiver.counter_highest) {
    return Error(ErrorCode::kStale,
                 std::to_string(message.counter) + " found, expected more than " +
                     std::to_string(receiver.counter_highest))
        .WithField("counter");
  }
  return OkStatus();
}

std::string StatusToken(std::string_view job_key, std::string_view pod, WallTime now) {
  const auto expires = std::chrono::floor<std::chrono::seconds>(now + kStatusTokenLife);
  return SignedStatusToken(job_key, pod, expires.time_since_epoch().count());
}

TokenVerdict JudgeStatusToken(std::string_view job_key,
                              std::string_view pod,
                              std::string_view authorization_header,
                              WallTime now) {
  constexpr std::string_view kScheme = "Bearer ";
  if (job_key.empty() || !authorization_header.starts_with(kScheme)) {
    return TokenVerdict::kForeign;
  }
  const std::string_view token = authorization_header.substr(kScheme.size());
  const std::string_view text = token.substr(0, token.find('.'));
  int64_t expires = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), expires);
  if (error != std::errc() || end != text.data() + text.size() ||
      !ConstantTimeEquals(token, SignedStatusToken(job_key, pod, expires))) {
    return TokenVerdict::kForeign;
  }
  const int64_t present = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  const int64_t skew = std::chrono::seconds(kStatusClockSkewMax).count();
  const bool is_of_now =
      present - skew <= expires && expires <= present + kStatusTokenLife.count() + skew;
  return is_of_now ? TokenVerdict::kTaken : TokenVerdict::kExpired;
}

}  // namespace lockstep
