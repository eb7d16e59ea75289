#include "trainer-runtime/telemetry/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace lockstep::runtime {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// From a toy network on one core to a large one: half a millisecond to half a minute.
const Buckets& StepBuckets() {
  static const Buckets kBuckets = {
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
  return kBuckets;
}

// Fine around the second that a recovery may take, coarse to the minutes that it must not.
const Buckets& RecoveryBuckets() {
  static const Buckets kBuckets = {0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 5, 10, 30, 60, 300};
  return kBuckets;
}

const Buckets& CheckpointBuckets() {
  static const Buckets kBuckets = {0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300};
  return kBuckets;
}

prometheus::Histogram& AddHistogram(prometheus::Registry* registry,
                                    const std::string& name,
                                    const std::string& help,
                                    const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry).Add({}, buckets);
}

prometheus::Counter& AddCounter(prometheus::Registry* registry,
                                const std::string& name,
                                const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(*registry).Add({});
}

prometheus::Gauge& AddGauge(prometheus::Registry* registry,
                            const std::string& name,
                            const std::string& help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry).Add({});
}

const char* CauseName(RecoveryCause cause) {
  switch (cause) {
    case RecoveryCause::kPeerClosed:
      return "peer_closed";
    case RecoveryCause::kPeerSilent:
      return "peer_silent";
    case RecoveryCause::kPeerReplaced:
      return "peer_replaced";
    case RecoveryCause::kCollectiveFailed:
      return "collective_failed";
  }
  return "collective_failed";
}

const char* VerdictName(ControlVerdict verdict) {
  switch (verdict) {
    case ControlVerdict::kAccepted:
      return "accepted";
    case ControlVerdict::kForged:
      return "forged";
    case ControlVerdict::kMalformed:
      return "malformed";
    case ControlVerdict::kStale:
      return "stale";
  }
  return "malformed";
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;

  prometheus::Histogram& step =
      AddHistogram(&registry, "lockstep_step_seconds", "Duration of one step.", StepBuckets());
  prometheus::Family<prometheus::Histogram>& step_phase =
      prometheus::BuildHistogram()
          .Name("lockstep_step_phase_seconds")
          .Help("Duration of one step by phase: data, compute, communicate, update.")
          .Register(registry);
  prometheus::Histogram& data = step_phase.Add({{"phase", "data"}}, StepBuckets());
  prometheus::Histogram& compute = step_phase.Add({{"phase", "compute"}}, StepBuckets());
  prometheus::Histogram& communicate = step_phase.Add({{"phase", "communicate"}}, StepBuckets());
  prometheus::Histogram& update = step_phase.Add({{"phase", "update"}}, StepBuckets());
  prometheus::Counter& samples = AddCounter(
      &registry, "lockstep_samples_total", "Samples that this rank used in completed steps.");
  prometheus::Gauge& loss =
      AddGauge(&registry, "lockstep_training_loss", "Loss of the last completed step.");
  prometheus::Counter& skipped = AddCounter(&registry,
                                            "lockstep_steps_skipped_total",
                                            "Completed steps that did not change the model, "
                                            "because gradients were not finite in Float16.");
  prometheus::Gauge& loss_scale = AddGauge(&registry,
                                           "lockstep_loss_scale_ratio",
                                           "Factor by which the loss of the next step is "
                                           "multiplied before backward; 1 except in Float16.");
  prometheus::Gauge& last_step = AddGauge(&registry,
                                          "lockstep_training_step",
                                          "Completed steps, including steps of earlier processes.");
  prometheus::Gauge& data_epoch =
      AddGauge(&registry, "lockstep_training_data_epoch", "Complete passes over the data.");
  prometheus::Gauge& accuracy = AddGauge(&registry,
                                         "lockstep_training_accuracy_ratio",
                                         "Accuracy of all ranks in the running data epoch so far.");
  prometheus::Gauge& epoch = AddGauge(
      &registry, "lockstep_rendezvous_epoch", "Number of the last rendezvous of all ranks.");
  prometheus::Family<prometheus::Gauge>& peers =
      prometheus::BuildGauge()
          .Name("lockstep_peers")
          .Help("Other ranks by state: connected, missing, lost, silent.")
          .Register(registry);
  prometheus::Gauge& peers_connected = peers.Add({{"state", "connected"}});
  prometheus::Gauge& peers_missing = peers.Add({{"state", "missing"}});
  prometheus::Gauge& peers_lost = peers.Add({{"state", "lost"}});
  prometheus::Gauge& peers_silent = peers.Add({{"state", "silent"}});
  prometheus::Family<prometheus::Counter>& recoveries =
      prometheus::BuildCounter()
          .Name("lockstep_recoveries_total")
          .Help("Recoveries: failures after which training continued, by cause.")
          .Register(registry);
  prometheus::Histogram& recovery =
      AddHistogram(&registry,
                   "lockstep_recovery_seconds",
                   "Time from noticing a failure to the next completed step.",
                   RecoveryBuckets());
  prometheus::Histogram& checkpoint =
      AddHistogram(&registry,
                   "lockstep_checkpoint_seconds",
                   "Time to write one checkpoint until it is durable.",
                   CheckpointBuckets());
  // Absent until there is one.
  prometheus::Family<prometheus::Gauge>& last_checkpoint =
      prometheus::BuildGauge()
          .Name("lockstep_last_checkpoint_timestamp_seconds")
          .Help("Time when this process last made a checkpoint durable, in seconds since 1970.")
          .Register(registry);
  prometheus::Counter& checkpoint_failures = AddCounter(
      &registry, "lockstep_checkpoint_failures_total", "Checkpoints that could not be written.");
  prometheus::Family<prometheus::Counter>& control_messages =
      prometheus::BuildCounter()
          .Name("lockstep_control_messages_total")
          .Help("Control messages received, by result: accepted, forged, malformed, stale.")
          .Register(registry);

  void Observe(const StepDurations& durations) {
    data.Observe(ToSeconds(durations.data));
    compute.Observe(ToSeconds(durations.compute));
    communicate.Observe(ToSeconds(durations.communicate));
    update.Observe(ToSeconds(durations.update));
    step.Observe(
        ToSeconds(durations.data + durations.compute + durations.communicate + durations.update));
  }
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {
  // Every series is there from the start, so that a rate over the first event is right.
  for (const RecoveryCause cause : {RecoveryCause::kPeerClosed,
                                    RecoveryCause::kPeerSilent,
                                    RecoveryCause::kPeerReplaced,
                                    RecoveryCause::kCollectiveFailed}) {
    families_->recoveries.Add({{"cause", CauseName(cause)}});
  }
  for (const ControlVerdict verdict : {ControlVerdict::kAccepted,
                                       ControlVerdict::kForged,
                                       ControlVerdict::kMalformed,
                                       ControlVerdict::kStale}) {
    families_->control_messages.Add({{"verdict", VerdictName(verdict)}});
  }
  prometheus::BuildGauge()
      .Name("lockstep_build_info")
      .Help("Always 1; the label holds the version of the runtime.")
      .Register(families_->registry)
      .Add({{"version", LOCKSTEP_VERSION}})
      .Set(1);
}

Metrics::~Metrics() = default;

void Metrics::StepCompleted(const CompletedStep& step) {
  if (step.durations.has_value()) {
    families_->Observe(*step.durations);
  }
  families_->samples.Increment(static_cast<double>(step.own_sample_count));
  families_->loss.Set(step.loss);
  families_->skipped.Increment(step.is_skipped ? 1 : 0);
  families_->loss_scale.Set(step.loss_scale);
  families_->last_step.Set(static_cast<double>(step.step.value()));
  families_->data_epoch.Set(static_cast<double>(step.data_epoch));
  if (step.accuracy.has_value()) {
    families_->accuracy.Set(*step.accuracy);
  }
}

void Metrics::SetEpoch(Epoch epoch) {
  families_->epoch.Set(static_cast<double>(epoch.value()));
}

PeerCounts CountPeers(const std::vector<PeerStatus>& peers) {
  PeerCounts counts;
  for (const PeerStatus& peer : peers) {
    counts.connected += peer.state == PeerState::kConnected ? 1 : 0;
    counts.missing += peer.state == PeerState::kMissing ? 1 : 0;
    counts.lost += peer.state == PeerState::kLost ? 1 : 0;
    counts.silent += peer.state == PeerState::kSilent ? 1 : 0;
  }
  return counts;
}

void Metrics::SetPeers(const PeerCounts& counts) {
  families_->peers_connected.Set(counts.connected);
  families_->peers_missing.Set(counts.missing);
  families_->peers_lost.Set(counts.lost);
  families_->peers_silent.Set(counts.silent);
}

void Metrics::Recovered(RecoveryCause cause, Duration elapsed) {
  families_->recoveries.Add({{"cause", CauseName(cause)}}).Increment();
  families_->recovery.Observe(ToSeconds(elapsed));
}

void Metrics::CheckpointWritten(Duration elapsed, WallTime at) {
  families_->checkpoint.Observe(ToSeconds(elapsed));
  families_->last_checkpoint.Add({}).Set(ToSeconds(at.time_since_epoch()));
}

void Metrics::CheckpointFailed() {
  families_->checkpoint_failures.Increment();
}

void Metrics::ControlMessageReceived(ControlVerdict verdict) {
  families_->control_messages.Add({{"verdict", VerdictName(verdict)}}).Increment();
}

std::string Metrics::RenderText() const {
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

std::string RenderGpuPage(const std::vector<GpuUse>& uses) {
  prometheus::Registry registry;
  auto& busy = prometheus::BuildGauge()
                   .Name("lockstep_gpu_busy_ratio")
                   .Help("Part of the driver's last sample period in which the GPU computed.")
                   .Register(registry);
  auto& memory = prometheus::BuildGauge()
                     .Name("lockstep_gpu_memory_bytes")
                     .Help("Memory of the GPU that is in use, by any process.")
                     .Register(registry);
  for (const GpuUse& use : uses) {
    if (use.busy_ratio.has_value()) {
      busy.Add({{"uuid", use.uuid}}).Set(*use.busy_ratio);
    }
    if (use.memory_bytes.has_value()) {
      memory.Add({{"uuid", use.uuid}}).Set(static_cast<double>(*use.memory_bytes));
    }
  }
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

std::string RenderToldPage(const std::map<std::string, double>& metrics) {
  prometheus::Registry registry;
  auto& told = prometheus::BuildGauge()
                   .Name("lockstep_told_metric")
                   .Help("Newest number that the program reported under this name.")
                   .Register(registry);
  for (const auto& [name, value] : metrics) {
    told.Add({{"name", name}}).Set(value);
  }
  return metrics.empty() ? "" : prometheus::TextSerializer().Serialize(registry.Collect());
}

}  // namespace lockstep::runtime
