#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/time.h"
#include "common/contract/status/control_message.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {

// Done already when the name exists.
struct CreatePod {
  kube::Pod pod;

  friend bool operator==(const CreatePod&, const CreatePod&) = default;
};

// Done already when the name is gone or belongs to another uid.
struct DeletePod {
  std::string name;
  std::string uid;               // only this pod, never a later one of the same name; empty: any
  std::chrono::seconds grace{};  // zero kills at once
  std::string reason;            // for logs

  friend bool operator==(const DeletePod&, const DeletePod&) = default;
};

// Best effort: the receiver learns the same from its connections, only later.
struct SendControl {
  std::string pod;
  ControlMessage message;

  friend bool operator==(const SendControl&, const SendControl&) = default;
};

// The job's time to live has run out. A cluster without stored jobs ignores it.
struct DeleteJob {
  friend bool operator==(const DeleteJob&, const DeleteJob&) = default;
};

// The job's headless service and the secret with its key: there before the pods that need them.
// Done already when both are there and ours. A cluster of one machine needs neither.
struct PrepareJob {
  friend bool operator==(const PrepareJob&, const PrepareJob&) = default;
};

// The secret with the job's key, in case somebody has deleted it since the gang's first pods found
// it: a replacement does not start without. Best effort: no pod waits for it, and none fails with
// it. A cluster of one machine needs none.
struct RenewKey {
  friend bool operator==(const RenewKey&, const RenewKey&) = default;
};

// An object of the job by which others are told of it: Kueue's Workload, and what autoscalers look
// at, placeholder pods among it. Done already, but for a create, where it is gone or has changed
// since: it is looked at anew. A cluster of one machine has nobody to tell.
struct WriteObject {
  enum class Kind { kCreate, kPatch, kDelete };

  Kind kind = Kind::kCreate;
  kube::ResourceType resource;
  std::string name;
  std::string uid;   // only this one, of kPatch and kDelete
  std::string body;  // the object, or the merge patch of its status

  friend bool operator==(const WriteObject&, const WriteObject&) = default;
};

using Effect =
    std::variant<DeletePod, PrepareJob, RenewKey, CreatePod, SendControl, WriteObject, DeleteJob>;

// Effects are carried out phase after phase, those of one phase in any order or side by side.
enum class EffectPhase {
  kTell,      // control messages, which nobody waits for
  kMakeRoom,  // pods that still hold something go, and what new pods need is made
  kFillRoom,  // pods come; those that have ended and hold nothing go meanwhile
  kLeave,     // the job itself goes
};

inline constexpr EffectPhase kEffectPhases[] = {
    EffectPhase::kTell, EffectPhase::kMakeRoom, EffectPhase::kFillRoom, EffectPhase::kLeave};

// `pod_has_ended`: of a DeletePod, whether its pod has. The one table of this order, for every
// executor.
EffectPhase PhaseOf(const Effect& effect, bool pod_has_ended = false);

// "delete pod mnist-worker-1: ...": one line, for logs and test messages.
std::string DescribeEffect(const Effect& effect);

enum class EventType { kNormal, kWarning };

// Something that happened once, for people.
struct Event {
  EventType type = EventType::kNormal;
  std::string reason;  // one CamelCase word
  std::string message;

  friend bool operator==(const Event&, const Event&) = default;
};

enum class Metric {
  kGangsPlaced,      // lockstep_gangs_placed_total
  kRestarts,         // lockstep_restarts_total{cause}
  kRollbacks,        // lockstep_gang_rollbacks_total{reason}
  kJobsFinished,     // lockstep_jobs_finished_total{outcome}
  kPreemptions,      // lockstep_preemptions_total{queue,reason}
  kCapacityAsks,     // lockstep_capacity_asks_total{queue,class}
  kCapacityAnswers,  // lockstep_capacity_answers_total{queue,class,answer}
  kRefusedWrites,    // lockstep_refused_writes_total{what}
};

struct MetricDelta {
  Metric metric = Metric::kRestarts;
  std::string label;  // one of a closed set; may be empty
  int64_t count = 1;
  std::string queue{};      // of those that are counted by queue: the job's
  std::string ask_class{};  // of those of capacity: as the status names it

  friend bool operator==(const MetricDelta&, const MetricDelta&) = default;
};

// What one turn wants. The status is written first; effects are carried out, by phase, and
// events and metrics leave, only after that write was accepted.
struct Decision {
  TrainingJobStatus status;
  std::vector<Effect> effects;
  std::vector<Event> events;
  std::vector<MetricDelta> metrics;
  std::optional<WallTime> next_wakeup;  // look again then, even if nothing changes

  friend bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace lockstep::control
