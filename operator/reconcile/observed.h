#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/copy_on_write.h"
#include "common/base/time.h"
#include "common/contract/environment/topology.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/status_document.h"
#include "operator/api/job/training_job.h"
#include "operator/api/queue/training_queue.h"
#include "operator/capacity/sight/kueue_sight.h"
#include "operator/capacity/sight/native_sight.h"
#include "operator/capacity/sight/provisioning_sight.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/resources/node_usage.h"
#include "operator/scheduler/plan/plan.h"

namespace lockstep::control {

// The newest status document of one pod.
struct RuntimeReport {
  StatusDocument document;
  Duration age{};  // since it was received

  friend bool operator==(const RuntimeReport&, const RuntimeReport&) = default;
};

// The strictest Pod Security level of the namespaces that jobs live in. `baseline` asks for no
// field to be there; `restricted` does, and images that run as root do not start under it.
enum class PodSecurityLevel { kBaseline, kRestricted };

// What a cluster gives to every pod it starts: where things are inside a pod.
struct PodSettings {
  Addressing addressing = DnsAddressing{};
  std::string runtime_path = "lockstep-runtime";
  std::string job_directory;             // base of a relative checkpoint directory; empty: none
  std::string data_directory;            // base of relative data set paths; may be empty
  std::string job_key_file;              // may be empty
  std::string termination_message_file;  // empty: the cluster adds its own, or has none
  // Whether $(NAME) in the template is expanded here, as a kubelet would do it: nobody else will.
  bool expands_references = false;

  // Where pods are made of images:
  std::string runtime_image;              // the operator's own, of pods that name none
  std::string runtime_image_pull_policy;  // empty: Kubernetes' default
  std::vector<std::string> runtime_image_pull_secrets;  // Secrets in the job's namespace
  PodSecurityLevel pod_security = PodSecurityLevel::kBaseline;
  // Where the runtime is put into an image that is not ours; empty: `runtime_path` is in there.
  std::string install_directory;

  friend bool operator==(const PodSettings&, const PodSettings&) = default;
};

// What is at the name of the job's service.
enum class ServiceState {
  kNotNeeded,  // a cluster of one machine
  kMissing,    // not there, or changed by somebody
  kReady,      // there, ours, as we made it
  kForeign,    // somebody else's
};

// What others hold of the nodes: sums that all jobs' turns share, less what is the job's own.
struct UsedElsewhere {
  CopyOnWrite<UsageByNode> by_jobs;    // by pods of jobs, and places that they were promised
  CopyOnWrite<UsageByNode> by_others;  // by all other pods
  UsageByNode own;                     // the part of `by_jobs` that is this job's
  // What others have claims on, beside all that: those who go for them may hold it still.
  UsageByNode kept{};

  friend bool operator==(const UsedElsewhere&, const UsedElsewhere&) = default;
};

// The round has asked the job's gang to go: another one is to have its room.
struct EvictionOrder {
  std::string beneficiary;  // "namespace/name"
  int64_t priority = 0;     // the beneficiary's
  std::string queue;        // the beneficiary's
  bool is_reclaim = false;  // that is another queue than the job's own, which has borrowed the room

  friend bool operator==(const EvictionOrder&, const EvictionOrder&) = default;
};

// Why the cluster did not create a pod.
struct PodRefusal {
  std::string message;      // the server's words: a quota, an admission rule
  bool is_invalid = false;  // the server finds fault with what we built: no later try ends better
  int64_t count = 1;        // in a row
  WallTime at{};            // of the last

  friend bool operator==(const PodRefusal&, const PodRefusal&) = default;
};

// Pods of the attempt cannot have their ports any more, and those of the next get others. Only on
// one machine: elsewhere a pod has an address, and so all ports, of its own.
struct LostPorts {
  Attempt attempt;
  std::string sentence;  // who has which, and which ports come next

  friend bool operator==(const LostPorts&, const LostPorts&) = default;
};

// Everything a turn may know of the world outside the job itself. It may be out of date; it is
// never invented.
struct Observed {
  std::vector<kube::Pod> pods;  // at least all that carry the job's labels
  CopyOnWrite<std::vector<kube::Node>> nodes;
  std::vector<std::string> topology_levels;  // labels of nodes, from wide to narrow
  UsedElsewhere used_elsewhere;
  // By node, of those that the job is on: GPUs, by UUID, that pods of other jobs have reported.
  std::map<std::string, std::set<std::string>> devices_elsewhere;
  std::map<std::string, RuntimeReport> reports;  // by pod name
  std::set<std::string> closed_pods;  // by name: a moment ago nobody listened at their port
  std::map<std::string, TokenVerdict> refusing_pods;  // by name: they do not take our tokens
  // By name: they do not answer, and nothing but they can be the reason. Only known on one machine:
  // a cluster's operator cannot tell them from a network that fails.
  std::set<std::string> mute_pods;
  std::map<std::string, PodRefusal> refused_pods;  // by pod name; kept while that name is wanted
  std::optional<LostPorts> lost_ports;
  ServiceState service = ServiceState::kNotNeeded;
  // What the newest scheduling round says of a job without a place. Empty: there is none, as no
  // other job is there that it could be in the way of.
  std::optional<PlanResult> round;
  std::optional<QueuePosition> queue_position;  // of one without a place; empty: it has no queue
  QueueOrder queue_order = QueueOrder::kFifo;   // of that queue
  std::optional<RoomClaim> claim;         // what that round keeps for it until others have gone
  std::optional<EvictionOrder> eviction;  // of a job with places, which is to give them up
  // What its PriorityClass says of the gang; empty: there is none of that name, or nobody looks.
  std::optional<GrantedPriority> priority;
  std::string missing_class;  // which is not there, in words; empty: it is
  // Why its queue may not hold what the gang's pods ask for; empty: it may, or they ask for what
  // their templates say, or the gang has run.
  std::string quota_excess;
  // How long its queue lets it run, by the queue that its gang counts in; empty: for ever.
  std::optional<RunTimeLimit> run_time_limit;
  KueueSight kueue;
  ProvisioningSight provisioning;
  NativeSight native;
  PodSettings settings;
  std::string job_problem;       // why the stored manifest cannot be read; empty: it can
  bool is_job_newer = false;     // a newer version may read it (DecodedJob)
  bool is_job_deleting = false;  // somebody has deleted it, and finalizers keep it yet
  std::vector<std::string> job_finalizers{};
  bool is_status_foreign = false;  // its stored status says what we did not write
  bool is_one_machine = false;  // nobody else will make room: a gang that does not fit has failed

  friend bool operator==(const Observed&, const Observed&) = default;
};

}  // namespace lockstep::control
