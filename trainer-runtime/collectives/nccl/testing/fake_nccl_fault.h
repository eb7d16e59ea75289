#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace lockstep::runtime {

// What goes wrong on order in the double of NCCL. FAKE_NCCL_FAULT holds it as
// "KIND@rank=R@call=N@bytes=B@ms=M@once=FILE", several with ";" between: on that rank (default:
// every one), at that sum of a communicator (default: 1; 0 is the first that joining makes), at
// sums of so many bytes and more, or for that time. With a file it happens once only, to whoever
// makes the file.
//
//   no-identity   there is no identity to be had
//   slow-init     joining takes `ms` longer
//   block-init    the call that begins joining does not return for `ms`
//   fail-init     joining fails
//   async-error   a sum fails beside the call: in the stream
//   system-error  likewise, as a call to the system is refused
//   no-way        a sum of at least `bytes` fails beside the call, before anything of it has run:
//   the
//                 algorithm of such sums does not connect
//   refuse        the call for a sum fails
//   hang          a sum never ends on this rank
//   die           the process is killed in the midst of a sum
//   stuck-abort   an abort does not return, unless the communicator was revoked
struct FakeNcclFault {
  std::string kind;
  int rank = -1;
  int call = 1;
  std::size_t byte_count = 0;
  int milliseconds = 0;
  std::string once_file;
};

// The fault of that kind, if it is to happen on this rank at this call, now. Makes the file of one
// that happens once.
std::optional<FakeNcclFault> OrderedFault(const std::string& kind, int rank, int call);

// Whether a sum of so many bytes has no way from this rank.
bool HasNoWay(int rank, std::size_t byte_count);

}  // namespace lockstep::runtime
