#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "trainer-runtime/rendezvous/frames.h"

namespace lockstep::runtime {

// How two processes prove to each other that they belong to one job, without input or output:
//
//   caller                                    acceptor
//   Hello {who, whom, nonce}           ->
//                                      <-     Reply {who, nonce, HMAC(key, "acceptor", all above)}
//   Proof {HMAC(key, "caller", all)}   ->
//                                      <-     Verdict {accepted | why not}
//
// Both nonces are fresh, so a recorded proof opens nothing. What follows on the connection is not
// signed: the mesh trusts the network's routing, not whoever can call its port.

// The side that called.
class CallerHandshake {
 public:
  // `hello.nonce` is filled in here.
  CallerHandshake(HelloFrame hello, std::string job_key);

  // The first body to send.
  const std::string& HelloBody() const { return hello_body_; }

  // Takes the acceptor's reply and returns the body to send in answer.
  // Errors: kInvalidArgument (the acceptor does not know the job's key), kCorrupt (other frame),
  // kStale or kUnavailable when it is a verdict already: see RefusalError.
  Result<std::string> OnReply(std::string_view body);

  // Takes the verdict; ok means accepted. Errors: kCorrupt, and as RefusalError.
  Status OnVerdict(std::string_view body) const;

  // Who answered. Meaningful after OnReply.
  const Hello& peer() const { return peer_; }

 private:
  std::string job_key_;
  std::string hello_body_;
  Hello peer_;
};

// The side that was called.
class AcceptorHandshake {
 public:
  AcceptorHandshake(Hello self, std::string job_key);

  // Takes the caller's hello and returns the reply to send.
  // Errors: kMismatch (it looks for another job or another rank; send it a verdict), kCorrupt.
  Result<std::string> OnHello(std::string_view body);

  // Takes the caller's proof. Errors: kInvalidArgument (it does not know the job's key), kCorrupt.
  Status OnProof(std::string_view body) const;

  // What the caller said. Meaningful after OnHello.
  const HelloFrame& caller() const { return caller_; }

 private:
  Hello self_;
  std::string job_key_;
  HelloFrame caller_;
  std::string transcript_;
};

// A refusal as the caller's error: kStale for kSuperseded, kMismatch for kWrongJob, else
// kUnavailable.
Error RefusalError(const VerdictFrame& verdict);

}  // namespace lockstep::runtime
