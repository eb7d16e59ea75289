#include "trainer-runtime/supervisor/peers/horovod_gate.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <poll.h>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/io/socket_wait.h"
#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "trainer-runtime/rendezvous/resolver.h"
#include "trainer-runtime/rendezvous/socket_address.h"
#include "trainer-runtime/supervisor/peers/horovod_rendezvous.h"

namespace lockstep::runtime {
namespace {

constexpr int kStatusOk = 200;

// Between two tries. Choice: nobody sees it beside the start of an interpreter.
constexpr std::chrono::milliseconds kTryInterval{50};

// For one answer. Choice: a host that is gone says nothing, and its name may soon be another's.
constexpr std::chrono::seconds kAnswerPatience{2};

// Between two lines that say who is waited for. Choice.
constexpr std::chrono::seconds kSayInterval{15};

// For the gang. As long as the operator waits, by its defaults, for a pod that gets on with its
// start: six times scheduling.startTimeoutSeconds.
constexpr std::chrono::hours kGangPatience{1};

// The number in "HTTP/1.1 200 ..."; null for anything else.
std::optional<int> ParseStatus(std::string_view answer) {
  constexpr std::string_view kStart = "HTTP/1.1 ";
  if (answer.substr(0, kStart.size()) != kStart) {
    return std::nullopt;
  }
  const std::string_view rest = answer.substr(kStart.size());
  int status = 0;
  const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), status);
  return problem == std::errc() ? std::optional(status) : std::nullopt;
}

// The status of the answer of whoever listens at `address`.
Result<std::optional<int>> AskAt(const SocketAddress& address,
                                 const std::string& text,
                                 Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const UniqueFd fd, StartConnect(address));
  LOCKSTEP_RETURN_IF_ERROR(WaitForSocket(fd.get(), POLLOUT, deadline));
  LOCKSTEP_RETURN_IF_ERROR(ConnectOutcome(fd.get()));
  // A new connection takes so little in one piece.
  if (::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) {
    return SystemError(errno, "asking");
  }
  LOCKSTEP_RETURN_IF_ERROR(WaitForSocket(fd.get(), POLLIN, deadline));
  std::array<char, 256> answer;  // the head is in the first piece, or it is asked again
  const ssize_t count = ::recv(fd.get(), answer.data(), answer.size(), 0);
  return count > 0 ? ParseStatus({answer.data(), static_cast<std::size_t>(count)}) : std::nullopt;
}

// Looks a name up without waiting for it.
class ServerLookup {
 public:
  explicit ServerLookup(HostPort server) : server_(std::move(server)) {}

  // Empty while nothing is found: the look-up goes on, or begins anew.
  std::vector<SocketAddress> Addresses() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (found_.empty() && !std::exchange(is_under_way_, true)) {
      resolver_.Resolve(
          server_.host, server_.port, [this](Result<std::vector<SocketAddress>> found) {
            const std::lock_guard<std::mutex> answer_lock(mutex_);
            is_under_way_ = false;
            if (found.ok()) {
              found_ = std::move(found).value();
            }
          });
    }
    return found_;
  }

  // The name may be another's by now.
  void Forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    found_.clear();
  }

 private:
  const HostPort server_;
  std::mutex mutex_;
  bool is_under_way_ = false;         // guarded by mutex_
  std::vector<SocketAddress> found_;  // guarded by mutex_
  Resolver resolver_;                 // last, so that its thread ends first
};

// Null where nobody answers, for whatever reason: what is not there yet looks in many ways.
std::optional<int> Ask(const HostPort& server,
                       const std::vector<SocketAddress>& addresses,
                       const HorovodGate::Request& request) {
  const std::string text = request.method + " " + request.path +
                           " HTTP/1.1\r\nHost: " + server.host + "\r\nContent-Length: 0\r\n\r\n";
  for (const SocketAddress& address : addresses) {
    const auto status = AskAt(address, text, Deadline::After(SteadyNow(), kAnswerPatience));
    if (status.ok() && status->has_value()) {
      return *status;
    }
  }
  return std::nullopt;
}

// Where the pod finds the rendezvous: its own name may not be known yet where it is the first.
HostPort AddressFrom(const WorkerEnvironment& environment) {
  if (!HoldsHorovodRendezvous(environment)) {
    return {environment.master.host, environment.horovod_port};
  }
  const bool is_everywhere = environment.bind_address == WorkerEnvironment().bind_address;
  return {is_everywhere ? "127.0.0.1" : environment.bind_address, environment.horovod_port};
}

void SayAwaited(const HorovodGate& gate, std::string_view message, Logger* logger) {
  const std::optional<int> pod = gate.awaited_pod();
  logger->Info(message,
               {{"awaited",
                 pod.has_value() ? "pod " + std::to_string(*pod) + " in rank order"
                                 : std::string("the runtime of rank 0")}});
}

}  // namespace

HorovodGate::HorovodGate(Attempt attempt, int pod, int pod_count)
    : scope_("lockstep_start_" + std::to_string(attempt.value())),
      pod_(pod),
      pod_count_(pod_count) {
  LOCKSTEP_CHECK(pod >= 0 && pod < pod_count, "pod " + std::to_string(pod) + " is not in the gang");
}

HorovodGate::Request HorovodGate::NextRequest() const {
  LOCKSTEP_CHECK(!is_open(), "all pods are there, so no request is left");
  return has_told_ ? Request{"GET", "/" + scope_ + "/" + std::to_string(next_pod_)}
                   : Request{"PUT", "/" + scope_ + "/" + std::to_string(pod_)};
}

bool HorovodGate::TakeAnswer(std::optional<int> status) {
  if (status != kStatusOk) {
    return false;
  }
  if (has_told_) {
    ++next_pod_;
  }
  has_told_ = true;
  return !is_open();
}

std::optional<int> HorovodGate::awaited_pod() const {
  return has_told_ ? std::optional(next_pod_) : std::nullopt;
}

std::chrono::seconds HorovodGatePatience(const WorkerEnvironment& environment) {
  return std::max<std::chrono::seconds>(kGangPatience, environment.rendezvous_timeout);
}

bool WaitAtHorovodGate(const WorkerEnvironment& environment,
                       Deadline deadline,
                       const std::function<bool()>& is_asked_to_end,
                       Logger* logger) {
  LOCKSTEP_CHECK(environment.rank.has_value(), "a pod without ranks does not wait for the gang");
  HorovodGate gate(environment.attempt,
                   *environment.rank / environment.processes,
                   environment.world_size / environment.processes);
  const HostPort server = AddressFrom(environment);
  ServerLookup lookup(server);
  Deadline say_at = Deadline::After(SteadyNow(), kSayInterval);
  while (!gate.is_open() && !is_asked_to_end()) {
    const TimePoint now = SteadyNow();
    if (deadline.HasPassed(now)) {
      SayAwaited(gate, "not all pods of the gang started in time; Horovod starts anyway", logger);
      return false;
    }
    if (say_at.HasPassed(now)) {
      SayAwaited(gate, "Horovod starts when all pods of the gang have started", logger);
      say_at = Deadline::After(now, kSayInterval);
    }
    if (!gate.TakeAnswer(Ask(server, lookup.Addresses(), gate.NextRequest())) && !gate.is_open()) {
      lookup.Forget();
      std::this_thread::sleep_for(kTryInterval);
    }
  }
  return gate.is_open();
}

}  // namespace lockstep::runtime
