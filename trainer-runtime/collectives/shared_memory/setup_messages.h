#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "common/base/check.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/status/lost_peer.h"
#include "trainer-runtime/collectives/communicator/call.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/communicator/links.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"

// What ranks send each other over their links while they join, before there is a communicator:
// plain structs, as they are.

namespace lockstep::runtime {

constexpr std::size_t kSetupNameSize = 64;

// Where to fetch a segment.
struct SetupOffer {
  uint64_t byte_count = 0;  // 0: there is no segment
  char socket_name[kSetupNameSize] = {};
  char token[kSetupNameSize] = {};
};

struct SetupAnswer {
  uint64_t is_yes = 0;
};

inline std::string BoundedText(const char (&text)[kSetupNameSize]) {
  return std::string(text, ::strnlen(text, kSetupNameSize));
}

inline void SetText(char (&to)[kSetupNameSize], const std::string& from) {
  LOCKSTEP_CHECK(from.size() <= kSetupNameSize, from);
  std::memcpy(to, from.data(), from.size());
}

inline SetupOffer ToSetupOffer(const SegmentOffer& offer) {
  SetupOffer message;
  message.byte_count = offer.byte_count;
  SetText(message.socket_name, offer.socket_name);
  SetText(message.token, offer.token);
  return message;
}

inline SegmentOffer FromSetupOffer(const SetupOffer& message) {
  return {BoundedText(message.socket_name), BoundedText(message.token), message.byte_count};
}

inline Error SetupError(const CommunicatorOptions& options, int peer, Error cause) {
  const int name = NameOf(options.names, peer);
  const std::string joining = "rank " + std::to_string(NameOf(options.names, options.rank)) +
                              ": joining epoch " + std::to_string(options.epoch.value());
  return cause.code() == ErrorCode::kPeerLost
             ? Error(cause.code(), DescribeLostPeers({name}, cause.ToString())).Wrap(joining)
             : std::move(cause).Wrap(joining + " with rank " + std::to_string(name));
}

// Errors: those of SendBytes, naming both ranks.
template <typename Message>
Status SendTo(const CommunicatorOptions& options, int peer, const Message& message, Deadline by) {
  static_assert(std::is_trivially_copyable_v<Message>);
  const UniqueFd& link = options.links[static_cast<std::size_t>(peer)];
  Status status = SendBytes(link, std::as_bytes(std::span(&message, 1)), by);
  return status.ok() ? status : SetupError(options, peer, std::move(status).error());
}

// Errors: those of ReceiveBytes, naming both ranks.
template <typename Message>
Result<Message> ReceiveFrom(const CommunicatorOptions& options, int peer, Deadline by) {
  static_assert(std::is_trivially_copyable_v<Message>);
  Message message;
  const UniqueFd& link = options.links[static_cast<std::size_t>(peer)];
  Status status = ReceiveBytes(link, std::as_writable_bytes(std::span(&message, 1)), by);
  if (!status.ok()) {
    return SetupError(options, peer, std::move(status).error());
  }
  return message;
}

}  // namespace lockstep::runtime
