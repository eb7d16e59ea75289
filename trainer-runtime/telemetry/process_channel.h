#pragma once

#include <optional>
#include <string>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::runtime {

// What a process of a pod and its supervisor tell each other. Up to kGoodbye the process speaks.
enum class ChannelWord : char {
  kStatus = 'S',     // a status document
  kMetrics = 'M',    // its metrics page
  kLastWords = 'T',  // a termination message
  kAlive = 'A',      // nothing new
  kGoodbye = 'G',    // the process goes on, and says no more
  kControl = 'C',    // a control message, without signature
};

struct ChannelMessage {
  ChannelWord word = ChannelWord::kAlive;
  std::string text;
};

// A pair of connected sockets that keep messages apart and inherit to no program by themselves.
struct ChannelEnds {
  UniqueFd supervisor;
  UniqueFd process;
};

// Of the built-in trainer's process: its standard input.
inline constexpr int kTrainerChannelFd = 0;

// Longest message. Choice: a status document of 64 ranks has some 30 KB.
inline constexpr std::size_t kChannelBytesMax = 180 * 1024;

// Errors: kResourceExhausted (no descriptors left), kIo.
Result<ChannelEnds> MakeChannel();

// Sends whole or not at all. Errors: kTimeout (the other end does not read), kPeerLost (it is
// gone), kResourceExhausted (above kChannelBytesMax). Thread: any.
Status SendToChannel(int fd, const ChannelMessage& message, Deadline deadline);

// The next message; empty when none has come. Errors: kPeerLost (the other end is gone, and all
// that it said was heard), kInvalidArgument (not a message of ours).
Result<std::optional<ChannelMessage>> ReceiveFromChannel(int fd);

}  // namespace lockstep::runtime
