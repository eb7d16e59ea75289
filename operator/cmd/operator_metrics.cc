#include "operator/cmd/operator_metrics.h"

#include <algorithm>
#include <map>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "operator/capacity/capacity_answer.h"
#include "operator/cmd/process_stats.h"
#include "operator/cmd/queue_metrics.h"
#include "operator/reconcile/failure/restart_cause.h"
#include "operator/reconcile/failure/start_problem.h"
#include "operator/scheduler/queue/queue_tree.h"

namespace lockstep::control {
namespace {

using Labels = std::map<std::string, std::string>;
using Buckets = prometheus::Histogram::BucketBoundaries;
using Counters = prometheus::Family<prometheus::Counter>;
using Gauges = prometheus::Family<prometheus::Gauge>;
using Histograms = prometheus::Family<prometheus::Histogram>;

const Labels kController = {{"controller", "trainingjob"}};
const Labels kQueue = {{"name", "trainingjob"}};

constexpr std::array<std::string_view, 8> kStates = {
    "Waiting", "Starting", "Running", "Restarting", "Suspended", "Stalled", "Succeeded", "Failed"};
constexpr std::array<std::string_view, 2> kPreemptionReasons = {"priority", "borrowed"};
constexpr std::array<std::string_view, 2> kOutcomes = {"succeeded", "failed"};
constexpr std::array<std::string_view, 4> kResults = {
    "success", "error", "requeue", "requeue_after"};
constexpr std::array<std::string_view, 5> kMethods = {"GET", "POST", "PUT", "PATCH", "DELETE"};
constexpr std::array<std::string_view, 5> kKinds = {
    "trainingjobs", "pods", "foreign_pods", "nodes", "services"};

// client-go's workqueue buckets: 10 ns, times ten, twelve of them.
Buckets QueueBuckets() {
  Buckets buckets;
  double bound = 1e-8;
  for (int i = 0; i < 12; ++i, bound *= 10) {
    buckets.push_back(bound);
  }
  return buckets;
}

// From a look at one job to a preemption among thousands.
Buckets RoundBuckets() {
  return {0.00001, 0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1};
}

// From one turn of a small job to a gang of thousands.
Buckets TurnBuckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
}

// From a free cluster to a queue of a day.
Buckets WaitBuckets() {
  return {0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14'400, 86'400};
}

// Fine around the second that a recovery may take, coarse to the minutes that it must not.
Buckets LaunchBuckets() {
  return {0.05, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30, 60, 300};
}

Counters& AddCounters(prometheus::Registry* registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(*registry);
}

Gauges& AddGauges(prometheus::Registry* registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry);
}

Histograms& AddHistograms(prometheus::Registry* registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry);
}

// Raises a counter to a total that somebody else keeps.
void RaiseTo(int64_t total, prometheus::Counter* counter) {
  const double missing = static_cast<double>(total) - counter->Value();
  if (missing > 0) {
    counter->Increment(missing);
  }
}

std::string_view ResultName(TurnResult result) {
  switch (result) {
    case TurnResult::kDone:
      return "success";
    case TurnResult::kWaiting:
      return "requeue_after";
    case TurnResult::kFailed:
      return "error";
  }
  return "error";
}

std::string CodeOf(const CallRecord& record) {
  return record.http_status == 0 ? "<error>" : std::to_string(record.http_status);
}

}  // namespace

struct OperatorMetrics::Families {
  Families(const std::string& api_host, const std::string& lease_name)
      : host(api_host), lease(lease_name) {}

  prometheus::Counter& CounterOf(const MetricDelta& delta);

  std::string host;
  std::string lease;
  prometheus::Registry registry;

  // controller-runtime's and client-go's names.
  Counters& turns = AddCounters(
      &registry, "controller_runtime_reconcile_total", "Reconciles of jobs, by result.");
  prometheus::Counter& turn_errors = AddCounters(&registry,
                                                 "controller_runtime_reconcile_errors_total",
                                                 "Reconciles that failed and are repeated.")
                                         .Add(kController);
  prometheus::Histogram& turn_time =
      AddHistograms(
          &registry, "controller_runtime_reconcile_time_seconds", "Duration of a reconcile.")
          .Add(kController, TurnBuckets());
  prometheus::Gauge& workers = AddGauges(&registry,
                                         "controller_runtime_max_concurrent_reconciles",
                                         "Maximum number of reconciles at the same time.")
                                   .Add(kController);
  prometheus::Gauge& depth =
      AddGauges(&registry, "workqueue_depth", "Jobs that wait for a reconcile.").Add(kQueue);
  prometheus::Counter& adds =
      AddCounters(&registry, "workqueue_adds_total", "Jobs that were queued for a reconcile.")
          .Add(kQueue);
  prometheus::Counter& retries =
      AddCounters(
          &registry, "workqueue_retries_total", "Jobs that were queued again after a failure.")
          .Add(kQueue);
  prometheus::Histogram& queued =
      AddHistograms(&registry,
                    "workqueue_queue_duration_seconds",
                    "Time that a job waits in the queue before its reconcile.")
          .Add(kQueue, QueueBuckets());
  prometheus::Histogram& worked = AddHistograms(&registry,
                                                "workqueue_work_duration_seconds",
                                                "Duration of the work on a job from the queue.")
                                      .Add(kQueue, QueueBuckets());
  Counters& calls = AddCounters(&registry,
                                "rest_client_requests_total",
                                "Calls to the API server, by method and HTTP status code.");
  Histograms& call_time =
      AddHistograms(&registry,
                    "rest_client_request_duration_seconds",
                    "Duration of calls to the API server; for a watch, the time until the response "
                    "header arrives.");
  prometheus::Counter& call_retries = AddCounters(&registry,
                                                  "rest_client_request_retries_total",
                                                  "Calls to the API server that were sent again.")
                                          .Add({{"host", host}});
  prometheus::Gauge& leading =
      AddGauges(&registry, "leader_election_master_status", "1 if this replica leads, else 0.")
          .Add({{"name", "lockstep-operator"}, {"lease", lease}});

  // Our own.
  Gauges& jobs = AddGauges(&registry, "lockstep_jobs", "Jobs, by state.");
  Histograms& gang_wait =
      AddHistograms(&registry,
                    "lockstep_gang_wait_seconds",
                    "Time from when a gang wants to run until all its pods are placed, by queue.");
  prometheus::Histogram& gang_launch =
      AddHistograms(&registry,
                    "lockstep_gang_launch_seconds",
                    "Time from when a gang is placed until all its pods run.")
          .Add({}, LaunchBuckets());
  prometheus::Histogram& gang_recovery =
      AddHistograms(
          &registry,
          "lockstep_gang_recovery_seconds",
          "Time from when the operator notices a failure in a running gang until all pods run "
          "again.")
          .Add({}, LaunchBuckets());
  prometheus::Counter& gangs_placed =
      AddCounters(&registry, "lockstep_gangs_placed_total", "Gangs whose pods were all placed.")
          .Add({});
  Counters& restarts =
      AddCounters(&registry, "lockstep_restarts_total", "Restarts of pods and gangs, by cause.");
  Counters& lost_seconds = AddCounters(
      &registry,
      "lockstep_lost_seconds_total",
      "Seconds for which broken gangs did not run, by the cause of their last failure.");
  Counters& rollbacks = AddCounters(
      &registry,
      "lockstep_gang_rollbacks_total",
      "Gangs that were placed but could not start all pods, by the reason of the rollback.");
  Counters& refused_writes =
      AddCounters(&registry,
                  "lockstep_refused_writes_total",
                  "Writes that the controller made for a job and the API server refused.");
  Counters& finished =
      AddCounters(&registry, "lockstep_jobs_finished_total", "Jobs that ended, by outcome.");
  Counters& preemptions = AddCounters(
      &registry,
      "lockstep_preemptions_total",
      "Gangs that were evicted for other gangs, by queue of the evicted gang and by reason.");
  Counters& capacity_asks = AddCounters(&registry,
                                        "lockstep_capacity_asks_total",
                                        "Requests to cluster autoscalers, by queue and class.");
  Counters& capacity_answers = AddCounters(
      &registry, "lockstep_capacity_answers_total", "Results of requests to cluster autoscalers.");
  Histograms& capacity_wait = AddHistograms(
      &registry,
      "lockstep_capacity_wait_seconds",
      "Time from a request to an autoscaler until the gang is placed, by queue and class.");
  prometheus::Counter& rounds =
      AddCounters(&registry, "lockstep_rounds_total", "Scheduling rounds.").Add({});
  prometheus::Histogram& round_time =
      AddHistograms(&registry, "lockstep_round_seconds", "Duration of a scheduling round.")
          .Add({}, RoundBuckets());
  Gauges& cache = AddGauges(
      &registry, "lockstep_cache_objects", "Objects that the operator keeps in memory, by kind.");
  Gauges& unreadable = AddGauges(&registry,
                                 "lockstep_unreadable_objects",
                                 "Objects that this version of the operator cannot read, by kind.");
  Gauges& missing_fields =
      AddGauges(&registry,
                "lockstep_crd_missing_fields",
                "Fields of this release that the CRD in the cluster lacks, by kind.");
  prometheus::Gauge& clock_offset =
      AddGauges(&registry,
                "lockstep_clock_offset_seconds",
                "Time of the operator's clock minus that of the API server's clock.")
          .Add({});
  prometheus::Counter& status_refused =
      AddCounters(&registry,
                  "lockstep_status_refused_total",
                  "Requests that pods rejected because of a wrong key or a clock difference.")
          .Add({});
  prometheus::Counter& events_dropped =
      AddCounters(&registry,
                  "lockstep_events_dropped_total",
                  "Events that were not written because too many were waiting.")
          .Add({});

  prometheus::Gauge& suspect_nodes =
      AddGauges(&registry,
                "lockstep_suspect_nodes",
                "Nodes that jobs avoid for a while, because pods could not start there.")
          .Add({});

  QueueMetrics queues{&registry};
  ProcessMetrics process{&registry};
};

OperatorMetrics::OperatorMetrics(const std::string& host, const std::string& lease)
    : families_(std::make_unique<Families>(host, lease)) {
  // Every series is there from the start, so that a rate over the first event is right.
  for (const std::string_view result : kResults) {
    Labels labels = kController;
    labels["result"] = result;
    families_->turns.Add(labels);
  }
  for (const std::string_view method : kMethods) {
    families_->calls.Add({{"method", std::string(method)}, {"code", "200"}, {"host", host}});
    families_->call_time.Add({{"verb", std::string(method)}, {"host", host}}, TurnBuckets());
  }
  for (const std::string_view state : kStates) {
    families_->jobs.Add({{"state", std::string(state)}});
  }
  for (const std::string_view cause : RestartCauses()) {
    families_->restarts.Add({{"cause", std::string(cause)}});
    families_->lost_seconds.Add({{"cause", std::string(cause)}});
  }
  for (const std::string_view reason : kRollbackReasons) {
    families_->rollbacks.Add({{"reason", std::string(reason)}});
  }
  for (const char* const what : {"status", "pod-deletion"}) {
    families_->refused_writes.Add({{"what", what}});
  }
  for (const std::string_view outcome : kOutcomes) {
    families_->finished.Add({{"outcome", std::string(outcome)}});
  }
  families_->gang_wait.Add({{"queue", kDefaultQueue}}, WaitBuckets());
  for (const std::string_view reason : kPreemptionReasons) {
    families_->preemptions.Add({{"queue", kDefaultQueue}, {"reason", std::string(reason)}});
  }
  AddCapacitySeries(kDefaultQueue);
  for (const std::string_view kind : kKinds) {
    families_->cache.Add({{"kind", std::string(kind)}});
  }
  SetUnreadable(0, 0);
  SetMissingFields("TrainingJob", 0);
  SetMissingFields("TrainingQueue", 0);
  families_->workers.Set(1);
  AddGauges(&families_->registry,
            "lockstep_build_info",
            "Always 1; the label is the version of the operator.")
      .Add({{"version", LOCKSTEP_VERSION}})
      .Set(1);
}

OperatorMetrics::~OperatorMetrics() = default;

void OperatorMetrics::AddCapacitySeries(const std::string& queue) {
  for (const std::string_view word : WordsOf(kProvisioningClassNames)) {
    Labels labels = {{"queue", queue}, {"class", std::string(word)}};
    families_->capacity_asks.Add(labels);
    families_->capacity_wait.Add(labels, WaitBuckets());
    for (const std::string_view answer : WordsOf(kCapacityAnswerNames)) {
      labels["answer"] = answer;
      families_->capacity_answers.Add(labels);
    }
  }
}

void OperatorMetrics::OnCall(const CallRecord& record) {
  const std::string method(record.method);
  families_->calls.Add({{"method", method}, {"code", CodeOf(record)}, {"host", families_->host}})
      .Increment();
  families_->call_time.Add({{"verb", method}, {"host", families_->host}}, TurnBuckets())
      .Observe(ToSeconds(record.duration));
  if (record.is_retry) {
    families_->call_retries.Increment();
  }
}

void OperatorMetrics::TurnDone(const TurnReport& turn) {
  const double taken = ToSeconds(turn.taken);
  Labels labels = kController;
  labels["result"] = ResultName(turn.result);
  families_->turns.Add(labels).Increment();
  if (turn.result == TurnResult::kFailed) {
    families_->turn_errors.Increment();
  }
  families_->turn_time.Observe(taken);
  families_->queued.Observe(ToSeconds(turn.waited));
  families_->worked.Observe(taken);
}

void OperatorMetrics::SetQueue(std::size_t depth, int64_t adds, int64_t retries) {
  families_->depth.Set(static_cast<double>(depth));
  RaiseTo(adds, &families_->adds);
  RaiseTo(retries, &families_->retries);
}

void OperatorMetrics::SetCache(const CacheCounts& counts) {
  const std::array<std::size_t, kKinds.size()> values = {
      counts.jobs, counts.pods, counts.foreign_pods, counts.nodes, counts.services};
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    families_->cache.Add({{"kind", std::string(kKinds[i])}}).Set(static_cast<double>(values[i]));
  }
}

void OperatorMetrics::SetUnreadable(std::size_t jobs, std::size_t queues) {
  families_->unreadable.Add({{"kind", "trainingjobs"}}).Set(static_cast<double>(jobs));
  families_->unreadable.Add({{"kind", "trainingqueues"}}).Set(static_cast<double>(queues));
}

void OperatorMetrics::SetMissingFields(const std::string& kind, std::size_t count) {
  families_->missing_fields.Add({{"kind", kind}}).Set(static_cast<double>(count));
}

void OperatorMetrics::SetClockOffset(Duration offset) {
  families_->clock_offset.Set(ToSeconds(offset));
}

void OperatorMetrics::SetLeading(bool is_leading) {
  families_->leading.Set(is_leading ? 1 : 0);
}

void OperatorMetrics::StatusRefused() {
  families_->status_refused.Increment();
}

void OperatorMetrics::SetEventsDropped(int64_t count) {
  RaiseTo(count, &families_->events_dropped);
}

void OperatorMetrics::SetJobs(const std::vector<std::string_view>& states) {
  for (const std::string_view state : kStates) {
    families_->jobs.Add({{"state", std::string(state)}})
        .Set(static_cast<double>(std::count(states.begin(), states.end(), state)));
  }
}

// Every queue that jobs may name has its histogram of waits from then on, so that the first gang
// counts.
void OperatorMetrics::SetQueues(const std::map<std::string, QueueStatus>& queues, WallTime now) {
  families_->queues.Set(queues, now);
  for (const auto& [name, status] : queues) {
    if (!status.has_queues_below) {
      families_->gang_wait.Add({{"queue", name}}, WaitBuckets());
    }
  }
}

void OperatorMetrics::SetSuspectNodes(std::size_t count) {
  families_->suspect_nodes.Set(static_cast<double>(count));
}

void OperatorMetrics::SetRounds(int64_t count) {
  RaiseTo(count, &families_->rounds);
}

void OperatorMetrics::Count(const MetricDelta& delta) {
  families_->CounterOf(delta).Increment(static_cast<double>(delta.count));
}

prometheus::Counter& OperatorMetrics::Families::CounterOf(const MetricDelta& delta) {
  switch (delta.metric) {
    case Metric::kGangsPlaced:
      return gangs_placed;
    case Metric::kRestarts:
      return restarts.Add({{"cause", delta.label}});
    case Metric::kRollbacks:
      return rollbacks.Add({{"reason", delta.label}});
    case Metric::kJobsFinished:
      return finished.Add({{"outcome", delta.label}});
    case Metric::kPreemptions:
      return preemptions.Add({{"queue", delta.queue}, {"reason", delta.label}});
    case Metric::kCapacityAsks:
      return capacity_asks.Add({{"queue", delta.queue}, {"class", delta.ask_class}});
    case Metric::kRefusedWrites:
      return refused_writes.Add({{"what", delta.label}});
    case Metric::kCapacityAnswers:
      break;
  }
  return capacity_answers.Add(
      {{"queue", delta.queue}, {"class", delta.ask_class}, {"answer", delta.label}});
}

void OperatorMetrics::RoundDone(Duration taken) {
  families_->round_time.Observe(ToSeconds(taken));
}

void OperatorMetrics::GangPlaced(const std::string& queue, Duration waited) {
  families_->gang_wait.Add({{"queue", queue}}, WaitBuckets()).Observe(ToSeconds(waited));
}

void OperatorMetrics::CapacityCame(const std::string& queue,
                                   ProvisioningClass ask_class,
                                   Duration waited) {
  families_->capacity_wait
      .Add({{"queue", queue}, {"class", std::string(NameOf(kProvisioningClassNames, ask_class))}},
           WaitBuckets())
      .Observe(ToSeconds(waited));
}

void OperatorMetrics::GangLaunched(Duration taken) {
  families_->gang_launch.Observe(ToSeconds(taken));
}

void OperatorMetrics::GangRecovered(const std::string& cause, Duration taken) {
  families_->gang_recovery.Observe(ToSeconds(taken));
  // A clock that was set back between the two conditions must not end the operator.
  families_->lost_seconds.Add({{"cause", cause}}).Increment(std::max(0.0, ToSeconds(taken)));
}

std::string OperatorMetrics::RenderText() {
  families_->process.Refresh();
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace lockstep::control
