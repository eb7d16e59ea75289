#include "trainer-runtime/rendezvous/mesh.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/io/signals_blocked.h"
#include "common/contract/status/lost_peer.h"
#include "trainer-runtime/rendezvous/host_id.h"
#include "trainer-runtime/rendezvous/mesh_loop.h"

namespace lockstep::runtime {
namespace {

// The mesh's thread ends every Meet at its deadline; a thread that does not is stuck. Choice.
constexpr Duration kAnswerGrace = std::chrono::seconds(10);

constexpr int kBacklogMin = 128;

class SocketMesh final : public Mesh {
 public:
  ~SocketMesh() override {
    mailbox_.Post(Shutdown{});
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  Status Open(MeshLoopOptions options) {
    LOCKSTEP_RETURN_IF_ERROR(mailbox_.Open());
    if (options.listener.is_open()) {
      LOCKSTEP_ASSIGN_OR_RETURN(port_, BoundPort(options.listener));
    }
    board_.epoch = options.membership.initial_epoch;
    options.mailbox = &mailbox_;
    options.board = &board_;
    const SignalsBlocked blocked;  // inherited by the thread
    thread_ = std::thread(
        [loop_options = std::move(options)]() mutable { MeshLoop(std::move(loop_options)).Run(); });
    return OkStatus();
  }

  Result<Meeting> Meet(const SelfFacts& facts,
                       Epoch at_least,
                       Deadline deadline,
                       std::stop_token stop) override {
    mailbox_.Post(event::MeetRequested{facts, at_least, deadline.when()});
    const std::stop_callback withdraw(stop, [this] { mailbox_.Post(event::MeetWithdrawn{}); });
    std::unique_lock<std::mutex> lock(board_.mutex);
    const bool is_answered = board_.changed.wait_until(
        lock, deadline.when() + kAnswerGrace, [this] { return board_.outcome.has_value(); });
    LOCKSTEP_CHECK(is_answered, "the mesh's thread does not answer");
    Result<Meeting> outcome = std::move(*board_.outcome);
    board_.outcome.reset();
    return outcome;
  }

  void NoteGone(int rank, Incarnation replacement, Epoch epoch) override {
    mailbox_.Post(event::PeerGone{rank, replacement, epoch});
  }

  void Finish(Deadline deadline) override {
    mailbox_.Post(event::Finished{});
    std::unique_lock<std::mutex> lock(board_.mutex);
    board_.changed.wait_until(lock, deadline.when(), [this] { return board_.is_finish_known; });
  }

  bool HasFinished() const override {
    const std::lock_guard<std::mutex> lock(board_.mutex);
    return board_.has_finished;
  }

  std::vector<PeerStatus> Peers() const override {
    const std::lock_guard<std::mutex> lock(board_.mutex);
    return board_.peers;
  }

  Epoch epoch() const override {
    const std::lock_guard<std::mutex> lock(board_.mutex);
    return board_.epoch;
  }

  int port() const override { return port_; }

 private:
  Mailbox mailbox_;
  mutable MeshBoard board_;
  int port_ = 0;
  std::thread thread_;
};

Result<std::vector<HostPort>> ParseAddresses(const MeshOptions& options) {
  const MeshIdentity& self = options.identity;
  const bool is_sound = self.world_size >= 1 && self.rank >= 0 && self.rank < self.world_size;
  if (!is_sound) {
    return Error(ErrorCode::kInvalidArgument,
                 "rank " + std::to_string(self.rank) + " of " + std::to_string(self.world_size));
  }
  if (static_cast<int>(options.addresses.size()) != self.world_size) {
    return Error(ErrorCode::kInvalidArgument,
                 std::to_string(options.addresses.size()) + " addresses for " +
                     std::to_string(self.world_size) + " ranks");
  }
  std::vector<HostPort> addresses;
  for (const std::string& text : options.addresses) {
    LOCKSTEP_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(text));
    addresses.push_back(std::move(address));
  }
  return addresses;
}

}  // namespace

const char* LossReasonName(LossReason reason) {
  switch (reason) {
    case LossReason::kClosed:
      return "closed";
    case LossReason::kSilent:
      return kLostBySilence.data();
    case LossReason::kReplaced:
      return "replaced";
    case LossReason::kGone:
      return "gone";
    case LossReason::kMovedOn:
      return "moved_on";
  }
  return "closed";
}

Result<std::unique_ptr<Mesh>> Mesh::Start(MeshOptions options) {
  LOCKSTEP_CHECK(options.logger != nullptr, "a mesh needs a logger");
  MeshLoopOptions loop;
  if (options.identity.world_size > 1 || !options.addresses.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(loop.addresses, ParseAddresses(options));
  }
  if (options.identity.world_size > 1) {
    loop.listener = std::move(options.listener);
    if (!loop.listener.is_open()) {
      const int backlog = std::max(kBacklogMin, options.identity.world_size);
      LOCKSTEP_ASSIGN_OR_RETURN(loop.listener,
                                ListenOn(options.bind_address, options.port, backlog));
    }
  }
  loop.membership.self = Hello{options.identity, ReadHostId()};
  loop.membership.initial_epoch = options.initial_epoch;
  loop.membership.heartbeat = options.heartbeat;
  loop.membership.silent_after = options.silent_after;
  loop.job_key = std::move(options.job_key);
  loop.logger = options.logger;
  loop.on_peer_lost = std::move(options.on_peer_lost);
  auto mesh = std::make_unique<SocketMesh>();
  LOCKSTEP_RETURN_IF_ERROR(mesh->Open(std::move(loop)));
  return std::unique_ptr<Mesh>(std::move(mesh));
}

}  // namespace lockstep::runtime
