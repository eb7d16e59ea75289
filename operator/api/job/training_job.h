#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/base/value_members.h"
#include "common/contract/command/launcher.h"
#include "common/contract/environment/gpu_visibility.h"
#include "common/contract/environment/role.h"
#include "common/contract/environment/topology.h"
#include "common/contract/training/training_result.h"
#include "common/contract/training/training_spec.h"
#include "common/json/json.h"
#include "operator/api/job/claim.h"
#include "operator/api/job/kueue_admission.h"
#include "operator/api/job/pod_template.h"
#include "operator/api/job/provisioning.h"
#include "operator/resources/resource_vector.h"
#include "operator/resources/toleration.h"

namespace lockstep::control {

// A TrainingJob as a value: what a manifest or the API server says, after decoding and defaulting.

inline constexpr std::string_view kApiVersion = "lockstep.dev/v1";
inline constexpr std::string_view kTrainingJobKind = "TrainingJob";

enum class Strategy {
  kMirrored,
  kMultiWorkerMirrored,
  kCentralStorage,
  kParameterServer,
  kIndependent,
  kHorovod,
  kNone
};

// What happens when a process of a role ends.
enum class RestartPolicy {
  kNever,
  kOnFailure,
  kAlways,
  kExitCode  // retryable exit codes restart, the program's own verdicts do not
};

// Which pods are removed once the job has ended.
enum class CleanPodPolicy { kAll, kRunning, kNone };

// When the job has succeeded.
enum class SuccessPolicy { kChiefOrWorker0, kAllWorkers };

// How a planned pod is tied to its node.
enum class PodBinding {
  kAffinity,  // required node affinity: the cluster's scheduler has the last word
  kDirect,    // spec.nodeName: faster, and nobody checks that the room is still there
  kNative     // not at all: kube-scheduler places the gang, all or none, by a PodGroup
};

struct Metadata {
  std::string name;
  std::string namespace_name = "default";
  std::string uid;  // empty in a manifest; given by the cluster
  int64_t generation = 0;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;

  friend bool operator==(const Metadata&, const Metadata&) = default;
};

struct RoleSpec {
  LOCKSTEP_DECLARE_VALUE_MEMBERS(RoleSpec);

  Role name = Role::kWorker;
  // Of the worker: spec.replicas, which `kubectl scale` sets, wins; decoding resolves it.
  int64_t replicas = 1;
  int64_t gpus = 0;       // whole GPUs per pod
  int64_t processes = 1;  // per pod
  // Who starts a command's processes; null: the runtime finds out.
  std::optional<ProcessLauncher> launcher;
  // Of a command's processes; null: all GPUs, or one each where processes share a GPU.
  std::optional<GpuVisibility> gpu_visibility;
  std::optional<int64_t> shared_memory;  // bytes of /dev/shm; null: half of the memory limit
  RestartPolicy restart_policy = RestartPolicy::kExitCode;
  // Whether our runtime runs the template's command: with it come signals passed on, one process
  // for each GPU, metrics, and word of a lost peer. Without it the command is started as written.
  bool supervise = true;
  // Modules that the runtime keeps a Python interpreter with, from which it forks each process.
  std::vector<std::string> warm;
  PodTemplate pod;

  friend bool operator==(const RoleSpec&, const RoleSpec&) = default;
};

struct RunPolicy {
  bool suspend = false;
  std::string managed_by;  // empty: this operator
  CleanPodPolicy clean_pod_policy = CleanPodPolicy::kRunning;
  std::optional<std::chrono::seconds> active_deadline;
  std::optional<std::chrono::seconds> ttl_after_finished;
  std::chrono::seconds evaluator_grace{300};  // after the success, to judge the last checkpoint
  int64_t backoff_limit = 6;  // incidents within a day, whatever their cause; one more fails it

  friend bool operator==(const RunPolicy&, const RunPolicy&) = default;
};

// Keeping a gang together: node label keys whose value all its pods must, or should, share.
struct TopologySpec {
  std::string required;
  std::string preferred;

  friend bool operator==(const TopologySpec&, const TopologySpec&) = default;
};

struct SchedulingSpec {
  std::string queue;
  std::string priority_class_name;
  TopologySpec topology;
  std::optional<std::chrono::seconds> timeout;  // waiting longer for room fails the job
  // A pod that makes no progress towards running for so long rolls the gang back. Choice: an image
  // of several gigabytes is pulled in that time.
  std::chrono::seconds start_timeout{600};
  PodBinding binding = PodBinding::kAffinity;
  Provisioning provisioning = Provisioning::kNone;

  friend bool operator==(const SchedulingSpec&, const SchedulingSpec&) = default;
};

// Bounds for the number of workers.
struct ElasticSpec {
  int64_t min_replicas = 1;
  int64_t max_replicas = 1;

  friend bool operator==(const ElasticSpec&, const ElasticSpec&) = default;
};

// How long the parts of a recovery may take.
struct RecoverySpec {
  std::chrono::milliseconds replacement_timeout{60'000};  // a lost rank's successor must be there
  std::chrono::milliseconds rendezvous_timeout{60'000};   // all ranks must have met
  std::chrono::milliseconds silent_after{1'500};  // a rank that says nothing for so long is lost
  // A rank of a command that does nothing for so long is ended; null: nobody is watched.
  std::optional<std::chrono::milliseconds> hung_after;
  // A command's gang that has lost a program starts anew within its pods, where that can be.
  bool relaunch = false;

  friend bool operator==(const RecoverySpec&, const RecoverySpec&) = default;
};

struct TrainingJobSpec {
  LOCKSTEP_DECLARE_VALUE_MEMBERS(TrainingJobSpec);

  Strategy strategy = Strategy::kMultiWorkerMirrored;
  std::vector<RoleSpec> roles;           // each name at most once; order as written
  std::optional<TrainingSpec> training;  // null: the templates' own commands run
  RunPolicy run_policy;
  SuccessPolicy success_policy = SuccessPolicy::kChiefOrWorker0;
  SchedulingSpec scheduling;
  std::optional<ElasticSpec> elastic;
  RecoverySpec recovery;

  friend bool operator==(const TrainingJobSpec&, const TrainingJobSpec&) = default;
};

enum class ConditionType {
  kCreated,
  kScheduled,  // the whole gang has its places
  kRunning,
  kRestarting,
  kSuspended,
  kSucceeded,
  kFailed,
  kRuntimeHeard,   // false: pods do not take the operator's key, so what they tell is not heard
  kStalled,        // the operator cannot go on, and leaves all as it is: the message says why
  kGpuAssignment,  // true: devices seen are as planned; false: they differ, or one is in two pods
  kFullyPlanned,   // false: the manifest says things about placement that no plan heeds
  kResized         // false: the gang keeps its size until somebody accepts what another would cost
};

struct Condition {
  ConditionType type = ConditionType::kCreated;
  bool is_true = false;
  std::string reason;   // one CamelCase word
  std::string message;  // for people
  WallTime last_transition{};
  Json unknown{};  // its fields that this version does not know; null or empty: none

  friend bool operator==(const Condition&, const Condition&) = default;
};

// Where one pod of the current attempt belongs, and which pod stands for it: the ledger from which
// the operator, after a restart of its own, knows what it has decided and what it has seen.
struct PodPlacement {
  Role role = Role::kWorker;
  int64_t index = 0;
  std::string node;
  Incarnation incarnation;           // grows with each replacement within the attempt
  WallTime since{};                  // when this incarnation was decided
  std::string pod_uid;               // of this incarnation's pod, once one was seen; else empty
  bool awaits_verdict = false;       // its predecessor has ended; nobody has told yet how
  bool is_completed = false;         // its process ended with success; it is not started again
  std::vector<std::string> devices;  // UUIDs of the GPUs that the runtime saw in it
  std::optional<WallTime> trouble_since{};  // something keeps the pod from starting since then
  // Why Kubernetes takes the pod away, as in PodStatus; of its predecessor while that awaits a
  // verdict. It is remembered because the pod may go before more of it is seen.
  std::string disruption{};
  bool has_moved = false;  // since the gang was whole: it could not start, and was tried elsewhere
  Json unknown{};          // as in Condition

  friend bool operator==(const PodPlacement&, const PodPlacement&) = default;
};

struct RoleCounts {
  Role name = Role::kWorker;
  int64_t pending = 0;
  int64_t active = 0;
  int64_t succeeded = 0;
  int64_t failed = 0;

  friend bool operator==(const RoleCounts&, const RoleCounts&) = default;
};

struct RestartCount {
  std::string cause;
  int64_t count = 0;

  friend bool operator==(const RestartCount&, const RestartCount&) = default;
};

// A node on which pods of the job could not start although it looked fine.
struct SuspectNode {
  std::string node;
  std::string reason;  // of the last time, one CamelCase word
  int64_t count = 0;   // times in a row
  WallTime until{};    // other nodes come first before

  friend bool operator==(const SuspectNode&, const SuspectNode&) = default;
};

// An amount of one resource that each pod of a role asks for. Units: as in ResourceVector.
struct RoleAmount {
  Role role = Role::kWorker;
  std::string resource;
  int64_t amount = 0;

  friend bool operator==(const RoleAmount&, const RoleAmount&) = default;
};

// One thing that went wrong, or was asked for, however many pods it cost: what falls on one node,
// or follows from one cause, within a short time.
struct Incident {
  WallTime at{};  // when its first pod was answered
  std::string cause;
  std::string node;      // empty: not of one node
  int64_t step = 0;      // of the newest checkpoint then
  bool is_free = false;  // costs nothing of backoffLimit
  int64_t count = 1;     // more than one: older ones that were put together

  friend bool operator==(const Incident&, const Incident&) = default;
};

// How far the model of one rank is that trains it for itself.
struct ModelProgress {
  int64_t rank = 0;
  int64_t step = 0;
  // Who told so: attempt and incarnation of its pod; where a pod has several processes, of these.
  PodNumber told_by{};
  int64_t checkpoint_step = 0;  // the newest checkpoint that it can go back to; 0: none

  friend bool operator==(const ModelProgress&, const ModelProgress&) = default;
};

struct JobProgress {
  int64_t step = 0;
  int64_t steps_total = 0;  // 0: not known yet
  int64_t data_epoch = 0;
  double loss = 0;
  double samples_per_second = 0;
  double eta_seconds = 0;
  int64_t checkpoint_step = 0;  // the newest checkpoint that training can go back to; 0: none
  std::optional<WallTime> checkpoint_at{};  // when that one was first heard of
  int64_t steps_skipped = 0;   // of `step`: gradients too large for Float16 changed nothing
  int64_t steps_repeated = 0;  // that were taken and had to be taken again, as far as was heard
  std::vector<ModelProgress> models{};  // with strategy Independent, by rank; else empty
  WallTime observed_at{};

  friend bool operator==(const JobProgress&, const JobProgress&) = default;
};

// What a PriorityClass says of a gang. One that runs keeps it when the class is deleted, as pods
// keep theirs.
struct GrantedPriority {
  int64_t value = 0;
  bool is_preemptible = true;

  friend bool operator==(const GrantedPriority&, const GrantedPriority&) = default;
};

// What the pods of the running gang are made from, and in whose name they have their places. They
// are alike as long as they live: an edit of the manifest, or another version of the operator,
// makes itself felt in the next gang only.
struct GangOrigin {
  int64_t generation = 0;        // of the manifest
  std::string revision;          // of what the manifest says of its pods; see RevisionOf
  std::string runtime_image;     // the operator's own; empty: the cluster has none
  std::string queue{};           // whose share it has; empty: of a gang from before this was kept
  std::string priority_class{};  // with the queue; empty: it names none
  // What the class said then; null: of a gang from before this was kept.
  std::optional<GrantedPriority> priority{};
  // runPolicy.activeDeadlineSeconds as it was read last: it holds when the manifest cannot be read
  // any more.
  std::optional<std::chrono::seconds> active_deadline{};
  // What each pod was planned with, ports of the node included. It is held for those that are still
  // to come or have ended, whatever becomes of the manifest. Empty: as of `queue`.
  std::vector<RoleAmount> requests{};

  friend bool operator==(const GangOrigin&, const GangOrigin&) = default;
};

// The failure that was answered last. It outlives the pod and its log.
struct LastFailure {
  std::string pod;
  WallTime at;          // when it was answered
  std::string message;  // which pod, how it ended, and its last words
  std::string tail;     // the last lines of its output, at most 1,024 bytes; may be empty

  friend bool operator==(const LastFailure&, const LastFailure&) = default;
};

// Where a job that waits for its places stands in its queue.
struct QueuePosition {
  std::string name;                 // of the queue
  std::optional<int64_t> position;  // 1: the next; null: not in line, or not known yet
  // When it starts at the latest, if nothing comes that goes first; null: nobody knows.
  std::optional<WallTime> estimated_start;

  friend bool operator==(const QueuePosition&, const QueuePosition&) = default;
};

// The relaunches of an attempt (common/contract/environment/relaunch.h).
struct Relaunch {
  int64_t count = 0;
  std::optional<WallTime> since;  // the newest is under way since then; null: it is done
  WallTime told_at{};             // when pods were last told of that one
  bool is_halted = false;         // all programs have ended for it, and may start

  friend bool operator==(const Relaunch&, const Relaunch&) = default;
};

// The status of a job, in slices. A stage of a turn reads all of it and changes the slices that are
// its subject.

// What the job is, and since when.
struct LifecycleStatus {
  std::vector<Condition> conditions;  // each type at most once
  int64_t observed_generation = 0;
  // Of its first gang, since the start or the last resume; later by what it waited when others went
  // first.
  std::optional<WallTime> start_time{};
  std::chrono::seconds ran_before{0};  // with its places, until its last suspension
  std::optional<WallTime> completion_time{};

  friend bool operator==(const LifecycleStatus&, const LifecycleStatus&) = default;
};

// The gang that has places, or had them last.
struct PlacementStatus {
  Attempt attempt;
  std::vector<PodPlacement> placement;
  bool has_run = false;  // all pods of the gang that has this placement have run side by side
  GangOrigin origin{};   // of that gang
  // By which kube-scheduler places that gang (scheduling.k8s.io); empty: we do.
  std::string pod_group{};
  // What pods ask for since a LimitRange, a RuntimeClass or a webhook changed them, where that is
  // more than their template says. Each role's resource at most once.
  std::vector<RoleAmount> admitted{};

  friend bool operator==(const PlacementStatus&, const PlacementStatus&) = default;
};

// What counts while the job waits for places.
struct WaitingStatus {
  int64_t rollbacks = 0;  // gangs rolled back in a row: placed, but not all pods could start
  std::optional<WallTime> retry_at{};  // the gang is not placed again before
  // It wants a gang that runs since then; null while it has one, or wants none.
  std::optional<WallTime> waiting_since{};
  std::optional<WallTime> preempted_at{};    // waits since then for its place, at no cost
  int64_t preemptions = 0;                   // gangs of the job that went for others
  std::optional<RoomClaim> claim{};          // of a gang that waits for others to go; else null
  std::optional<QueuePosition> queue{};      // while it waits for its places; else null
  std::vector<SuspectNode> suspect_nodes{};  // by node; at most kSuspectNodesMax

  friend bool operator==(const WaitingStatus&, const WaitingStatus&) = default;
};

// What went wrong, and what of it counts.
struct FailureStatus {
  std::vector<RestartCount> restarts;  // each cause at most once, ordered by cause
  std::vector<Incident> incidents{};   // those that the budget still remembers, oldest first
  std::optional<LastFailure> last_failure{};
  int64_t quick_restarts = 0;  // gang restarts in a row, each soon after the gang ran

  friend bool operator==(const FailureStatus&, const FailureStatus&) = default;
};

// How the gang that has places goes on after a loss.
struct RecoveryStatus {
  Epoch epoch;
  Relaunch relaunch{};          // of the attempt that has this placement
  int64_t control_counter = 0;  // number of the last control message that was decided

  friend bool operator==(const RecoveryStatus&, const RecoveryStatus&) = default;
};

// How far its pods are.
struct ProgressStatus {
  std::vector<RoleCounts> roles;
  std::optional<JobProgress> progress{};
  std::optional<TestResult> result{};  // on the test split, once training has ended

  friend bool operator==(const ProgressStatus&, const ProgressStatus&) = default;
};

// What others were asked for, and gave.
struct ExternalStatus {
  std::optional<KueueAdmission> kueue;  // the share that its gangs have of Kueue; else null
  // What its gangs ask of autoscalers; null: it never did.
  std::optional<CapacityAsk> provisioning{};

  friend bool operator==(const ExternalStatus&, const ExternalStatus&) = default;
};

// What this version of the operator did not write, and writes back as it was read.
struct ForeignStatus {
  Json unknown{};                          // fields
  std::vector<Json> unknown_conditions{};  // of other types
  // Not null: the status as read, of which this version understands too little to go on. Only the
  // condition Stalled is changed in it.
  std::shared_ptr<const Json> unreadable{};

  friend bool operator==(const ForeignStatus&, const ForeignStatus&) = default;
};

// What the operator knows of a job between its turns. What people read in tables is derived from it
// when it is written (derived_status.h).
struct TrainingJobStatus : LifecycleStatus,
                           PlacementStatus,
                           WaitingStatus,
                           FailureStatus,
                           RecoveryStatus,
                           ProgressStatus,
                           ExternalStatus,
                           ForeignStatus {
  LOCKSTEP_DECLARE_VALUE_MEMBERS(TrainingJobStatus);

  friend bool operator==(const TrainingJobStatus&, const TrainingJobStatus&) = default;
};

struct TrainingJob {
  LOCKSTEP_DECLARE_VALUE_MEMBERS(TrainingJob);

  Metadata metadata;
  TrainingJobSpec spec;
  TrainingJobStatus status;
  // RevisionOf(spec), where whoever read the manifest has computed that; else empty. A template may
  // be a megabyte.
  std::string revision;

  // The role's spec; null when the job has no such role.
  const RoleSpec* FindRole(Role name) const;

  // Pods whose processes are ranks: chief and workers.
  int64_t RankPodCount() const;

  // Processes that are ranks: what WORLD_SIZE says.
  int64_t WorldSize() const;

  friend bool operator==(const TrainingJob&, const TrainingJob&) = default;
};

// The words of the manifest: "MultiWorkerMirrored", "ExitCode", "Running", "Succeeded", ...
std::string_view StrategyName(Strategy strategy);
std::string_view RestartPolicyName(RestartPolicy policy);
std::string_view CleanPodPolicyName(CleanPodPolicy policy);
std::string_view SuccessPolicyName(SuccessPolicy policy);
std::string_view PodBindingName(PodBinding binding);
std::string_view ConditionTypeName(ConditionType type);

}  // namespace lockstep::control
