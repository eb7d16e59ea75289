#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/error.h"
#include "common/base/io/unique_fd.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/communicator/call.h"

namespace lockstep::runtime {

enum class FrameKind : uint32_t {
  kCall = 0x4c4c4143,      // a Call, then the bytes that travel with it
  kData = 0x41544144,      // bytes of the call in progress
  kFarewell = 0x45594221,  // an error code, then text: the sender has failed and sends no more
};

struct FrameHeader {
  FrameKind kind;
  uint32_t code_or_zero;
  uint64_t body_size;  // bytes after the header and, for kCall, the Call
};

// One direction-pair of frames over a connected socket, moved without ever waiting. At most one
// frame is under way each way. Does not own the socket. Thread: one.
class TcpStream {
 public:
  enum class Outcome {
    kBlocked,   // nothing moved: the socket is full or empty, or there is no frame under way
    kMoved,     // bytes moved
    kFinished,  // the frame under way is through
    kBroken,    // see failure()
  };

  explicit TcpStream(int fd) : fd_(fd) {}

  bool is_sending() const { return is_sending_; }

  bool is_receiving() const { return is_receiving_; }

  // Starts a frame; `call` is copied, `body` must stay as it is until kFinished.
  // Precondition (checked): !is_sending().
  void StartSending(const Call* call, std::span<const std::byte> body);

  // Starts expecting a frame with exactly this call (null: a data frame) and body size.
  // Precondition (checked): !is_receiving().
  void StartReceiving(const Call* call, std::span<std::byte> body);

  // The peer's call, in the frame last received; empty: that was a data frame.
  const std::optional<Call>& heard_call() const { return heard_call_; }

  // Moves as much as the socket takes or gives.
  Outcome Send();
  Outcome Receive();

  // Looks whether the peer has said farewell although no frame of it is expected now; if so, reads
  // it and says kBroken, else kBlocked. Consumes nothing else.
  Outcome LookForFarewell();

  // Tells the peer why this rank gives up, and ends the sending side. A frame that is half sent
  // must be completed first; where the peer does not take it by the deadline, it just sees the end.
  void SendFarewell(const Error& error, Deadline deadline) noexcept;

  // Why Send or Receive said kBroken: the peer's own words, a call unlike ours, or a lost peer.
  struct Failure {
    ErrorCode code = ErrorCode::kPeerLost;
    std::string text;            // set unless other_call is
    bool is_peers_word = false;  // text is what the peer reported
    std::optional<Call> other_call;
  };

  const Failure& failure() const { return failure_; }

 private:
  Outcome Break(ErrorCode code, std::string text);
  Outcome CheckHead();
  Outcome ReadFarewell(const FrameHeader& header);

  int fd_;
  Failure failure_;

  static constexpr std::size_t kHeadSizeMax = sizeof(FrameHeader) + sizeof(Call);
  bool is_sending_ = false;
  std::array<std::byte, kHeadSizeMax> out_head_{};
  std::size_t out_head_size_ = 0;
  std::span<const std::byte> out_body_;
  std::size_t out_done_ = 0;  // of head and body together

  bool is_receiving_ = false;
  std::optional<Call> expected_call_;
  std::optional<Call> heard_call_;
  std::array<std::byte, kHeadSizeMax> in_head_{};
  std::span<std::byte> in_body_;
  std::size_t in_done_ = 0;
  bool is_head_checked_ = false;
};

}  // namespace lockstep::runtime
