#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/io/unique_fd.h"
#include "common/base/prng.h"
#include "common/base/result.h"

namespace lockstep::control {

// What a run needs of the machine's network.
struct LoopbackNeeds {
  int address_count = 1;
  int port_count = 1;                            // consecutive ones
  std::optional<int> fixed_port = std::nullopt;  // one more, which the job insists on
};

// Addresses and ports of this machine that belong to one run: a block of loopback addresses
// 127.x.y.1 ... of which every pod gets one, and a row of consecutive ports on which nobody
// listens at any address of the machine, because torch's store and TensorFlow's server bind theirs
// on all of them. Both are held against other runs for as long as this object lives.
class LoopbackBlock {
 public:
  static constexpr int kAddressCountMax = 254;

  // Where rows of ports lie. Choices: above the ports of services, below Linux's ephemeral ones,
  // which go to whoever connects next, and below torch's default, 29500.
  static constexpr int kFirstPort = 10'000;
  static constexpr int kLastPort = 29'391;

  // Errors: kResourceExhausted (too many addresses or ports, or nothing free in 64 tries),
  // kAlreadyExists (somebody listens on the fixed port). Thread: any.
  static Result<LoopbackBlock> Reserve(const LoopbackNeeds& needs, Prng* prng);

  // Reserves another row of as many ports and gives up none: pods of before may still listen on
  // theirs. port_base() is of the new one. Errors: kResourceExhausted.
  Status MovePorts(Prng* prng);

  // "127.x.y".
  const std::string& prefix() const { return prefix_; }

  // The first of the row of ports.
  int port_base() const { return port_base_; }

  // "127.x.y.(index + 1)". Precondition (checked): 0 <= index < kAddressCountMax.
  std::string Address(int index) const;

 private:
  struct Ports {
    int base = 0;
    std::vector<UniqueFd> reservations;
  };

  LoopbackBlock(int port_count, std::string prefix, UniqueFd reservation, Ports ports)
      : port_count_(port_count),
        prefix_(std::move(prefix)),
        reservation_(std::move(reservation)),
        port_base_(ports.base),
        port_reservations_(std::move(ports.reservations)) {}

  static Result<Ports> ReservePorts(int count, Prng* prng);

  int port_count_;
  std::string prefix_;
  UniqueFd reservation_;
  int port_base_;
  std::vector<UniqueFd> port_reservations_;
};

}  // namespace lockstep::control
