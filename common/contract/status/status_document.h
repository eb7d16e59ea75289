#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/value_members.h"
#include "common/contract/environment/relaunch.h"
#include "common/contract/environment/topology.h"
#include "common/contract/status/checkpoint_status.h"
#include "common/contract/status/hang_evidence.h"
#include "common/contract/status/model_status.h"
#include "common/contract/training/training_result.h"

namespace lockstep {

// The answer to GET /status: what one process knows about itself and its peers.
inline constexpr int kStatusSchemaVersion = 1;
inline constexpr std::size_t kStatusBytesMax =
    4 * 1024 * 1024;  // choice: holds every list at its bound
inline constexpr std::size_t kStatusPeersMax = 16384;
inline constexpr std::size_t kStatusTimelineMax = 64;
inline constexpr std::size_t kStatusDevicesMax = 64;
inline constexpr std::size_t kStatusHistoryMax = 64;
inline constexpr std::size_t kStatusModelsMax = kModelsMax;
inline constexpr std::size_t kStatusTextBytesMax = 1024;  // of a text when written

enum class Phase {
  kStarting,
  kRendezvous,
  kRestoring,
  kTraining,
  kCheckpointing,
  kEvaluating,
  kStopping,
  kSucceeded,
  kFailed,
};

inline constexpr std::array<Phase, 9> kPhases = {Phase::kStarting,
                                                 Phase::kRendezvous,
                                                 Phase::kRestoring,
                                                 Phase::kTraining,
                                                 Phase::kCheckpointing,
                                                 Phase::kEvaluating,
                                                 Phase::kStopping,
                                                 Phase::kSucceeded,
                                                 Phase::kFailed};

std::string_view PhaseName(Phase phase);

enum class PeerState {
  kConnected,
  kMissing,  // has not come to this epoch's meeting yet
  kLost,     // its connection closed, or the operator says it is gone
  kSilent,   // connected, but nothing was heard for longer than it should take
};

inline constexpr std::array<PeerState, 4> kPeerStates = {
    PeerState::kConnected, PeerState::kMissing, PeerState::kLost, PeerState::kSilent};

std::string_view PeerStateName(PeerState state);

enum class TimelineEventKind {
  kProcessStart,
  kEngineReady,
  kRendezvousBegin,
  kRendezvousEnd,
  kStateReady,
  kFirstStep,  // the first step completed after a rendezvous
  kPeerLost,
  kCheckpointBegin,
  kCheckpointEnd,
  kStop,
};

inline constexpr std::array<TimelineEventKind, 10> kTimelineEventKinds = {
    TimelineEventKind::kProcessStart,
    TimelineEventKind::kEngineReady,
    TimelineEventKind::kRendezvousBegin,
    TimelineEventKind::kRendezvousEnd,
    TimelineEventKind::kStateReady,
    TimelineEventKind::kFirstStep,
    TimelineEventKind::kPeerLost,
    TimelineEventKind::kCheckpointBegin,
    TimelineEventKind::kCheckpointEnd,
    TimelineEventKind::kStop};

// "process_start", "engine_ready", ...
std::string_view TimelineEventName(TimelineEventKind kind);

struct PeerStatus {
  int rank = 0;
  Incarnation incarnation;
  PeerState state = PeerState::kMissing;
  std::string reason;         // empty while connected
  double silent_seconds = 0;  // since it was last heard; of one never heard, since it is waited for

  friend bool operator==(const PeerStatus&, const PeerStatus&) = default;
};

// Where the time of the last step went. Units: seconds.
struct StepPhaseSeconds {
  double data = 0;
  double compute = 0;
  double communicate = 0;
  double update = 0;

  friend bool operator==(const StepPhaseSeconds&, const StepPhaseSeconds&) = default;
};

// One GPU as the process sees it.
struct DeviceStatus {
  std::string uuid;
  std::string bus_id;            // PCI; empty where only the name is known
  std::vector<int> local_ranks;  // processes of this pod that use it; none: nobody was told to

  friend bool operator==(const DeviceStatus&, const DeviceStatus&) = default;
};

struct TimelineEvent {
  TimelineEventKind event = TimelineEventKind::kProcessStart;
  Epoch epoch;
  Step step;
  std::optional<int> rank;   // the peer an event is about
  int64_t monotonic_ns = 0;  // CLOCK_MONOTONIC: comparable between processes of one host

  friend bool operator==(const TimelineEvent&, const TimelineEvent&) = default;
};

struct StatusDocument {
  LOCKSTEP_DECLARE_VALUE_MEMBERS(StatusDocument);

  std::string job;
  std::string job_uid;
  std::string pod;
  TaskId task;
  std::optional<int> rank;
  int world_size = 1;
  Incarnation incarnation;
  Attempt attempt;
  Epoch epoch;
  int64_t pid = 0;
  Phase phase = Phase::kStarting;
  Step step;
  std::optional<int64_t> steps_total;  // absent until known, and for commands
  // Of `step`, those in which the model was left as it was: gradients were not finite in Float16.
  int64_t steps_skipped = 0;
  int64_t data_epoch = 0;
  std::optional<double> loss;  // absent before the first step, and when not a finite number
  std::optional<double> accuracy;
  double samples_per_second = 0;
  // Until `steps_total`, at the pace of its newest steps; absent where either is not known.
  std::optional<double> eta_seconds;
  std::vector<PeerStatus> peers;
  std::vector<DeviceStatus> devices;  // of this pod, in PCI order
  SampleCounts samples;
  std::optional<TestResult> result;  // present when training is done
  std::optional<Step> last_checkpoint_step;
  std::string checkpoint_directory;
  CheckpointStatus checkpoints;
  StepPhaseSeconds step_phase_seconds;
  std::string backend;  // what gradients are summed with; empty until known, and for commands
  std::string backend_detail;  // for people to read
  std::string backend_reason;  // why it is not NCCL, in a word; empty where it is not missed
  std::string mismatch;  // what ranks called differently since their newest meeting; empty: nothing
  std::vector<DataEpochResult> history;  // oldest first, the newest kStatusHistoryMax
  std::vector<TimelineEvent> timeline;   // oldest first, the newest kStatusTimelineMax
  // Of a pod whose processes each train a model of their own, those that hold a state, by rank; of
  // any other pod none.
  std::vector<ModelStatus> models;
  // Of its programs in this pod so far; absent where the pod ends with them.
  std::optional<int64_t> relaunches;
  std::optional<HeldEnd> held;  // the programs have ended, and the pod waits for the next relaunch
  // While no rank of the pod reports steps any more: where those stand that are known here, by two
  // looks. At most kEvidenceRanksMax.
  std::vector<RankEvidence> hang_evidence;

  friend bool operator==(const StatusDocument&, const StatusDocument&) = default;
};

// Compact JSON. Only the newest kStatusTimelineMax events and kStatusHistoryMax data epochs, the
// first kStatusPeersMax peers, kStatusDevicesMax devices, kStatusModelsMax models and
// kEvidenceRanksMax ranks of evidence are written, texts are cut, losses that are not finite become
// null, and times and rates that are not finite or are negative become 0.
std::string EncodeStatusDocument(const StatusDocument& document);

// Ignores unknown fields: pods of a later release may still run under an earlier operator. Wrong
// types, numbers out of range and lists above their bound are errors, each with its path. Errors:
// kInvalidArgument, kMismatch (another schema version), kResourceExhausted (longer than
// kStatusBytesMax).
Result<StatusDocument> DecodeStatusDocument(std::string_view text);

}  // namespace lockstep
