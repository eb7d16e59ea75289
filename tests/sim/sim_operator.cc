#include "tests/sim/sim_operator.h"

#include <algorithm>
#include <utility>

#include "operator/controller/master_key.h"
#include "operator/kubeclient/kube/capacity_kinds.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/view/pods/foreign_pods.h"
#include "tests/sim/selector.h"
#include "tests/sim/work_count.h"

namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kOperatorNamespace = "lockstep-system";
constexpr int kRoundsMax = 12;  // of one moment: the rest of the world waits no longer
constexpr Duration kLeadRetry = milliseconds(500);

// Of one step, or one change of the watched world. Measured: 11 MB at most in what is honest, and
// 300 MB where ports of users are resources of nodes.
constexpr int64_t kWorkMax = 40'000'000;

kube::Selection OursIn(const kube::ResourceType& type) {
  return {type, "", "lockstep.dev/job", ""};
}

kube::LeaseOptions LeaseOf(const std::string& identity) {
  kube::LeaseOptions options;
  options.namespace_name = kOperatorNamespace;
  options.identity = identity;
  return options;
}

ControlLoopOptions LoopOptions(const SimContext& context) {
  ControlLoopOptions options;
  options.learns_run_times = context.learns_run_times;
  options.topology_levels = context.Levels();
  if (context.has_older_release) {
    options.namespaces = {kNamespace};
  }
  options.pods.runtime_image = "lockstep/runtime:1";
  options.pods.job_key_file = "/etc/lockstep/job-key";
  options.controller.progress_interval = seconds(5);
  options.controller.counts_interval = seconds(1);
  return options;
}

}  // namespace

template <typename T>
template <typename Take>
void SimWatch<T>::Run(bool is_reachable, const Take& take) {
  std::vector<kube::ObjectUpdate<T>> updates;
  if (!is_open_) {
    if (!next_.has_value()) {
      next_ = reflector_.NextRequest(context_->now);
    }
    if (next_->not_before > context_->now) {
      return;
    }
    is_open_ = true;
    if (!is_reachable) {
      End(kube::Fault{kube::FaultKind::kRefused, false, "nobody answers"}, &updates);
    } else {
      Open(&updates);
    }
  } else if (!is_reachable) {
    End(kube::Fault{kube::FaultKind::kReset, true, "the connection broke"}, &updates);
  } else {
    Feed(server_->ReadWatch(id_, 1 + context_->prng.Below(6)), &updates);
    if (is_open_ && context_->Happens(40)) {
      Feed(server_->Bookmark(id_), &updates);
    }
    if (is_open_ && (context_->Strikes(60) || ends_at_ <= context_->now)) {
      const bool is_clean = ends_at_ <= context_->now || context_->Happens(2);
      End(is_clean ? std::nullopt
                   : std::optional(kube::Fault{kube::FaultKind::kTruncated, true, "cut"}),
          &updates);
    }
  }
  for (const kube::ObjectUpdate<T>& update : updates) {
    take(update);
  }
}

template <typename T>
void SimWatch<T>::Open(std::vector<kube::ObjectUpdate<T>>* updates) {
  if (next_->request.verb == kube::Verb::kList) {
    const kube::Reply reply = server_->Handle(next_->request, context_->ServerTime());
    reflector_.OnStatus(reply.status);
    Feed(reply.body, updates);
    if (is_open_) {
      End(std::nullopt, updates);
    }
    return;
  }
  ApiServer::WatchStart start = server_->OpenWatch(next_->request);
  reflector_.OnStatus(start.reply.status);
  if (start.reply.status != 200) {
    Feed(start.reply.body, updates);
    if (is_open_) {
      End(std::nullopt, updates);
    }
    return;
  }
  id_ = start.id;
  ends_at_ = context_->now + context_->Between(seconds(30), seconds(600));
}

// In pieces; sometimes the connection ends in the middle of one.
template <typename T>
void SimWatch<T>::Feed(std::string bytes, std::vector<kube::ObjectUpdate<T>>* updates) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const std::size_t size = std::min<std::size_t>(rest.size(), 1 + context_->prng.Below(6000));
    const bool goes_on = reflector_.OnBytes(rest.substr(0, size), updates);
    rest.remove_prefix(size);
    if (!goes_on) {
      End(kube::Fault{kube::FaultKind::kCancelled, true, "ended by the reader"}, updates);
      return;
    }
    if (!rest.empty() && context_->Strikes(100)) {
      End(kube::Fault{kube::FaultKind::kTruncated, true, "cut"}, updates);
      return;
    }
  }
}

template <typename T>
void SimWatch<T>::End(std::optional<kube::Fault> fault,
                      std::vector<kube::ObjectUpdate<T>>* updates) {
  reflector_.OnEnd(fault, context_->now, updates);
  server_->CloseWatch(id_);
  id_ = 0;
  is_open_ = false;
  next_.reset();
}

SimOperator::SimOperator(Parts parts, std::string identity)
    : parts_(std::move(parts)),
      identity_(std::move(identity)),
      // No two calendars agree.
      wall_start_(parts_.context->ServerTime() +
                  milliseconds(static_cast<int64_t>(parts_.context->prng.Below(4000)) - 2000)),
      wall_at_start_(wall_start_),
      start_(parts_.context->now),
      network_({parts_.context,
                parts_.server,
                parts_.checks,
                parts_.interlude,
                [this] { return election_.leads_until(); }}),
      election_(LeaseOf(identity_), parts_.context->prng.Next()),
      loop_(LoopOptions(*parts_.context),
            {&network_, this, this, parts_.logger, nullptr, parts_.recorder.get()}),
      jobs_({kube::kTrainingJobs, "", "", ""}, DecodeStoredJob, parts_.context, parts_.server),
      pods_(OursIn(kube::kPods), kube::DecodePod, parts_.context, parts_.server),
      foreign_pods_({kube::kPods,
                     "",
                     "!lockstep.dev/job",
                     "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"},
                    DecodePodUse,
                    parts_.context,
                    parts_.server),
      nodes_({kube::kNodes, "", "", ""}, kube::DecodeNode, parts_.context, parts_.server),
      services_(OursIn(kube::kServices), kube::DecodeService, parts_.context, parts_.server),
      queues_(
          {kube::kTrainingQueues, "", "", ""}, DecodeStoredQueue, parts_.context, parts_.server),
      classes_(
          {kube::kPriorityClasses, "", "", ""}, DecodePriorityClass, parts_.context, parts_.server),
      provisioning_requests_(OursIn(kube::kProvisioningRequests),
                             DecodeProvisioningRequest,
                             parts_.context,
                             parts_.server),
      pod_templates_(
          OursIn(kube::kPodTemplates), DecodePodTemplateObject, parts_.context, parts_.server) {}

void SimOperator::Run() {
  if (is_running_ || is_dead() || frozen_until_ > parts_.context->now) {
    return;  // it waits for a call to return, is gone, or stopped
  }
  is_running_ = true;
  RunElection();
  if (!is_dead()) {
    RunWatches();
    RunReports();
    TryToLead();
    RunTurns();
  }
  is_running_ = false;
}

// What is asked and answered at once goes on at once.
void SimOperator::RunTurns() {
  if (parts_.context->has_older_release) {
    std::vector<OtherRelease> others;
    if (parts_.context->older_release.has_value()) {
      others.push_back({*parts_.context->older_release, {"elsewhere"}, /*is_older=*/true});
    }
    loop_.NoteReleases(std::move(others), parts_.context->now);
  }
  for (int i = 0; i < kRoundsMax && !is_dead(); ++i) {
    std::vector<kube::CallsAnswered> answers = network_.Run();
    if (is_dead() || (answers.empty() && i > 0)) {
      return;
    }
    for (kube::CallsAnswered& answered : answers) {
      loop_.Accept(std::move(answered));
    }
    const int64_t taken = BytesTaken();
    const std::vector<TurnReport> turns = loop_.Step(parts_.context->now);
    NoteWork(BytesTaken() - taken);
    for (const TurnReport& turn : turns) {
      parts_.context->Tell(identity_ + ": turn of " + turn.key.name + " is over");
    }
  }
}

void SimOperator::NoteWork(int64_t bytes) {
  parts_.context->work_max = std::max(parts_.context->work_max, bytes);
  parts_.checks->Require(bytes <= kWorkMax,
                         "one step of the controller takes " + std::to_string(bytes) +
                             " bytes from the heap: whatever users write, it is to take " +
                             std::to_string(kWorkMax) + " at most");
}

void SimOperator::RunElection() {
  SimContext* const context = parts_.context;
  if (election_at_ <= context->now) {
    const WallTime wall = wall_start_ + std::chrono::floor<milliseconds>(context->now - start_);
    const auto next = election_.NextRequest(context->now, wall);
    election_at_ = next.not_before;
    if (next.not_before <= context->now) {
      const TimePoint sent = context->now;
      const kube::CallResult result = network_.Exchange(next.request);
      election_.OnResult(result, sent, context->now);
    }
  }
  if (election_.role(context->now) == kube::LeaseRole::kLost) {
    context->Tell(identity_ + ": lost its lease and stands by");
    loop_.StandBy(context->now);
    election_.Rejoin();
  }
}

bool SimOperator::IsLeader() const {
  return !is_dead() && election_.role(parts_.context->now) == kube::LeaseRole::kLeader;
}

void SimOperator::RunWatches() {
  SimContext* const context = parts_.context;
  const auto run = [&](auto* watch) {
    if (!context->has_faults || !context->Happens(3)) {
      watch->Run(!network_.is_out, [&](const auto& update) {
        const int64_t taken = BytesTaken();
        loop_.Apply(WatchUpdate(update), context->now);
        NoteWork(BytesTaken() - taken);
      });
    }
  };
  run(&jobs_);
  run(&pods_);
  run(&foreign_pods_);
  run(&nodes_);
  run(&services_);
  if (context->has_queues) {
    run(&queues_);
    run(&classes_);
  }
  if (context->has_autoscaler) {
    run(&provisioning_requests_);
    run(&pod_templates_);
  }
}

void SimOperator::TryToLead() {
  const SimContext& context = *parts_.context;
  const bool has_synced =
      jobs_.has_synced() && pods_.has_synced() && foreign_pods_.has_synced() &&
      nodes_.has_synced() && services_.has_synced() &&
      (!context.has_queues || (queues_.has_synced() && classes_.has_synced())) &&
      (!context.has_autoscaler ||
       (provisioning_requests_.has_synced() && pod_templates_.has_synced()));
  if (loop_.is_leading() || !has_synced || !IsLeader() || lead_at_ > parts_.context->now) {
    return;
  }
  const Result<std::string> key = EnsureMasterKey(
      &network_, {kOperatorNamespace, "lockstep-operator-key"}, "0123456789abcdef0123456789abcdef");
  if (key.ok() && !is_dead()) {
    parts_.context->Tell(identity_ + ": leads");
    const Duration since_start = parts_.context->now - start_;
    loop_.Lead(*key,
               parts_.context->now,
               wall_at_start_ + std::chrono::floor<std::chrono::milliseconds>(since_start));
  } else {
    lead_at_ = parts_.context->now + kLeadRetry;
  }
}

ObjectPtr SimOperator::PodAt(const std::string& address) const {
  for (const auto& [key, pod] : parts_.server->store().Of(kube::kPods).objects) {
    if (TextAt(*pod, "status.podIP") == address) {
      return pod;
    }
  }
  return nullptr;
}

void SimOperator::RunReports() {
  SimContext* const context = parts_.context;
  for (ControlLoop::PollChange& change : loop_.TakePollChanges()) {
    std::vector<Poll>& polls = polls_[change.job];
    polls.clear();
    for (PollTarget& target : change.targets) {
      polls.push_back({std::move(target), context->now});
    }
  }
  for (auto& [job, polls] : polls_) {
    for (Poll& poll : polls) {
      if (poll.due > context->now) {
        continue;
      }
      poll.due = context->now + poll.target.interval;
      const ObjectPtr pod = PodAt(poll.target.address);
      if (pod == nullptr || context->Strikes(30)) {
        continue;
      }
      const kube::ObjectKey key{job.namespace_name, poll.target.pod};
      if (const auto document = parts_.processes->Report(UidOf(*pod))) {
        loop_.Accept({key, *document, context->now}, context->now);
      } else if (parts_.processes->IsClosed(UidOf(*pod))) {
        loop_.NoteClosed(key, context->now);
      }
    }
  }
}

void SimOperator::Stop() {
  const auto release = election_.Release(wall_start_);
  if (release.has_value() && !is_dead()) {
    network_.Exchange(*release);
  }
  network_.Die();
}

void SimOperator::OnStatus(const TrainingJobStatus& /*before*/, const TrainingJob& job) {
  parts_.context->Tell(identity_ + ": wrote the status of " + job.metadata.name + ", attempt " +
                       std::to_string(job.status.attempt.value()));
}

void SimOperator::OnEvents(const TrainingJob& job, const std::vector<Event>& events) {
  for (const Event& event : events) {
    parts_.context->Tell(identity_ + ": " + job.metadata.name + ": " + event.reason + ": " +
                         event.message);
  }
}

void SimOperator::OnMetrics(const std::vector<MetricDelta>& /*metrics*/) {}

void SimOperator::Send(const std::string& address,
                       const std::string& /*job_key*/,
                       const ControlMessage& message) {
  const ObjectPtr pod = PodAt(address);
  if (pod != nullptr && !parts_.context->Strikes(10)) {
    parts_.processes->Receive(UidOf(*pod), message);
  }
}

}  // namespace lockstep::control::sim
