#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/controller/cluster.h"
#include "operator/controller/errand/cluster_notes.h"
#include "operator/controller/errand/namespace_levels.h"
#include "operator/controller/errand_runner.h"
#include "operator/controller/queue/queue_report.h"
#include "operator/controller/round_keeper.h"
#include "operator/controller/write/control_sender.h"
#include "operator/controller/write/publisher.h"
#include "operator/kubeclient/kube/request.h"
#include "operator/view/cluster_view.h"
#include "operator/view/pods/pod_reports.h"

namespace lockstep::control {

// What it works with; all outlive it.
struct ApiClusterParts {
  ClusterView* view = nullptr;
  kube::CallStarter* api = nullptr;
  ControlSender* control = nullptr;
  Publisher* publisher = nullptr;
  Logger* logger = nullptr;
  const Clock* clock = nullptr;  // by which rounds are timed; null: they are not

  // Calls of one job that are under way. Choice: those that go out side by side, and as many again
  // that need not be asked for when one is answered. All have their turn while the slowest webhook
  // that there may be holds up the first half.
  std::size_t calls_of_job_max = 32;
  std::chrono::milliseconds half_life{0};  // as of PastUse
  bool binds_natively = false;             // as of NativeSight
};

// A Kubernetes cluster as the controller's: reads from the ClusterView, and does all else by calls
// to the API server, each write with a precondition or a name that nobody else would choose. What
// the replies say enters the ClusterView at once.
// Thread: one, the controller's.
class ApiCluster final : public Cluster {
 public:
  ApiCluster(PodSettings settings, ApiClusterParts parts);

  // The present moment, for ages and queues. Before each step.
  void SetTime(TimePoint now, WallTime wall_now);

  // We have become the leader: what another wrote last may be newer than our view, so all jobs are
  // read anew before any is acted on. Every job's own key is derived from the master key, so that
  // the operator needs no right to read secrets outside its own namespace.
  void Lead(const std::string& master_key);

  // A pod has reported. Adds to `news`.
  void Accept(PodReport report, News* news);

  // Nobody listened at a pod's port when it was asked. Adds to `news`.
  void NoteClosed(const kube::ObjectKey& pod, TimePoint when, News* news);

  // A pod did not take our key when it was asked. Adds to `news`; says so in the log once.
  void NoteRefused(const kube::ObjectKey& pod, TokenVerdict why, News* news);

  const PodReports& reports() const { return reports_; }

  std::string JobSecretOf(const std::string& job_uid) const;

  // What replies and rounds have told since the last call.
  News TakeNews();

  // A scheduling round over all that waits, if anything has changed.
  void Plan();

  // When time alone may change what a round says; null: never, or none can be made yet.
  std::optional<WallTime> look_again_at() const {
    return must_list_jobs_ ? std::nullopt : rounds_.look_again_at();
  }

  // What people are to know of queues is written, if that is due.
  void ReportQueues();

  // When it will be; null: nothing has changed, or is being written, or not all is known yet.
  std::optional<TimePoint> NextQueueReport() const {
    return MayReportQueues() ? queue_reporter_.NextReport() : std::nullopt;
  }

  int64_t round_count() const { return parts_.view->allocator().round_count(); }

  // Replies have come to calls that were started here.
  void Accept(kube::CallsAnswered answered) { errands_.Accept(std::move(answered)); }

  void StartLook(const JobId& key) override;
  void Ask(const JobId& key) override;
  Result<JobSight> See(const JobId& key) const override;
  void StartStatusWrite(const JobId& key, const TrainingJob& job) override;
  void StartEffects(const JobId& key,
                    const TrainingJob& job,
                    const std::vector<Effect>& effects) override;
  std::vector<ClusterAnswer> TakeAnswers() override;
  void Abandon() override;
  void Publish(const JobId& key, const Decision& decision) override;

 private:
  void BeginLook(const JobId& key);
  void AskPermissions();
  bool MayReportQueues() const;
  void EndQueueReport(const Status& answer);
  void EndListing(const Status& listed, std::vector<ClusterAnswer>* answers);
  ServiceState ServiceOf(const JobId& key, const TrainingJob& job) const;
  void AddReports(const JobId& key, Observed* observed) const;

  PodSettings settings_;
  ApiClusterParts parts_;
  NamespaceLevels levels_;
  std::string master_key_;
  TimePoint now_{};
  ClusterNotes notes_;
  RoundKeeper rounds_;
  JobId asked_;  // whose turn it is
  QueueReporter queue_reporter_;
  bool is_reporting_queues_ = false;
  ErrandRunner errands_;
  bool must_list_jobs_ = false;
  std::set<JobId> permissions_asked_;   // errands that are under way
  std::vector<JobId> held_looks_;       // until all jobs have been listed
  std::vector<ClusterAnswer> answers_;  // not taken yet
  PodReports reports_;
};

}  // namespace lockstep::control
