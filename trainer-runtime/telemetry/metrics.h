#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/contract/status/status_document.h"
#include "trainer-runtime/devices/device.h"

namespace lockstep::runtime {

// Where the time of one step went.
struct StepDurations {
  Duration data = Duration::zero();         // waiting for the next batch
  Duration compute = Duration::zero();      // forward and backward
  Duration communicate = Duration::zero();  // all-reduce
  Duration update = Duration::zero();       // optimizer
};

// One completed step.
struct CompletedStep {
  Step step;
  int64_t data_epoch = 0;
  int64_t own_sample_count = 0;    // of the global batch, the part that this rank used
  double loss = 0;                 // of the global batch
  std::optional<double> accuracy;  // over the data epoch so far; absent where it means nothing
  std::optional<StepDurations> durations;  // of this rank; absent where nobody measures them
  bool is_skipped = false;  // the model is as it was: gradients were not finite in Float16
  double loss_scale = 1;    // of the next step; 1 but in Float16
};

// Why training had to meet again: the closed label set of lockstep_recoveries_total.
enum class RecoveryCause { kPeerClosed, kPeerSilent, kPeerReplaced, kCollectiveFailed };

// What became of a control message: the closed label set of lockstep_control_messages_total.
enum class ControlVerdict {
  kAccepted,
  kForged,     // not signed with the job's key
  kMalformed,  // signed, but not a message that we know
  kStale,      // heard before, or meant for another attempt or job
};

// How many peers are in each state.
struct PeerCounts {
  int connected = 0;
  int missing = 0;
  int lost = 0;
  int silent = 0;
};

PeerCounts CountPeers(const std::vector<PeerStatus>& peers);

// The numbers behind GET /metrics. Source: prometheus-cpp's registry and text format.
// Names end in their unit, label sets are closed, and no label holds a job's name: the scraper
// adds that. Counters move when the caller says that the fact happened. Thread: any.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void StepCompleted(const CompletedStep& step);

  void SetEpoch(Epoch epoch);
  void SetPeers(const PeerCounts& counts);

  // Training goes on after a broken meeting; `elapsed` from noticing the loss to the next step.
  void Recovered(RecoveryCause cause, Duration elapsed);

  // One checkpoint was written and is durable since `at`, or failed.
  void CheckpointWritten(Duration elapsed, WallTime at);
  void CheckpointFailed();

  // A control message came in, from whomever.
  void ControlMessageReceived(ControlVerdict verdict);

  // The page in Prometheus' text format, version 0.0.4.
  std::string RenderText() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

// How a pod's GPUs are used, in the same format: a page of its own, as GPUs are the pod's and not a
// process's. Empty of none. Pure.
std::string RenderGpuPage(const std::vector<GpuUse>& uses);

// What the pod's program tells of itself where it does so by name, likewise.
std::string RenderToldPage(const std::map<std::string, double>& metrics);

}  // namespace lockstep::runtime
