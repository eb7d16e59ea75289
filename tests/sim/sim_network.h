#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "operator/kubeclient/kube/request.h"
#include "tests/sim/api_server.h"
#include "tests/sim/checks.h"
#include "tests/sim/sim_context.h"

namespace lockstep::control::sim {

// Carries one operator's calls to the API server: loses them before or after they were carried out,
// carries them out late, tells of it later still, and kills the operator between any two of them.
// Holds back what changes something while the operator may not lead, as the client does.
class SimNetwork final : public kube::CallStarter, public kube::ApiCaller {
 public:
  struct Parts {
    SimContext* context = nullptr;
    ApiServer* server = nullptr;
    Checks* checks = nullptr;
    std::function<void()> interlude;
    std::function<TimePoint()> leads_until;
  };

  explicit SimNetwork(Parts parts) : parts_(std::move(parts)) {}

  void StartCalls(kube::CallTicket ticket,
                  const std::string& lane,
                  std::vector<kube::Request> requests) override;

  void AbandonCalls() override { groups_.clear(); }

  // Carries out what has come to the server by now, and returns what has been answered by now.
  std::vector<kube::CallsAnswered> Run();

  // Calls that are waited for, one after the other.
  std::vector<kube::CallResult> CallAll(const std::vector<kube::Request>& requests) override;

  // One call that needs no leader: of the election itself.
  kube::CallResult Exchange(const kube::Request& request);

  // The process has ended: nothing leaves it any more.
  bool is_dead() const { return is_dead_; }

  void Die() { is_dead_ = true; }

  bool is_out = false;  // the API server cannot be reached

  int64_t writes = 0;  // carried out, the election's not counted

 private:
  struct Call {
    std::size_t index = 0;
    kube::Request request;
    TimePoint arrives_at{};  // at the server
    TimePoint gives_up_at{};
  };

  struct Group {
    kube::CallTicket ticket;
    std::vector<Call> waiting;
    std::vector<kube::CallResult> results;
    TimePoint answered_at{};  // the last of those that are
  };

  Duration TimeToArrive();
  kube::CallResult Begin(const kube::Request& request);
  void Deliver(Group* group);
  kube::CallResult CarryOut(const kube::Request& request);
  kube::CallResult Reach(const kube::Request& request);

  Parts parts_;
  std::deque<Group> groups_;
  bool is_dead_ = false;
};

}  // namespace lockstep::control::sim
