#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/controller/cluster.h"
#include "operator/controller/control_sender.h"
#include "operator/controller/effect_batch.h"
#include "operator/controller/namespace_levels.h"
#include "operator/controller/publisher.h"
#include "operator/kube/request.h"
#include "operator/view/cluster_view.h"
#include "operator/view/pod_reports.h"

namespace lockstep::control {

// What it works with; all outlive it.
struct ApiClusterParts {
  ClusterView* view = nullptr;
  kube::ApiCaller* api = nullptr;
  ControlSender* control = nullptr;
  Publisher* publisher = nullptr;
  Logger* logger = nullptr;
};

// A Kubernetes cluster as the controller's: reads from the ClusterView, writes by calls to the API
// server, each with a precondition or a name that nobody else would choose. What the replies say
// enters the ClusterView at once.
// Thread: one, the controller's.
class ApiCluster final : public Cluster {
 public:
  ApiCluster(PodSettings settings, ApiClusterParts parts);

  // The present moment, for ages and queues. Before each pass.
  void SetTime(TimePoint now, WallTime wall_now);

  // We have become the leader: what another wrote last may be newer than our view, so all jobs are
  // read anew before any is acted on. Every job's own key is derived from the master key, so that
  // the operator needs no right to read secrets outside its own namespace.
  void Lead(const std::string& master_key);

  // A pod has reported. Adds to `news`.
  void Accept(PodReport report, News* news);

  // Nobody listened at a pod's port when it was asked. Adds to `news`.
  void NoteClosed(const kube::ObjectKey& pod, TimePoint when, News* news);

  const PodReports& reports() const { return reports_; }

  std::string JobSecretOf(const std::string& job_uid) const;

  // What replies have told since the last call.
  News TakeNews();

  Result<TrainingJob> ReadJob(const JobId& key) override;
  Result<Observed> Observe(const JobId& key) override;
  void Reserve(const TrainingJob& job) override;
  std::vector<Status> WriteStatuses(const std::vector<TrainingJob>& jobs) override;
  std::vector<std::vector<Status>> Apply(const std::vector<JobEffects>& jobs) override;
  void Publish(const JobId& key, const Decision& decision) override;

 private:
  // Whether pods exist that the job's status, as we know it, has not decided on yet.
  bool IsBehindItsPods(const JobId& key, const StoredJob& stored) const;
  Status CatchUp();
  Status ListJobs();
  Status ListAll(const kube::Selection& selection,
                 const std::function<void(std::string_view json)>& learn);
  Status Refresh(const std::set<JobId>& keys);
  Status ConfirmPods(const JobId& key);
  Status ListPodsOnce(const JobId& key);
  Status ConfirmGivenUp(const JobId& key,
                        const TrainingJobStatus& before,
                        const TrainingJobStatus& after);
  Result<kube::Request> StatusRequest(const TrainingJob& job);
  Status ReadWrittenStatus(const TrainingJob& job, kube::CallResult result);
  void NoteRefusals(const JobId& key, const EffectBatch& batch);
  // Asks the server for these pods of the job.
  Status LookUpPods(const JobId& key, const std::vector<std::string>& names);
  Result<ServiceState> ServiceOf(const JobId& key, const TrainingJob& job);
  void AddReports(const JobId& key, Observed* observed);
  void Forget(const JobId& key);

  // What pods of each job are made with.
  std::vector<PodSettings> SettingsFor(const std::vector<JobEffects>& jobs);

  PodSettings settings_;
  ApiClusterParts parts_;
  NamespaceLevels levels_;
  std::string master_key_;
  TimePoint now_{};
  WallTime wall_now_{};
  News news_;
  bool must_list_jobs_ = false;
  std::set<JobId> pods_listed_;  // since we lead
  std::set<JobId> unsettled_;    // the server may have a newer status than we know
  PodReports reports_;
  std::map<JobId, std::map<std::string, PodRefusal>> refused_pods_;
  std::set<JobId> foreign_services_;
};

}  // namespace lockstep::control
