#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/strong_id.h"

namespace lockstep {

// What the operator tells a running process, by POST /control. The body is signed with the job's
// key, so nobody else on the network can stop a job or declare a rank dead.
inline constexpr const char* kControlSignatureHeader = "X-Lockstep-Signature";
inline constexpr std::size_t kControlBytesMax = 4096;  // a message is about 200 bytes

enum class ControlKind {
  kPeerGone,  // the pod of `rank` with `incarnation` is gone; the next meeting is `epoch`
  kStop,      // write a checkpoint and end, within the grace period of the pod
};

// "peer_gone", "stop".
std::string_view ControlKindName(ControlKind kind);

struct ControlMessage {
  std::string job_uid;
  Attempt attempt;
  int64_t counter = 0;  // grows with each message the operator sends for this job, from 1
  ControlKind kind = ControlKind::kStop;
  int rank = 0;             // kPeerGone
  Epoch epoch;              // kPeerGone
  Incarnation incarnation;  // kPeerGone

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

// The bearer token of GET /status: shows knowledge of the key without revealing it.
std::string StatusToken(std::string_view job_key);

// Whether an Authorization header ("Bearer TOKEN") grants access to the status. False for an empty
// key. Time depends on lengths only.
bool IsStatusAuthorized(std::string_view job_key, std::string_view authorization_header);

}  // namespace lockstep
