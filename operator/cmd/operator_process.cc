#include "operator/cmd/operator_process.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <poll.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "common/base/digest.h"
#include "common/contract/environment/topology.h"
#include "operator/cmd/control_post.h"
#include "operator/cmd/event_sender.h"
#include "operator/cmd/health_server.h"
#include "operator/cmd/operator_publisher.h"
#include "operator/cmd/other_operators.h"
#include "operator/cmd/rights_probe.h"
#include "operator/cmd/watches.h"
#include "operator/cmd/work_loop.h"
#include "operator/controller/master_key.h"
#include "operator/kubeclient/api_client/api_client.h"
#include "operator/kubeclient/api_client/lease_driver.h"
#include "operator/kubeclient/credentials/api_access.h"
#include "operator/kubeclient/credentials/rotating_credentials.h"
#include "operator/kubeclient/transport/make_transport.h"
#include "operator/reconcile/pods/pod_manifest.h"
#include "operator/round_log/round_log_file.h"
#include "operator/round_log/round_log_writer.h"

namespace lockstep::control {
namespace {

// Updates that may wait for the controller's thread before sockets are left alone. Choice: a list
// of 10,000 pods comes in a few hundred pieces.
constexpr std::size_t kUpdatesWaitingMax = 4096;

// The controller's thread waits for nothing but the master key: three calls, of which each may be
// sent for kPrepareTime, and then take its own time and a margin: less than 110 s. Choice.
constexpr Duration kTurnTimeMax = std::chrono::minutes(3);
constexpr Duration kPrepareTime = std::chrono::seconds(10);
constexpr Duration kPrepareCallTime = std::chrono::seconds(20);
constexpr std::size_t kStatusBodyMax = 4 * 1024 * 1024;
constexpr Duration kPollIntervalMax = std::chrono::seconds(15);  // of pods that never answer

// Choice: events tell of what has happened, so they must not compete with what is to happen.
constexpr int kEventsAtOnce = 2;
constexpr Duration kEventTime = std::chrono::seconds(5);  // one write; the end waits for the last
constexpr int kPreparedAtOnce = 2;  // choice: a handful of calls in ten seconds

constexpr Duration kReleaseTimeout = std::chrono::seconds(3);
constexpr Duration kStopTimeout = std::chrono::seconds(25);  // within a pod's grace of 30 s
constexpr Duration kProgressInterval = std::chrono::seconds(5);
constexpr Duration kCountsInterval = std::chrono::seconds(1);
constexpr Duration kWordsInterval = std::chrono::seconds(10);  // choice: nobody waits for a figure

constexpr int kExitFailed = 1;

const SystemClock kClock;

std::string EnvironmentOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// Of WorkLoopOptions::look_around. Looks for other operators have their own numbers as tickets.
kube::CallTicket LookTicket(int64_t look) {
  return kube::CallTicket(-look);
}

// At the first look, and then every half minute: a reply has some 200 KB.
bool LooksAtSchema(int64_t look) {
  return look % 3 == 1;
}

// The namespace whose jobs are served; empty when there is more than one.
std::string ServedNamespace(const OperatorFlags& flags) {
  return flags.namespaces.size() == 1 ? flags.namespaces.front() : "";
}

}  // namespace

// Everything, in the order in which it is started; the opposite is that in which it ends.
class OperatorProcess::Parts {
 public:
  explicit Parts(Logger* logger) : logger_(logger), queue_(kUpdatesWaitingMax) {}

  ~Parts() { Stop(); }

  Status Start(const OperatorFlags& flags, const OperatorIdentity& identity);
  void Stop();

 private:
  Status Connect(const OperatorFlags& flags);
  void Identify(const OperatorFlags& flags, const OperatorIdentity& identity);
  Status KeepRounds(const OperatorFlags& flags);
  Status Elect(const OperatorFlags& flags, const OperatorIdentity& identity);
  void Watch(const OperatorFlags& flags);
  void StartWork(const OperatorFlags& flags);
  void Prepare(ApiClientOptions api, const OperatorFlags& flags);
  Status Serve(const std::string& address);
  Status TroubleOf(const std::string& check);
  OperatorScope ScopeOf(const OperatorFlags& flags) const;

  Logger* logger_;
  std::string namespace_name_;
  std::atomic<bool> is_superfluous_{false};  // another release serves the same jobs
  std::mutex troubles_mutex_;
  std::map<std::string, std::string> troubles_;  // by the name of the check; guarded by that
  kube::EventSubject self_;                      // what Events about this operator are about
  bool is_stopped_ = false;
  const ServedSchema schema_;
  ServerClock server_clock_;
  WorkQueueOfUpdates queue_;
  std::optional<OperatorMetrics> metrics_;
  std::unique_ptr<RotatingCredentials> credentials_;
  std::unique_ptr<Transport> transport_;
  std::optional<LeaseDriver> lease_;
  std::unique_ptr<ApiClient> api_;
  std::unique_ptr<ApiClient> prepare_api_;  // of who is about to lead
  std::unique_ptr<ApiClient> events_api_;
  std::optional<HttpClient> pods_client_;
  std::optional<ControlPost> control_;
  std::optional<EventSender> events_;
  std::optional<OperatorPublisher> publisher_;
  std::optional<RoundLogFile> round_log_file_;
  std::optional<RoundLogWriter> round_log_;
  std::optional<ControlLoop> loop_;
  std::optional<Watches> watches_;
  std::optional<StatusPoller> poller_;
  std::optional<WorkLoop> work_;
  std::unique_ptr<HealthServer> server_;
};

Status OperatorProcess::Parts::Start(const OperatorFlags& flags, const OperatorIdentity& identity) {
  LOCKSTEP_RETURN_IF_ERROR(Connect(flags));
  Identify(flags, identity);
  ApiClientOptions api;
  api.calls.transport = transport_.get();
  api.calls.credentials = credentials_.get();
  api.calls.clock = &kClock;
  api.calls.observer = &*metrics_;
  api.calls.parallel_max = flags.api_concurrency;
  if (flags.leader_elect) {
    api.calls.leads_until = [this] { return lease_ ? lease_->leads_until() : TimePoint{}; };
    api.calls.write_timeout = std::min<Duration>(api.calls.write_timeout, flags.renew_deadline / 2);
  }
  api.on_answers = [this](kube::CallsAnswered answered) {
    queue_.Push(WorkMessage(std::move(answered)));
  };
  api_ = std::make_unique<ApiClient>(api);
  Prepare(api, flags);
  api.calls.parallel_max = kEventsAtOnce;
  api.calls.leads_until = nullptr;  // what they tell of has happened, whoever leads now
  api.calls.write_timeout_max = kEventTime;
  events_api_ = std::make_unique<ApiClient>(std::move(api));
  pods_client_.emplace(kStatusBodyMax);
  control_.emplace(&*pods_client_, logger_);
  EventSenderOptions events;
  events.api = events_api_.get();
  events.clock = &kClock;
  events.logger = logger_;
  events.recorder.reporting_instance =
      identity.pod_name.empty() ? "lockstep-operator" : identity.pod_name;
  events_.emplace(std::move(events));
  publisher_.emplace(&*events_, &*metrics_, logger_);
  ControlLoopOptions loop;
  loop.pods = SettingsForImages({flags.runtime_image,
                                 flags.image_pull_policy,
                                 flags.cluster_domain,
                                 "",
                                 flags.image_pull_secrets,
                                 flags.pod_security});
  loop.namespaces = {flags.namespaces.begin(), flags.namespaces.end()};
  loop.topology_levels = flags.topology_levels;
  loop.half_life = flags.fair_share_half_life;
  loop.learns_run_times = flags.learns_run_times;
  loop.binds_natively = flags.binds_natively;
  loop.controller.progress_interval = kProgressInterval;
  loop.controller.counts_interval = kCountsInterval;
  loop.controller.words_interval = kWordsInterval;
  loop.calls_of_job_max = 2 * static_cast<std::size_t>(flags.api_concurrency);
  LOCKSTEP_RETURN_IF_ERROR(KeepRounds(flags));
  loop_.emplace(std::move(loop),
                ControlLoopParts{api_.get(),
                                 &*control_,
                                 &*publisher_,
                                 logger_,
                                 &kClock,
                                 round_log_ ? &*round_log_ : nullptr});
  Watch(flags);
  LOCKSTEP_RETURN_IF_ERROR(Elect(flags, identity));
  StatusPollerOptions poller;
  poller.interval_max = kPollIntervalMax;
  poller.clock = &kClock;
  poller_.emplace(poller, &*pods_client_, [this](StatusAnswer answer) {
    queue_.Push(WorkMessage(std::move(answer)));
  });
  StartWork(flags);
  return Serve(flags.metrics_address);
}

// Where this operator's own objects are, and what Events about itself are about.
void OperatorProcess::Parts::Identify(const OperatorFlags& flags,
                                      const OperatorIdentity& identity) {
  if (!identity.namespace_name.empty()) {
    namespace_name_ = identity.namespace_name;
  }
  if (!flags.lease_namespace.empty()) {
    namespace_name_ = flags.lease_namespace;
  }
  self_ = identity.pod_name.empty()
              ? kube::EventSubject{"coordination.k8s.io/v1",
                                   "Lease",
                                   namespace_name_,
                                   flags.lease_name,
                                   ""}
              : kube::EventSubject{
                    "v1", "Pod", identity.namespace_name, identity.pod_name, identity.pod_uid};
}

Status OperatorProcess::Parts::KeepRounds(const OperatorFlags& flags) {
  if (flags.round_log.empty()) {
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(round_log_file_, RoundLogFile::Create(flags.round_log));
  RoundLogWriter::Options options;
  options.levels = flags.topology_levels;
  options.bytes_max = static_cast<std::size_t>(flags.round_log_mib) << 20U;
  options.write = [this](std::string_view text) { return round_log_file_->Write(text); };
  options.on_stop = [this, file = flags.round_log](const std::string& why) {
    logger_->Warn("scheduling rounds are no longer recorded", {{"file", file}, {"why", why}});
  };
  round_log_.emplace(std::move(options));
  return OkStatus();
}

void OperatorProcess::Parts::StartWork(const OperatorFlags& flags) {
  WorkLoopOptions work;
  work.queue = &queue_;
  work.poller = &*poller_;
  work.metrics = &*metrics_;
  work.loop = &*loop_;
  work.clock = &kClock;
  work.server_clock = &server_clock_;
  work.logger = logger_;
  work.has_synced = [this] { return watches_->HasSynced(); };
  work.follow_pod_groups = [this](const kube::PodGroupsFound& found) {
    watches_->FollowPodGroups(found);
  };
  work.look_for_others = [this, scope = ScopeOf(flags)](int64_t look) {
    prepare_api_->StartCalls(kube::CallTicket(look), "", LookForOthers(scope));
  };
  work.judge_others = [scope = ScopeOf(flags), sights = LeaseSights()](
                          const std::vector<kube::CallResult>& answers) mutable {
    return JudgeOthers(answers, scope, kClock.Now(), &sights);
  };
  work.tell_way = [this](bool gives_way, bool is_superfluous) {
    is_superfluous_ = is_superfluous;
    if (lease_) {
      lease_->Annotate(kGivesWayAnnotation, gives_way ? "true" : "");
    }
  };
  work.writes_end = flags.renew_deadline / 2;
  work.find_master_key = [this, secret = flags.key_secret] {
    return EnsureMasterKey(prepare_api_.get(), {namespace_name_, secret}, RandomHex(32));
  };
  work.look_around = [this, flags](int64_t look) {
    std::vector<kube::Request> requests = ProbeRights(ServedNamespace(flags));
    for (kube::Request& request : ProbeNamespaces(flags.namespaces)) {
      requests.push_back(std::move(request));
    }
    if (LooksAtSchema(look)) {
      requests.push_back(ServedSchema::Ask());
    }
    requests.push_back(ReadMasterKey({namespace_name_, flags.key_secret}));
    prepare_api_->StartCalls(LookTicket(look), "", std::move(requests));
  };
  work.keep_master_key = [this, secret = flags.key_secret](const std::string& found,
                                                           const std::string& held) {
    const MasterKeyPlace place{namespace_name_, secret};
    return found.empty() ? PutBackMasterKey(prepare_api_.get(), place, held)
                         : CompareMasterKey(found, held, place);
  };
  work.tell_trouble = [this](const std::string& check, const std::string& why) {
    const std::lock_guard lock(troubles_mutex_);
    troubles_[check] = why;
  };
  work.send_event = [this](kube::EventText event) { events_->Send(self_, std::move(event)); };
  work.on_stand_by = [this] { lease_->Rejoin(); };
  work_.emplace(std::move(work));
}

// Calls that are not the controller's: so that they never wait long, and their answers come apart.
void OperatorProcess::Parts::Prepare(ApiClientOptions api, const OperatorFlags& flags) {
  api.calls.parallel_max = kPreparedAtOnce;
  api.calls.total_timeout = kPrepareTime;
  api.calls.read_timeout = kPrepareCallTime;
  api.calls.write_timeout_max = kPrepareCallTime;
  const MasterKeyPlace key{namespace_name_, flags.key_secret};
  api.on_answers = [this, key](const kube::CallsAnswered& answered) {
    if (const int64_t look = -answered.ticket.value(); look > 0) {
      std::vector<kube::CallResult> probes = answered.results;
      probes.pop_back();
      if (LooksAtSchema(look)) {
        queue_.Push(SchemaSeen{schema_.Judge(probes.back())});
        probes.pop_back();
      }
      queue_.Push(RightsSeen{JudgeRights(std::move(probes))});
      queue_.Push(MasterKeySeen{look, MasterKeyIn(answered.results.back(), key)});
      return;
    }
    queue_.Push(OthersSeen{answered.ticket.value(), answered.results});
  };
  prepare_api_ = std::make_unique<ApiClient>(std::move(api));
}

// As the work loop told last.
Status OperatorProcess::Parts::TroubleOf(const std::string& check) {
  const std::lock_guard lock(troubles_mutex_);
  const auto found = troubles_.find(check);
  return found == troubles_.end() || found->second.empty()
             ? OkStatus()
             : Status(Error(ErrorCode::kUnavailable, found->second));
}

// Last, because the checks look at everything; a moment later than its first start at most.
Status OperatorProcess::Parts::Serve(const std::string& address) {
  if (address.empty()) {
    return OkStatus();
  }
  auto host_port = ParseHostPort(address);
  if (!host_port.ok()) {
    return std::move(host_port).error().Wrap("--metrics-address");
  }
  HealthServerOptions options;
  options.bind_address = host_port->host;
  options.port = host_port->port;
  options.logger = logger_;
  options.metrics = [this] {
    metrics_->SetEventsDropped(events_->dropped());
    return metrics_->RenderText();
  };
  options.live["work-loop"] = [this] {
    return kClock.Now() - work_->last_turn() < kTurnTimeMax
               ? OkStatus()
               : Status(Error(ErrorCode::kTimeout, "the operator's work loop does not respond"));
  };
  options.ready["sole"] = [this] {
    return is_superfluous_
               ? Status(Error(ErrorCode::kAborted, "another operator serves the same namespaces"))
               : OkStatus();
  };
  options.ready[kCanLeadCheck] = [this] {
    std::string why = lease_ ? lease_->refusal() : "";
    return why.empty() ? TroubleOf(kCanLeadCheck) : Status(Error(ErrorCode::kUnavailable, why));
  };
  for (const char* const check : {kRightsCheck, kSchemaCheck, kClockCheck, kStatusCheck}) {
    options.ready[check] = [this, check] { return TroubleOf(check); };
  }
  watches_->AddChecks(&options.ready);
  LOCKSTEP_ASSIGN_OR_RETURN(server_, HealthServer::Start(std::move(options)));
  return OkStatus();
}

Status OperatorProcess::Parts::Connect(const OperatorFlags& flags) {
  ApiAccessOptions options;
  options.kubeconfig = flags.kubeconfig;
  options.context = flags.context;
  options.environment = EnvironmentOf;
  LOCKSTEP_ASSIGN_OR_RETURN(ApiAccess access, FindApiAccess(options));
  namespace_name_ = access.namespace_name.empty() ? "default" : access.namespace_name;
  logger_->Info("connecting", {{"server", access.endpoint.Url()}, {"by", access.source}});
  metrics_.emplace(access.endpoint.host + ":" + std::to_string(access.endpoint.port),
                   flags.lease_name);
  RotationOptions rotation;
  rotation.clock = &kClock;
  rotation.logger = logger_;
  LOCKSTEP_ASSIGN_OR_RETURN(credentials_,
                            RotatingCredentials::Start(std::move(access.credentials), rotation));
  TransportOptions transport;
  transport.endpoint = access.endpoint;
  transport.credentials = credentials_.get();
  transport.logger = logger_;
  transport.server_clock = &server_clock_;
  transport.user_agent = "lockstep-operator/" LOCKSTEP_VERSION " (linux)";
  transport.connections_max = OpenCallsMax(flags.api_concurrency) + OpenCallsMax(kEventsAtOnce) +
                              OpenCallsMax(kPreparedAtOnce);
  auto made = MakeTransport(flags.transport, std::move(transport));
  if (!made.ok()) {
    return std::move(made).error().Wrap("--transport");
  }
  transport_ = std::move(made).value();
  return OkStatus();
}

Status OperatorProcess::Parts::Elect(const OperatorFlags& flags, const OperatorIdentity& identity) {
  if (!flags.leader_elect) {
    queue_.Push(WorkMessage(LeadershipWon{}));
    return OkStatus();
  }
  LeaseDriverOptions options;
  options.transport = transport_.get();
  options.clock = &kClock;
  options.logger = logger_;
  options.observer = &*metrics_;
  options.lease.namespace_name = namespace_name_;
  options.lease.name = flags.lease_name;
  const std::string name = identity.pod_name.empty() ? "lockstep-operator" : identity.pod_name;
  if (!identity.pod_uid.empty()) {
    options.lease.succession = name + "_" + identity.pod_uid + "_";
  }
  options.lease.identity =
      (identity.pod_uid.empty() ? name + "_" : options.lease.succession) + RandomHex(4);
  options.lease.labels = {{kOperatorLabel, "true"}};
  options.lease.annotations = {
      {kServedAnnotation, DescribeServed({flags.namespaces.begin(), flags.namespaces.end()})}};
  options.lease.lease_duration = flags.lease_duration;
  options.lease.renew_deadline = flags.renew_deadline;
  options.lease.retry_period = flags.retry_period;
  options.seed = std::hash<std::string>()(options.lease.identity);
  options.on_role = [this](kube::LeaseRole role) {
    if (role == kube::LeaseRole::kLeader) {
      queue_.Push(WorkMessage(LeadershipWon{}));
    } else if (role == kube::LeaseRole::kLost) {
      // A turn that is under way ends by itself: none of its writes is let through any more.
      logger_->Warn("the lease is lost: another replica may lead, so this replica stands by");
      queue_.Push(WorkMessage(LeadershipLost{}));
    }
  };
  LOCKSTEP_RETURN_IF_ERROR(kube::CheckLeaseOptions(options.lease));
  lease_.emplace(std::move(options));
  return OkStatus();
}

void OperatorProcess::Parts::Watch(const OperatorFlags& flags) {
  WatchLoopOptions options;
  options.transport = transport_.get();
  options.clock = &kClock;
  options.logger = logger_;
  options.observer = &*metrics_;
  watches_.emplace(options,
                   ServedNamespace(flags),
                   FollowedToo{flags.follows_kueue,
                               flags.follows_provisioning,
                               flags.makes_placeholders,
                               flags.binds_natively},
                   &queue_);
}

OperatorScope OperatorProcess::Parts::ScopeOf(const OperatorFlags& flags) const {
  return {namespace_name_, flags.lease_name, {flags.namespaces.begin(), flags.namespaces.end()}};
}

void OperatorProcess::Parts::Stop() {
  if (std::exchange(is_stopped_, true)) {
    return;
  }
  server_.reset();
  work_.reset();
  if (lease_) {  // nothing that needs it is left: another may lead while the rest is put away
    lease_->Release(Deadline::After(kClock.Now(), kReleaseTimeout));
  }
  watches_.reset();
  events_.reset();
}

OperatorProcess::OperatorProcess(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

OperatorProcess::~OperatorProcess() = default;

Result<std::unique_ptr<OperatorProcess>> OperatorProcess::Start(const OperatorFlags& flags,
                                                                const OperatorIdentity& identity,
                                                                Logger* logger) {
  auto parts = std::make_unique<Parts>(logger);
  LOCKSTEP_RETURN_IF_ERROR(parts->Start(flags, identity));
  return std::unique_ptr<OperatorProcess>(new OperatorProcess(std::move(parts)));
}

void OperatorProcess::RunUntilSignal(StopSignals* signals) {
  pollfd entry{signals->fd(), POLLIN, 0};
  while (signals->Take().empty()) {
    ::poll(&entry, 1, -1);
  }
  // Watches for a second signal, and for a stop that takes too long.
  std::jthread guard([signals](const std::stop_token& stop) {
    const Deadline deadline = Deadline::After(SteadyNow(), kStopTimeout);
    pollfd again{signals->fd(), POLLIN, 0};
    while (!stop.stop_requested()) {
      ::poll(&again, 1, 50);
      if (deadline.HasPassed(SteadyNow()) || !signals->Take().empty()) {
        ::_exit(kExitFailed);
      }
    }
  });
  parts_->Stop();
}

}  // namespace lockstep::control
