#pragma once

#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/controller/api_cluster.h"
#include "operator/controller/controller.h"
#include "operator/view/cluster_view.h"
#include "operator/view/pods/poll_plan.h"

namespace lockstep::control {

// What the watches have to say.
using WatchUpdate = std::variant<kube::ObjectUpdate<StoredJob>,
                                 kube::ObjectUpdate<kube::Pod>,  // with our label
                                 kube::ObjectUpdate<PodUse>,     // without it
                                 kube::ObjectUpdate<kube::Node>,
                                 kube::ObjectUpdate<StoredQueue>,
                                 kube::ObjectUpdate<PriorityClass>,
                                 kube::ObjectUpdate<StoredWorkload>,
                                 kube::ObjectUpdate<StoredFlavor>,
                                 kube::ObjectUpdate<StoredProvisioningRequest>,
                                 kube::ObjectUpdate<StoredPodTemplate>,
                                 kube::ObjectUpdate<StoredPlaceholder>,
                                 kube::ObjectUpdate<StoredPodGroup>,
                                 kube::ObjectUpdate<kube::Service>>;

// Outlive the loop.
struct ControlLoopParts {
  kube::CallStarter* api = nullptr;
  ControlSender* control = nullptr;
  Publisher* publisher = nullptr;
  Logger* logger = nullptr;
  const Clock* clock = nullptr;       // by which rounds are timed; null: they are not
  StateRecorder* recorder = nullptr;  // of all that rounds know and decide; null: there is none
};

struct ControlLoopOptions {
  PodSettings pods;
  std::set<std::string> namespaces;          // whose jobs are served; empty: all
  std::vector<std::string> topology_levels;  // labels of nodes, from wide to narrow
  std::chrono::milliseconds half_life{0};    // of what queues have held (PastUse); 0: none
  bool learns_run_times = false;             // rounds hear how long jobs ran that have ended
  bool binds_natively = false;               // it was told to look after PodGroups
  ControllerOptions controller;
  std::size_t calls_of_job_max = 32;  // ApiClusterParts
};

// All that the controller thread owns, without the thread: the view of the cluster and the
// controller over it. The program steps it from its queue, the simulator from its own.
//
// News that only confirms what was expected waits a moment for more of the same: a gang of hundreds
// that comes up is looked at a few times, not hundreds of times. What went wrong never waits.
// Thread: one.
class ControlLoop {
 public:
  ControlLoop(ControlLoopOptions options, ControlLoopParts parts);

  void Apply(const WatchUpdate& update, TimePoint now);

  // A pod has reported.
  void Accept(PodReport report, TimePoint now);

  // Replies have come to calls that the loop has started.
  void Accept(kube::CallsAnswered answered);

  // Nobody listens at the pod's port.
  void NoteClosed(const kube::ObjectKey& pod, TimePoint now);

  // A pod did not take the operator's key.
  void NoteRefused(const kube::ObjectKey& pod, TokenVerdict why, TimePoint now);

  // As of ClusterView.
  void NoteReleases(std::vector<OtherRelease> releases, TimePoint now);

  // In which version the API server serves PodGroups.
  void NotePodGroups(kube::PodGroupsFound found, TimePoint now);

  // From now on jobs have turns; before, the view is only kept warm. `now` and `wall_now` are the
  // same moment on both clocks: the calendar goes on from there for as long as this leads.
  // Precondition: every watch has delivered its first state.
  void Lead(const std::string& master_key, TimePoint now, WallTime wall_now);

  // Leads no more: another may. What is under way is left where it stands; the view is kept warm
  // until the next Lead.
  void StandBy(TimePoint now);

  // Ends what is under way and begins nothing more; over when is_idle().
  void Drain() { controller_.Drain(); }

  bool is_idle() const { return controller_.is_idle(); }

  bool is_leading() const { return is_leading_; }

  // Goes on with what has been answered, and begins some of the turns that are due; none when
  // another leads. Returns those that are over.
  std::vector<TurnReport> Step(TimePoint now);

  // When Step has something to do if nothing changes before; null if never.
  std::optional<TimePoint> NextStep() const;

  // What to ask of the pods of one job from now on; empty: nothing.
  struct PollChange {
    JobId job;
    std::string job_key;               // opens the pods' status
    std::size_t answer_bytes_max = 0;  // of a pod's answer
    std::vector<PollTarget> targets;
  };

  // The jobs for which that may have changed since the last call; none before we lead, and all,
  // with nothing to ask, after we have ceased to.
  std::vector<PollChange> TakePollChanges();

  ClusterView* view() { return &view_; }

  // Rounds of scheduling so far.
  int64_t round_count() const { return cluster_.round_count(); }

  const Controller& controller() const { return controller_; }

 private:
  void Spread(const News& news, TimePoint now);
  PollChange PollChangeOf(const JobId& key) const;
  Duration PatienceFor(const JobId& key) const;
  std::optional<TimePoint> LookAgainAt() const;

  ClusterView view_;
  ApiCluster cluster_;
  Controller controller_;
  bool is_leading_ = false;
  std::set<JobId> poll_stale_;
  std::set<JobId> polled_;             // something is asked of their pods
  std::optional<TimePoint> sweep_at_;  // then all that wait for room look again
};

}  // namespace lockstep::control
