#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/prng.h"
#include "operator/controller/controller.h"

namespace lockstep::control {

// One seed's way of being difficult.
struct Faults {
  bool are_on = true;
  uint64_t per_mille_death = 20;    // per pod and tick
  uint64_t per_mille_hang = 5;      // per pod and tick; only where reports exist
  uint64_t per_mille_vanish = 3;    // per pod and tick: its object is gone without a trace
  uint64_t per_mille_write = 100;   // a status write fails
  uint64_t per_mille_effect = 100;  // an effect fails
  uint64_t per_mille_crash = 20;    // the operator dies at a call
  uint64_t per_mille_lag = 300;     // an observation is the previous one
};

struct SimPod {
  kube::Pod pod;
  bool is_hung = false;
};

// For tests: a cluster that misbehaves by seed, and checks after every call what must always hold.
class SimCluster final : public OneJobCluster {
 public:
  SimCluster(uint64_t seed, TrainingJob job, Addressing addressing);

  void Ask(const JobId& key) override;

  Result<JobSight> See(const JobId& /*key*/) const override { return sight_; }

  void Publish(const JobId& key, const Decision& decision) override;

  // The operator process is gone; a new one sees the world as it is.
  void Restart();

  bool is_dead() const { return is_dead_; }

  const TrainingJob& job() const { return job_; }

  // Somebody changes runPolicy.suspend.
  void Suspend(bool suspend);

  // Things happen to pods.
  void Tick();

  // All ranks of the current gang have done their work.
  void FinishWork();

  // Whether every member of the placed gang runs and none hangs.
  bool GangRuns() const;

  std::size_t live_pod_count() const;

  // Job and pods on one line, for messages.
  std::string Describe() const;

  Faults faults;
  std::string problem;  // the first broken promise; empty while all hold
  // Pods that died or hung while the stored status counted on them.
  std::set<std::pair<TaskId, PodNumber>> casualties;
  int64_t published_restarts = 0;
  int64_t vanished = 0;  // pods that were gone without a trace

 private:
  Status WriteStatus(const TrainingJob& job) override;
  std::vector<Status> ApplyEffects(const std::vector<Effect>& effects) override;

  static Error Dead() { return Error(ErrorCode::kUnavailable, "the operator is dead"); }

  bool Happens(uint64_t per_mille) { return faults.are_on && prng_.Below(1000) < per_mille; }

  // Whether the operator's process is dead, or dies at this very call.
  bool Dies();

  // Notes the first broken promise.
  void Require(bool holds, const std::string& what);

  // Whether the stored status counts on this pod.
  bool IsCurrent(const kube::Pod& pod) const;

  // The view catches up with the world.
  void Refresh();
  void AddReports();

  Status CarryOut(const Effect& effect);

  void End(int code, SimPod* sim);

  // A hang is known by a peer that does not hang: the last healthy one stays so.
  bool MayHang(const SimPod& sim) const;

  void TickPod(const std::string& name);

  // What must hold of pods and stored status at any moment.
  void CheckWorld();

  // What one write may change.
  void CheckWrite(const TrainingJobStatus& before, const TrainingJobStatus& after);

  std::size_t PodCount() const { return static_cast<std::size_t>(job_.RankPodCount()); }

  Prng prng_;
  TrainingJob job_;
  std::map<std::string, SimPod> pods_;
  std::vector<kube::Node> nodes_;
  PodSettings settings_;
  Observed view_;
  Result<JobSight> sight_ = Dead();
  bool is_dead_ = false;
  int next_uid_ = 1;
};

}  // namespace lockstep::control
