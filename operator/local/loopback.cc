#include "operator/local/loopback.h"

#include <cerrno>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace lockstep::control {
namespace {

constexpr int kTriesMax = 64;
constexpr uint16_t kReservationPort = 2221;  // next to the ports of the pods; nobody connects to it
constexpr int kReservationHost = 255;        // no pod has it, and on 127/8 it is a host like others

Result<UniqueFd> BindTo(const std::string& address, uint16_t port, bool may_reuse) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    return SystemError(errno, "socket");
  }
  // As servers do: connections of an earlier run in TIME_WAIT do not make a port taken.
  const int reuse = may_reuse ? 1 : 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
    return SystemError(errno, "bind " + address + ":" + std::to_string(port));
  }
  return socket;
}

Status ProbePorts(const std::string& prefix,
                  int address_count,
                  const std::vector<uint16_t>& ports) {
  for (int index = 0; index < address_count; ++index) {
    for (const uint16_t port : ports) {
      auto socket = BindTo(prefix + "." + std::to_string(index + 1), port, true);
      if (!socket.ok()) {
        return std::move(socket).error();
      }
      // Without this, binding succeeds beside a listener that allowed reuse.
      if (::listen(socket->get(), 1) != 0) {
        return SystemError(errno, "listen");
      }
    }
  }
  return OkStatus();
}

}  // namespace

Result<LoopbackBlock> LoopbackBlock::Reserve(int address_count,
                                             const std::vector<uint16_t>& ports,
                                             Prng* prng) {
  if (address_count > kAddressCountMax) {
    return Error(ErrorCode::kResourceExhausted,
                 "a local run has at most " + std::to_string(kAddressCountMax) +
                     " pods, this job needs " + std::to_string(address_count));
  }
  Error last(ErrorCode::kResourceExhausted, "no block was tried");
  for (int attempt = 0; attempt < kTriesMax; ++attempt) {
    // 127.0.0.* is where other programs of the machine listen.
    const std::string prefix =
        "127." + std::to_string(1 + prng->Below(254)) + "." + std::to_string(prng->Below(256));
    auto reservation =
        BindTo(prefix + "." + std::to_string(kReservationHost), kReservationPort, false);
    if (!reservation.ok()) {
      last = std::move(reservation).error();
      continue;
    }
    const Status probe = ProbePorts(prefix, address_count, ports);
    if (probe.ok()) {
      return LoopbackBlock(prefix, std::move(reservation).value());
    }
    last = probe.error();
  }
  return Error(ErrorCode::kResourceExhausted,
               "no free block of loopback addresses in " + std::to_string(kTriesMax) +
                   " tries, the last: " + last.ToString());
}

int LoopbackBlock::MeshPortBase() const {
  // 10000 to 26383: above the contract's fixed ports but 29500, below Linux's ephemeral ones.
  constexpr int kFirstPort = 10000;
  constexpr int kRangeSize = 256;
  constexpr int kRangeCount = 64;
  int hash = 0;
  for (const char c : prefix_) {
    hash = (hash * 31 + c) % kRangeCount;
  }
  return kFirstPort + hash * kRangeSize;
}

std::string LoopbackBlock::Address(int index) const {
  LOCKSTEP_CHECK(index >= 0 && index < kAddressCountMax, std::to_string(index));
  return prefix_ + "." + std::to_string(index + 1);
}

}  // namespace lockstep::control
