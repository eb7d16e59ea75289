#include "trainer-runtime/rendezvous/handshake.h"

#include <cstddef>
#include <utility>

#include "common/base/digest.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kNonceBytes = 16;  // 128 bits never repeat

std::string ProofOf(std::string_view key, std::string_view side, std::string_view transcript) {
  return HmacSha256Hex(key, std::string(side) + ":" + std::string(transcript));
}

// The reply as far as its proof vouches for it: with the proof left empty.
std::string TranscriptOf(std::string_view hello_body, ReplyFrame reply) {
  reply.proof.clear();
  return WithSize(hello_body) + WithSize(EncodeFrame(reply));
}

template <typename Expected>
Result<Expected> DecodeAs(std::string_view body) {
  LOCKSTEP_ASSIGN_OR_RETURN(Frame frame, DecodeFrame(body));
  if (Expected* expected = std::get_if<Expected>(&frame)) {
    return std::move(*expected);
  }
  if (const auto* verdict = std::get_if<VerdictFrame>(&frame);
      verdict != nullptr && !verdict->is_accepted) {
    return RefusalError(*verdict);
  }
  return Error(ErrorCode::kCorrupt, "unexpected frame in a handshake");
}

}  // namespace

CallerHandshake::CallerHandshake(HelloFrame hello, std::string job_key)
    : job_key_(std::move(job_key)) {
  hello.nonce = RandomHex(kNonceBytes);
  hello_body_ = EncodeFrame(hello);
}

Result<std::string> CallerHandshake::OnReply(std::string_view body) {
  Result<ReplyFrame> decoded = DecodeAs<ReplyFrame>(body);
  if (!decoded.ok() && decoded.error().code() == ErrorCode::kStale) {
    // Final for this process, so it takes a proof of the key to say so.
    return Error(ErrorCode::kCorrupt,
                 "a process reported this process as superseded, without a proof that it knows the "
                 "job's key");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const ReplyFrame reply, std::move(decoded));
  const std::string transcript = TranscriptOf(hello_body_, reply);
  if (!ConstantTimeEquals(reply.proof, ProofOf(job_key_, "acceptor", transcript))) {
    return Error(ErrorCode::kInvalidArgument,
                 "the process at this address does not know the job's key");
  }
  peer_ = reply.hello;
  return EncodeFrame(ProofFrame{ProofOf(job_key_, "caller", transcript)});
}

Status CallerHandshake::OnVerdict(std::string_view body) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const VerdictFrame verdict, DecodeAs<VerdictFrame>(body));
  return verdict.is_accepted ? OkStatus() : Status(RefusalError(verdict));
}

AcceptorHandshake::AcceptorHandshake(Hello self, std::string job_key)
    : self_(std::move(self)), job_key_(std::move(job_key)) {}

Result<std::string> AcceptorHandshake::OnHello(std::string_view body) {
  LOCKSTEP_ASSIGN_OR_RETURN(caller_, DecodeAs<HelloFrame>(body));
  const MeshIdentity& self = self_.identity;
  if (caller_.hello.identity.job_uid != self.job_uid) {
    return Error(ErrorCode::kMismatch, "a process of another job listens here");
  }
  if (caller_.target_rank != self.rank) {
    return Error(ErrorCode::kMismatch, "rank " + std::to_string(self.rank) + " listens here");
  }
  ReplyFrame reply{self_, RandomHex(kNonceBytes), {}};
  transcript_ = TranscriptOf(body, reply);
  reply.proof = ProofOf(job_key_, "acceptor", transcript_);
  return EncodeFrame(reply);
}

Status AcceptorHandshake::OnProof(std::string_view body) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const ProofFrame proof, DecodeAs<ProofFrame>(body));
  if (!ConstantTimeEquals(proof.proof, ProofOf(job_key_, "caller", transcript_))) {
    return Error(ErrorCode::kInvalidArgument, "the caller does not know the job's key");
  }
  return OkStatus();
}

Error RefusalError(const VerdictFrame& verdict) {
  ErrorCode code = ErrorCode::kUnavailable;
  if (verdict.reason == Refusal::kSuperseded) {
    code = ErrorCode::kStale;
  } else if (verdict.reason == Refusal::kWrongJob) {
    code = ErrorCode::kMismatch;
  }
  std::string message = std::string("refused: ") + RefusalName(verdict.reason);
  if (!verdict.detail.empty()) {
    message += " (" + verdict.detail + ")";
  }
  return Error(code, std::move(message));
}

}  // namespace lockstep::runtime
