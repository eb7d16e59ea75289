#include "trainer-runtime/supervisor/hang/ras_client.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <poll.h>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include "common/base/digest.h"
#include "common/base/io/socket_wait.h"
#include "common/base/io/unique_fd.h"
#include "common/contract/text/problems.h"
#include "trainer-runtime/rendezvous/socket_address.h"

namespace lockstep::runtime {
namespace {

// Below the ports that torch's stores (29400 on) and NodePorts (30000 on) have. Choice.
constexpr int kRasPortMin = 26000;
constexpr unsigned long kRasPorts = 3000;

// For a connection, and for each line of the dialogue. Source: ncclras waits so, too.
constexpr std::chrono::seconds kRasLinePatience{1};

// Pause before another try. Choice: a server that closes a connection at once will most likely
// close the next one too, so there is no hurry.
constexpr std::chrono::milliseconds kRasPause{100};

constexpr std::size_t kRasLineBytesMax = 4096;
constexpr std::size_t kRasReportBytesMax = 16 * 1024 * 1024;  // choice: 16,384 ranks in JSON

// For a whole look: NCCL waits 3 s for each rank's answer, and 3 s more. Choice.
constexpr std::chrono::seconds kRasLookPatience{8};

// How long NCCL's ranks wait for each other's answers. Its own choice is 5 s.
constexpr std::string_view kCollectionTimeout = "TIMEOUT 3\n";

// A dialogue of lines.
class Dialogue {
 public:
  explicit Dialogue(UniqueFd socket) : socket_(std::move(socket)) {}

  // Errors: kTimeout, kIo, kUnavailable (the other side has closed), kResourceExhausted.
  Result<std::string> Ask(std::string_view command, Deadline deadline) {
    LOCKSTEP_RETURN_IF_ERROR(Send(command, deadline));
    std::size_t end = read_.find('\n');
    while (end == std::string::npos) {
      if (read_.size() > kRasLineBytesMax) {
        return Error(ErrorCode::kResourceExhausted, "a line from NCCL's status port is too long");
      }
      LOCKSTEP_ASSIGN_OR_RETURN(const bool is_more, Read(deadline));
      if (!is_more) {
        return Error(ErrorCode::kUnavailable, "NCCL closed the connection to its status port");
      }
      end = read_.find('\n');
    }
    std::string line = read_.substr(0, end);
    read_.erase(0, end + 1);
    return line;
  }

  // All that comes until the other side closes.
  Result<std::string> AskForAll(std::string_view command, Deadline deadline) {
    LOCKSTEP_RETURN_IF_ERROR(Send(command, deadline));
    for (;;) {
      if (read_.size() > kRasReportBytesMax) {
        return Error(ErrorCode::kResourceExhausted,
                     "the report from NCCL's status port is too long");
      }
      LOCKSTEP_ASSIGN_OR_RETURN(const bool is_more, Read(deadline));
      if (!is_more) {
        return std::move(read_);
      }
    }
  }

 private:
  Status Send(std::string_view text, Deadline deadline) {
    while (!text.empty()) {
      const ssize_t count = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (count >= 0) {
        text.remove_prefix(static_cast<std::size_t>(count));
      } else if (!WouldBlock(errno)) {
        return SystemError(errno, "send");
      } else {
        LOCKSTEP_RETURN_IF_ERROR(WaitForSocket(socket_.get(), POLLOUT, deadline));
      }
    }
    return OkStatus();
  }

  // False at the end.
  Result<bool> Read(Deadline deadline) {
    LOCKSTEP_RETURN_IF_ERROR(WaitForSocket(socket_.get(), POLLIN, deadline));
    char block[16384];
    const ssize_t count = ::recv(socket_.get(), block, sizeof(block), 0);
    if (count < 0 && !WouldBlock(errno)) {
      return SystemError(errno, "receive");
    }
    read_.append(block, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return count != 0;
  }

  UniqueFd socket_;
  std::string read_;
};

// "localhost:28028", "[::1]:28028".
Result<std::vector<SocketAddress>> ResolveRasAddress(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  int port = 0;
  if (colon != std::string::npos) {
    std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  }
  if (port <= 0) {
    return Problem(kRasAddress, Quoted(address), "HOST:PORT");
  }
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  return ResolveName(host, port);
}

Result<UniqueFd> ConnectTo(const SocketAddress& address, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(UniqueFd socket, StartConnect(address));
  LOCKSTEP_RETURN_IF_ERROR(WaitForSocket(socket.get(), POLLOUT, deadline));
  LOCKSTEP_RETURN_IF_ERROR(ConnectOutcome(socket.get()));
  return socket;
}

// The first of `addresses` that somebody listens at.
Result<UniqueFd> ConnectToAny(const std::vector<SocketAddress>& addresses, Deadline deadline) {
  Result<UniqueFd> connected =
      Error(ErrorCode::kNotFound, "the name of NCCL's status port has no address");
  for (const SocketAddress& address : addresses) {
    connected = ConnectTo(address, deadline);
    if (connected.ok()) {
      return connected;
    }
  }
  return connected;
}

// One try. `has_json` becomes false where the other side does not know that format.
Result<RasReport> AskRasOnce(const std::vector<SocketAddress>& addresses,
                             Deadline deadline,
                             bool* has_json) {
  const auto soon = [deadline] {
    return Deadline::At(std::min(SteadyNow() + kRasLinePatience, deadline.when()));
  };
  LOCKSTEP_ASSIGN_OR_RETURN(UniqueFd socket, ConnectToAny(addresses, soon()));
  Dialogue dialogue(std::move(socket));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string hello, dialogue.Ask("CLIENT PROTOCOL 2\n", soon()));
  if (!hello.starts_with("SERVER PROTOCOL")) {
    return Error(ErrorCode::kInvalidArgument, Quoted(hello) + " found, expected SERVER PROTOCOL");
  }
  LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const std::string is_set,
                            dialogue.Ask(kCollectionTimeout, soon()));
  if (*has_json) {
    *has_json = false;  // until it says so: an earlier release may close the connection
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string format, dialogue.Ask("SET FORMAT json\n", soon()));
    *has_json = format.starts_with("OK");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string report,
                            dialogue.AskForAll("VERBOSE STATUS\n", deadline));
  if (*has_json) {
    return ParseRasJson(report);
  }
  if (report.find("Communicators") == std::string::npos) {
    return Error(ErrorCode::kInvalidArgument, "the answer of NCCL is not a report");
  }
  return ParseRasText(report);
}

}  // namespace

int RasPort(std::string_view job_uid) {
  const std::string digest = Sha256Hex(job_uid).substr(0, 8);
  return kRasPortMin + static_cast<int>(std::stoul(digest, nullptr, 16) % kRasPorts);
}

Result<RasReport> AskRas(const std::string& address, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, ResolveRasAddress(address));
  bool has_json = true;
  for (;;) {
    Result<RasReport> report = AskRasOnce(addresses, deadline, &has_json);
    const bool is_nobody = !report.ok() && report.error().system_number() == ECONNREFUSED;
    if (report.ok()) {
      return report;
    }
    if (is_nobody) {
      return Error(ErrorCode::kNotFound, "no process listens at " + address);
    }
    if (report.error().code() == ErrorCode::kResourceExhausted ||
        deadline.HasPassed(SteadyNow() + kRasPause)) {
      return report;
    }
    ::poll(nullptr, 0, static_cast<int>(kRasPause.count()));
  }
}

std::function<HangLook()> AskNcclBy(const WorkerEnvironment& environment,
                                    const EnvironmentMap& variables,
                                    bool is_one_process) {
  const auto found = variables.find(kRasAddress);
  if (!environment.rank.has_value() || found == variables.end()) {
    return nullptr;
  }
  std::map<int, int> local_ranks;
  for (int local_rank = 0; local_rank < environment.processes; ++local_rank) {
    local_ranks[*environment.rank + local_rank] = is_one_process ? 0 : local_rank;
  }
  return [address = found->second, world_size = environment.world_size, local_ranks] {
    HangLook look;
    look.local_ranks = local_ranks;
    const auto report = AskRas(address, Deadline::After(SteadyNow(), kRasLookPatience));
    if (report.ok()) {
      look.ranks = EvidenceOf(*report, world_size);
    }
    return look;
  };
}

}  // namespace lockstep::runtime
