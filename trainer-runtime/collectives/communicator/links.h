#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::runtime {

// Why a peer is lost that has closed its link, or whose process is gone.
inline constexpr std::string_view kLinkIsClosed = "its connection is closed";

// Sends all bytes over a connected socket, blocking or not. Errors: kTimeout, kPeerLost.
Status SendBytes(const UniqueFd& link, std::span<const std::byte> bytes, Deadline deadline);

// Receives exactly bytes.size() bytes. Errors: kTimeout, kPeerLost (also at the end of the stream).
Status ReceiveBytes(const UniqueFd& link, std::span<std::byte> bytes, Deadline deadline);

// Which peers have closed their link or died, in order. Does not wait, consumes nothing.
// A link with unread bytes is not lost yet: what was sent before the end still counts.
std::vector<int> FindLostPeers(std::span<const UniqueFd> links);

}  // namespace lockstep::runtime
