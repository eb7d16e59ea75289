#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/prng.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace lockstep::control {

// A block of loopback addresses 127.x.y.1 ... that belongs to one run: every pod gets an address
// of its own, so that all pods can listen on the ports they would use on a cluster. The block is
// reserved among runs by a socket bound to 127.x.y.255 for as long as this object lives.
class LoopbackBlock {
 public:
  static constexpr int kAddressCountMax = 254;

  // Finds a block where `ports` are free on the first `address_count` addresses.
  // Errors: kResourceExhausted (too many addresses, or no free block in 64 tries). Thread: any.
  static Result<LoopbackBlock> Reserve(int address_count,
                                       const std::vector<uint16_t>& ports,
                                       Prng* prng);

  // "127.x.y".
  const std::string& prefix() const { return prefix_; }

  // The first of kAddressCountMax ports for programs that bind theirs on all addresses, so that
  // pods, and most probably runs, do not meet there. Not reserved: the range follows from the
  // prefix.
  int MeshPortBase() const;

  // "127.x.y.(index + 1)". Precondition (checked): 0 <= index < kAddressCountMax.
  std::string Address(int index) const;

 private:
  LoopbackBlock(std::string prefix, UniqueFd reservation)
      : prefix_(std::move(prefix)), reservation_(std::move(reservation)) {}

  std::string prefix_;
  UniqueFd reservation_;
};

}  // namespace lockstep::control
