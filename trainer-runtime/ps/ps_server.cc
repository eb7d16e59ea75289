#include "trainer-runtime/ps/ps_server.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/io/signals_blocked.h"
#include "common/contract/environment/topology.h"
#include "trainer-runtime/ps/ps_loop.h"

namespace lockstep::runtime {
namespace {

constexpr int kBacklogMin = 128;

class SocketPsServer final : public PsServer {
 public:
  ~SocketPsServer() override {
    letters_.Post(ps_letter::End{});
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  Status Open(PsServerOptions options, std::vector<HostPort> addresses) {
    LOCKSTEP_RETURN_IF_ERROR(letters_.Open());
    LOCKSTEP_ASSIGN_OR_RETURN(port_, BoundPort(options.listener));
    loop_ = std::make_unique<PsLoop>(std::move(options), std::move(addresses), &letters_, &board_);
    LOCKSTEP_RETURN_IF_ERROR(loop_->Open());
    const SignalsBlocked blocked;  // inherited by the thread
    thread_ = std::thread([this] { loop_->Run(); });
    return OkStatus();
  }

  void NoteView(int shard, const ShardView& view) override {
    letters_.Post(ps_letter::View{shard, view});
  }

  void NoteWorkerGone(int worker, Incarnation below) override {
    letters_.Post(ps_letter::Gone{worker, below});
  }

  std::vector<CopyStanding> Standings() const override {
    const std::lock_guard<std::mutex> lock(board_.mutex);
    return board_.standings;
  }

  int port() const override { return port_; }

 private:
  LetterBox<PsLetter> letters_;
  mutable PsBoard board_;
  int port_ = 0;
  std::unique_ptr<PsLoop> loop_;
  std::thread thread_;
};

Error Unfit(const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, what);
}

Status CheckOptions(const PsServerOptions& options) {
  const MeshIdentity& self = options.identity;
  const int ps_count = static_cast<int>(options.addresses.size());
  const int number = self.rank - self.world_size;
  if (self.world_size < 1 || number < 0 || number >= ps_count) {
    return Unfit("ps " + std::to_string(number) + " of " + std::to_string(ps_count) + " beside " +
                 std::to_string(self.world_size) + " ranks");
  }
  if (options.views.size() != options.addresses.size()) {
    return Unfit(std::to_string(options.views.size()) + " views for " + std::to_string(ps_count) +
                 " ps");
  }
  const ShardView& own = options.views[static_cast<std::size_t>(number)];
  const ShardView& before =
      options.views[static_cast<std::size_t>((number + ps_count - 1) % ps_count)];
  const bool is_in_views = own.at(ShardPlace::kHome) == self.incarnation &&
                           (ps_count == 1 || before.at(ShardPlace::kBuddy) == self.incarnation);
  if (!is_in_views) {
    return Unfit("the views do not name incarnation " + std::to_string(self.incarnation.value()) +
                 " of ps " + std::to_string(number));
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<PsServer>> PsServer::Start(PsServerOptions options) {
  LOCKSTEP_CHECK(options.logger != nullptr, "a ps needs a logger");
  LOCKSTEP_CHECK(options.rule != nullptr, "a ps needs an update rule");
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<HostPort> addresses;
  for (const std::string& text : options.addresses) {
    LOCKSTEP_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(text));
    addresses.push_back(std::move(address));
  }
  if (!options.listener.is_open()) {
    const int backlog = std::max(kBacklogMin, options.identity.world_size);
    LOCKSTEP_ASSIGN_OR_RETURN(options.listener,
                              ListenOn(options.bind_address, options.port, backlog));
  }
  auto server = std::make_unique<SocketPsServer>();
  LOCKSTEP_RETURN_IF_ERROR(server->Open(std::move(options), std::move(addresses)));
  return std::unique_ptr<PsServer>(std::move(server));
}

}  // namespace lockstep::runtime
