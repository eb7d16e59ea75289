#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "operator/controller/control_loop.h"
#include "operator/controller/write/control_sender.h"
#include "operator/controller/write/publisher.h"
#include "operator/kubeclient/kube/lease.h"
#include "operator/kubeclient/kube/reflector.h"
#include "operator/scheduler/state/state_event.h"
#include "tests/sim/checks.h"
#include "tests/sim/sim_network.h"

namespace lockstep::control::sim {

// One watch of an operator, over the simulated network: lags, is cut, and comes in pieces.
template <typename T>
class SimWatch {
 public:
  SimWatch(kube::Selection selection,
           Result<kube::Item<T>> (*decode)(std::string_view),
           SimContext* context,
           ApiServer* server)
      : context_(context),
        server_(server),
        reflector_({std::move(selection), true, 3}, decode, context->prng.Next()) {}

  ~SimWatch() { server_->CloseWatch(id_); }

  SimWatch(const SimWatch&) = delete;
  SimWatch& operator=(const SimWatch&) = delete;

  // A moment passes. Calls `take(update)` for each update.
  template <typename Take>
  void Run(bool is_reachable, const Take& take);

  bool has_synced() const { return reflector_.has_synced(); }

 private:
  void Open(std::vector<kube::ObjectUpdate<T>>* updates);
  void Feed(std::string bytes, std::vector<kube::ObjectUpdate<T>>* updates);
  void End(std::optional<kube::Fault> fault, std::vector<kube::ObjectUpdate<T>>* updates);

  SimContext* context_;
  ApiServer* server_;
  kube::Reflector<T> reflector_;
  std::optional<kube::ReflectorCore::Next> next_;
  bool is_open_ = false;
  int id_ = 0;
  TimePoint ends_at_{};
};

// One operator process: the real control loop, reflectors and election, over the simulated network.
// Dies where the simulation says so; a new process is a new object.
class SimOperator final : public Publisher, public ControlSender {
 public:
  struct Parts {
    SimContext* context = nullptr;
    ApiServer* server = nullptr;
    Processes* processes = nullptr;
    Checks* checks = nullptr;
    std::function<void()> interlude;  // the rest of the world goes on during a call
    Logger* logger = nullptr;
    std::unique_ptr<StateRecorder> recorder = nullptr;  // null: none
  };

  SimOperator(Parts parts, std::string identity);

  // A moment passes.
  void Run();

  // Whether its process has ended.
  bool is_dead() const { return network_.is_dead(); }

  bool IsLeader() const;

  // Frozen by SIGSTOP: does nothing until then.
  void FreezeUntil(TimePoint when) { frozen_until_ = when; }

  // SIGTERM: gives the lease up and ends.
  void Stop();

  // SIGKILL.
  void Kill() { network_.Die(); }

  // The API server cannot be reached, or can again.
  void SetOutage(bool is_out) { network_.is_out = is_out; }

  // The calendar of its machine is set.
  void StepClock(Duration by) { wall_start_ += std::chrono::floor<std::chrono::milliseconds>(by); }

  int64_t writes() const { return network_.writes; }

  const std::string& identity() const { return identity_; }

  // Publisher and ControlSender.
  void OnStatus(const TrainingJobStatus& before, const TrainingJob& job) override;
  void OnEvents(const TrainingJob& job, const std::vector<Event>& events) override;

  void OnRound(Duration) override {}

  void OnMetrics(const std::vector<MetricDelta>& metrics) override;
  void Send(const std::string& address,
            const std::string& job_key,
            const ControlMessage& message) override;

 private:
  // One pod that is asked for its status document from time to time.
  struct Poll {
    PollTarget target;
    TimePoint due{};
  };

  void RunElection();
  void RunWatches();
  void RunReports();
  void RunTurns();
  void NoteWork(int64_t bytes);
  void TryToLead();
  ObjectPtr PodAt(const std::string& address) const;

  Parts parts_;
  std::string identity_;
  WallTime wall_start_;           // with all steps since: what the lease is held by
  const WallTime wall_at_start_;  // what statuses are written by, or no check could read them
  TimePoint start_;
  SimNetwork network_;
  kube::LeaseElection election_;
  ControlLoop loop_;
  SimWatch<StoredJob> jobs_;
  SimWatch<kube::Pod> pods_;
  SimWatch<PodUse> foreign_pods_;
  SimWatch<kube::Node> nodes_;
  SimWatch<kube::Service> services_;
  SimWatch<StoredQueue> queues_;     // where the cluster has some
  SimWatch<PriorityClass> classes_;  // likewise
  // Where there is an autoscaler.
  SimWatch<StoredProvisioningRequest> provisioning_requests_;
  SimWatch<StoredPodTemplate> pod_templates_;
  std::map<JobId, std::vector<Poll>> polls_;
  TimePoint election_at_{};
  TimePoint lead_at_{};
  TimePoint frozen_until_{};
  bool is_running_ = false;
};

}  // namespace lockstep::control::sim
