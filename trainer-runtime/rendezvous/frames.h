#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/result.h"
#include "trainer-runtime/rendezvous/membership.h"

namespace lockstep::runtime {

// What travels over a connection of the mesh, as bytes: a frame is its body's size (32 bits, little
// endian), then the body: one byte for the kind, then fields in the order of the struct. Numbers
// are 64 bits little endian, texts are their size (16 bits) and their bytes.
inline constexpr std::size_t kFrameHeaderBytes = 4;
inline constexpr std::size_t kFrameBytesMax = 1024;  // of a body; the largest is under 700

enum class LinkKind : uint8_t { kControl, kData };

// The caller's first word.
struct HelloFrame {
  LinkKind kind = LinkKind::kControl;
  Hello hello;
  int target_rank = 0;  // whom it means to reach
  Epoch epoch;          // kData: the meeting that the connection is for
  std::string nonce;    // fresh for each connection
};

// The answer: who is here, and the proof that it knows the job's key.
struct ReplyFrame {
  Hello hello;
  std::string nonce;
  std::string proof;
};

// The caller's proof in turn.
struct ProofFrame {
  std::string proof;
};

// Whether the caller is let in.
struct VerdictFrame {
  bool is_accepted = false;
  Refusal reason = Refusal::kBusy;
  Epoch epoch;         // the acceptor's
  std::string detail;  // one phrase for people
};

// Sent before a link to a zombie is closed.
struct SupersededFrame {};

using Frame =
    std::variant<HelloFrame, ReplyFrame, ProofFrame, VerdictFrame, MemberState, SupersededFrame>;

// The body of a frame, without its size. Texts are cut at 255 bytes.
std::string EncodeFrame(const Frame& frame);

// Errors: kCorrupt (unknown kind, cut short, bytes left over, value out of range).
Result<Frame> DecodeFrame(std::string_view body);

// A body with its size in front: what goes on the wire.
std::string WithSize(std::string_view body);

}  // namespace lockstep::runtime
