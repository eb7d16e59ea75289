#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "operator/cli/pods/creation_trouble.h"
#include "operator/cli/pods/local_poller.h"
#include "operator/cli/pods/port_trouble.h"
#include "operator/controller/controller.h"
#include "operator/local/pod_runner.h"
#include "operator/pod_client/http_client.h"

namespace lockstep::control {

struct LocalBackendOptions {
  TrainingJob job;
  kube::Node machine;
  PodSettings settings;
  std::string job_key;
  // Something for people happened, which it also notes; empty: it is logged.
  std::function<void(const Event&)> on_event;
  // Reserves other ports for all pods to come and returns the first of them; errors end the run.
  // Empty: there are none.
  std::function<Result<int>()> other_ports;
  // A pod that still runs is given up for this cause while the others go on; may be empty.
  std::function<void(const kube::Pod&, const std::string& cause)> on_given_up;
};

// This machine as the controller's cluster: jobs are held in memory, pods by the PodRunner,
// reports come from the status poller. Thread: one.
class LocalBackend final : public OneJobCluster {
 public:
  // `pods`, `client` and `logger` outlive it.
  LocalBackend(LocalBackendOptions options, PodRunner* pods, HttpClient* client, Logger* logger);

  JobId key() const;

  const TrainingJob& job() const { return options_.job; }

  // A pod reported about itself.
  void Accept(const StatusArrival& arrival);

  // The pods that have stopped answering. Returns whether they are others than before.
  bool SetMutePods(const std::set<std::string>& pods) {
    const bool is_news = pods != mute_pods_;
    mute_pods_ = pods;
    return is_news;
  }

  // A pod has ended as it found its port taken.
  void NotePortTaken(const kube::Pod& pod);

  // What stands in the way of pods that are to be made: when they are tried again, why the run is
  // given up, and what people should know, which is taken once. Null: nothing.
  std::optional<TimePoint> PauseEnd() const;
  std::optional<std::string> Verdict() const;
  std::optional<std::string> TakeWarning();

  Result<JobSight> See(const JobId& key) const override;
  void Publish(const JobId& key, const Decision& decision) override;

 private:
  Status WriteStatus(const TrainingJob& job) override;
  std::vector<Status> ApplyEffects(const std::vector<Effect>& effects) override;

  Status CheckPorts(const kube::Pod& pod);
  void MovePorts();
  void NoteCreations(const std::vector<Effect>& effects, std::vector<Status>* results);
  Status Carry(const CreatePod& effect);
  Status Carry(const DeletePod& effect);
  Status Carry(const PrepareJob& effect);
  Status Carry(const RenewKey& effect);
  Status Carry(const WriteObject& effect);
  Status Carry(const SendControl& effect);
  Status Carry(const DeleteJob& effect);

  bool IsGivenUp(const kube::Pod& pod) const;

  LocalBackendOptions options_;
  PodRunner* pods_;
  HttpClient* client_;
  Logger* logger_;
  std::map<std::string, StatusArrival> reports_;  // by pod
  std::set<std::string> mute_pods_;
  CreationTrouble creation_;
  // Of the pods that were to be made in one turn, the first that lacks a port.
  std::optional<std::string> port_taken_;
  bool is_port_fixed_ = false;  // the manifest asks for it
  PortTrouble ports_;
  std::optional<LostPorts> lost_ports_;
  std::string newest_cause_;  // of the restart that was counted last
};

}  // namespace lockstep::control
