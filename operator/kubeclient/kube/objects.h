#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/base/value_members.h"
#include "operator/resources/resource_vector.h"
#include "operator/resources/toleration.h"

namespace lockstep::control::kube {

// The subset of Kubernetes' core/v1 objects that the deciding code reads and writes, as plain
// values.

struct ContainerSpec {
  std::string name;
  std::string image;                 // ignored where pods are processes
  std::vector<std::string> command;  // as in Kubernetes: replaces the image's entry point
  std::vector<std::string> args;     // appended to command
  std::map<std::string, std::string> env;
  std::string working_dir;  // empty: the image's, or the pod's own folder where pods are processes
  ResourceVector requests;
  ResourceVector limits;  // zero: no limit

  friend bool operator==(const ContainerSpec&, const ContainerSpec&) = default;
};

struct PodSpec {
  // Where it is bound, or is to be: the one node its affinity names. Empty: a scheduler chooses.
  std::string node_name;
  std::string hostname;
  std::string subdomain;
  ContainerSpec container;
  std::map<std::string, std::string> node_selector;
  std::string scheduler_name;  // empty: nobody says
  // Where rules stand that a scheduler must keep beside those about nodes:
  // "affinity.podAntiAffinity", "topologySpreadConstraints", "schedulingGates".
  std::set<std::string> hard_rules;
  std::string pod_group;  // by which kube-scheduler places it with others; empty: none
  std::chrono::seconds termination_grace{30};  // Kubernetes' own default

  friend bool operator==(const PodSpec&, const PodSpec&) = default;
};

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

// How the container ended, in the words of a kubelet.
struct ContainerTermination {
  int exit_code = 0;    // 128 + signal when a signal ended it
  int signal = 0;       // 0: ended by itself
  std::string reason;   // Completed, Error, OOMKilled, StartError
  std::string message;  // the termination message file, else the last log lines of a failure
  std::optional<WallTime> finished_at;  // by the clock of its node; absent where nobody says
  std::string container;                // whose end it is; empty where nobody says

  friend bool operator==(const ContainerTermination&, const ContainerTermination&) = default;
};

struct PodStatus {
  PodPhase phase = PodPhase::kPending;
  std::string reason;  // Evicted, UnexpectedAdmissionError, ...
  std::string message;
  std::string pod_ip;
  int64_t pid = 0;  // where pods are processes: the leader of the pod's process group; else 0
  std::optional<ContainerTermination> termination;
  bool is_unbound = false;  // no node has it yet
  // When it last came nearer to running, by the cluster's clock: it was bound, an init container
  // started or ended. Empty: it has not.
  std::optional<WallTime> progress_at;
  bool is_initializing = false;  // an init container that will end runs
  // Why the scheduler does not bind it: PodScheduled=False's message; empty otherwise.
  std::string unschedulable;
  // Why the container waits, where that is more than a moment's: ErrImagePull, ImagePullBackOff,
  // CreateContainerConfigError, ...; empty otherwise.
  std::string waiting_reason;
  std::string waiting_message;
  // Why Kubernetes takes the pod away: DisruptionTarget=True's reason, EvictionByEvictionAPI,
  // PreemptionByScheduler, TerminationByKubelet, ...; empty otherwise.
  std::string disruption;
  // Containers beside the pod's own that run on although that one has ended; empty otherwise.
  std::vector<std::string> open_containers;

  friend bool operator==(const PodStatus&, const PodStatus&) = default;
};

struct Pod {
  LOCKSTEP_DECLARE_VALUE_MEMBERS(Pod);

  std::string name;
  std::string namespace_name;
  std::string uid;  // given by the cluster at creation
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::string owner_uid;                 // of the controller; empty: none
  std::string owner_job;                 // its name, where it is a TrainingJob; else empty
  std::vector<std::string> finalizers;   // who keeps the object although its deletion was asked for
  bool is_deleting = false;              // deletion was asked for; the grace period runs
  std::optional<WallTime> deletion_due;  // when that is over, where the cluster says so
  std::optional<std::chrono::seconds> deletion_grace;  // as it was asked for last, likewise
  PodSpec spec;
  PodStatus status;

  friend bool operator==(const Pod&, const Pod&) = default;
};

struct Node {
  std::string name;
  std::map<std::string, std::string> labels;
  ResourceVector allocatable;
  int64_t pod_count_max = 0;  // allocatable pods; 0: not known, no limit
  std::vector<Taint> taints;
  bool is_schedulable = true;  // ready and not cordoned
  bool is_ready = true;        // its kubelet reports; false says nothing about what runs there

  friend bool operator==(const Node&, const Node&) = default;
};

// A headless service, as far as we look at ours.
struct Service {
  std::string owner_uid;  // as of a pod
  std::string owner_job;
  bool is_headless = false;
  bool publishes_not_ready = false;
  std::map<std::string, std::string> selector;

  friend bool operator==(const Service&, const Service&) = default;
};

// The phase as Kubernetes writes it: "Pending", "Running", ...
const char* PodPhaseName(PodPhase phase);

}  // namespace lockstep::control::kube
