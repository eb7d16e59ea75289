#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"

namespace lockstep {

// What the operator tells a running process, by POST /control. The body is signed with the job's
// key, so nobody else on the network can stop a job or declare a rank dead.
inline constexpr const char* kControlSignatureHeader = "X-Lockstep-Signature";
inline constexpr std::size_t kControlBytesMax = 4096;  // a message is about 200 bytes

enum class ControlKind {
  kPeerGone,  // the pod of `rank` with `incarnation` is gone; the next meeting is `epoch`
  kStop,      // write a checkpoint and end, within the grace period of the pod
  kHalt,      // end the programs, keep the pod, and wait for kRelaunch
  kRelaunch,  // start the programs anew, all of whose peers have ended
};

// "peer_gone", "stop", "halt", "relaunch".
std::string_view ControlKindName(ControlKind kind);

struct ControlMessage {
  std::string job_uid;
  Attempt attempt;
  int64_t counter = 0;  // grows with each message the operator sends for this job, from 1
  ControlKind kind = ControlKind::kStop;
  int rank = 0;             // kPeerGone
  Epoch epoch;              // kPeerGone, kRelaunch
  Incarnation incarnation;  // kPeerGone
  int64_t relaunch = 0;     // kHalt, kRelaunch: which of the attempt, from 1

  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};

// The body: JSON with the fields that `kind` has.
std::string EncodeControlMessage(const ControlMessage& message);

// The value of kControlSignatureHeader for a body.
std::string SignControlBody(std::string_view job_key, std::string_view body);

// Checks the signature (in constant time) before anything of the body is looked at, then decodes
// strictly. Errors: kInvalidArgument (bad signature, empty key, malformed body, too long).
Result<ControlMessage> VerifyControlMessage(std::string_view job_key,
                                            std::string_view body,
                                            std::string_view signature);

// Decodes without a signature; for tests and tools. Errors: kInvalidArgument.
Result<ControlMessage> DecodeControlMessage(std::string_view body);

// What a receiver knows about the messages it may accept.
struct ControlReceiver {
  std::string job_uid;
  Attempt attempt;
  int64_t counter_highest = 0;  // of the messages accepted so far
};

// Whether a verified message is for this process and new. The receiver then raises
// counter_highest. Errors: kStale (old counter, other attempt), kMismatch (other job).
Status CheckControlFreshness(const ControlMessage& message, const ControlReceiver& receiver);

// How long a token of the status is good for, and how far two machines' calendars may be apart.
// Choices: an exchange takes milliseconds; beyond five minutes other protocols give up as well.
inline constexpr std::chrono::seconds kStatusTokenLife{60};
inline constexpr std::chrono::minutes kStatusClockSkewMax{5};

// The bearer token of GET /status, made at `now`: shows knowledge of the key without revealing it.
// Who overhears it can ask that one pod, whose name no other pod ever has, and not for long.
std::string StatusToken(std::string_view job_key, std::string_view pod, WallTime now);

// What a pod makes of a token.
enum class TokenVerdict {
  kTaken,
  kForeign,  // it is not signed with this job's key, not for this pod, or not a token at all
  kExpired,  // signed as it should be, and not of this time: the calendars differ
};

// `error` in the answer to a token that is kExpired; nobody without the key ever sees it.
inline constexpr const char* kStatusTokenExpired = "expired";

// Whether an Authorization header ("Bearer TOKEN") grants access to the status of `pod`. kForeign
// for an empty key. Time depends on lengths only.
TokenVerdict JudgeStatusToken(std::string_view job_key,
                              std::string_view pod,
                              std::string_view authorization_header,
                              WallTime now);

}  // namespace lockstep
