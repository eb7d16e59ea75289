#include "operator/local/loopback.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>

#include "common/base/check.h"
#include "operator/local/port_use.h"

namespace lockstep::control {
namespace {

constexpr int kTriesMax = 64;

// Ports are handed out in slots, so that one name holds many. Choice: a job of some sixty processes
// takes one, and the range has room for 303 such runs.
constexpr int kSlotSize = 64;
constexpr int kSlotCount = (LoopbackBlock::kLastPort + 1 - LoopbackBlock::kFirstPort) / kSlotSize;

// Holds a name against all other processes of the machine that ask for it so: the name of a socket
// in Linux's abstract namespace, which has the scope of ports (one per network namespace), takes
// none of them, and ends with its owner.
Result<UniqueFd> HoldName(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    return SystemError(errno, "socket");
  }
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  LOCKSTEP_CHECK(name.size() + 1 < sizeof where.sun_path, name);
  std::memcpy(where.sun_path + 1, name.data(), name.size());  // the first byte stays zero
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0) {
    return SystemError(errno, "holding " + name);
  }
  return socket;
}

// Whether nobody listens on the port, at whichever address of the machine and of either kind.
Status CheckFreeEverywhere(int port) {
  return CheckFree({"127.0.0.1", port, /*is_everywhere=*/true});
}

Result<std::pair<std::string, UniqueFd>> ReservePrefix(Prng* prng) {
  Error last(ErrorCode::kResourceExhausted, "no attempt was made");
  for (int attempt = 0; attempt < kTriesMax; ++attempt) {
    // 127.0.*.* is where other programs of the machine listen.
    std::string prefix =
        "127." + std::to_string(1 + prng->Below(254)) + "." + std::to_string(prng->Below(256));
    Result<UniqueFd> reservation = HoldName("lockstep-addresses-" + prefix);
    if (reservation.ok()) {
      return std::pair(std::move(prefix), std::move(reservation).value());
    }
    last = std::move(reservation).error();
  }
  return Error(ErrorCode::kResourceExhausted,
               "no free block of loopback addresses found in " + std::to_string(kTriesMax) +
                   " tries; last error: " + last.ToString());
}

}  // namespace

Result<LoopbackBlock::Ports> LoopbackBlock::ReservePorts(int count, Prng* prng) {
  const int slots = (count + kSlotSize - 1) / kSlotSize;
  if (slots > kSlotCount) {
    return Error(ErrorCode::kResourceExhausted,
                 "a local run has at most " + std::to_string(kSlotCount * kSlotSize) +
                     " ports, this job needs " + std::to_string(count));
  }
  std::string last = "no attempt was made";
  for (int attempt = 0; attempt < kTriesMax; ++attempt) {
    const int first = static_cast<int>(prng->Below(static_cast<uint64_t>(kSlotCount - slots + 1)));
    Ports ports;
    ports.base = kFirstPort + first * kSlotSize;
    Status trouble;
    for (int slot = first; slot < first + slots && trouble.ok(); ++slot) {
      Result<UniqueFd> held = HoldName("lockstep-ports-" + std::to_string(slot));
      if (held.ok()) {
        ports.reservations.push_back(std::move(held).value());
      } else {
        trouble = std::move(held).error();
      }
    }
    for (int port = ports.base; port < ports.base + count && trouble.ok(); ++port) {
      trouble = CheckFreeEverywhere(port);
    }
    if (trouble.ok()) {
      return ports;
    }
    last = trouble.error().ToString();
  }
  return Error(ErrorCode::kResourceExhausted,
               "no " + std::to_string(count) + " consecutive free ports found from " +
                   std::to_string(kFirstPort) + " to " + std::to_string(kLastPort) + " in " +
                   std::to_string(kTriesMax) + " tries; last error: " + last);
}

Result<LoopbackBlock> LoopbackBlock::Reserve(const LoopbackNeeds& needs, Prng* prng) {
  if (needs.address_count > kAddressCountMax) {
    return Error(ErrorCode::kResourceExhausted,
                 "a local run has at most " + std::to_string(kAddressCountMax) +
                     " pods, this job needs " + std::to_string(needs.address_count));
  }
  if (needs.fixed_port.has_value()) {
    if (const Status free = CheckFreeEverywhere(*needs.fixed_port); !free.ok()) {
      return Error(ErrorCode::kAlreadyExists,
                   "port " + std::to_string(*needs.fixed_port) +
                       ", set by the manifest: " + free.error().message() +
                       "; set a free port, or remove the setting: a run chooses its own ports");
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(auto block, ReservePrefix(prng));
  LOCKSTEP_ASSIGN_OR_RETURN(Ports ports, ReservePorts(needs.port_count, prng));
  return LoopbackBlock(
      needs.port_count, std::move(block.first), std::move(block.second), std::move(ports));
}

Status LoopbackBlock::MovePorts(Prng* prng) {
  LOCKSTEP_ASSIGN_OR_RETURN(Ports ports, ReservePorts(port_count_, prng));
  port_base_ = ports.base;
  for (UniqueFd& reservation : ports.reservations) {
    port_reservations_.push_back(std::move(reservation));
  }
  return OkStatus();
}

std::string LoopbackBlock::Address(int index) const {
  LOCKSTEP_CHECK(index >= 0 && index < kAddressCountMax, std::to_string(index));
  return prefix_ + "." + std::to_string(index + 1);
}

}  // namespace lockstep::control
