#include "operator/cli/pods/local_backend.h"

#include <optional>
#include <utility>
#include <variant>

#include "common/contract/environment/topology.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/termination_message.h"
#include "operator/api/job/job_topology.h"
#include "operator/api/status/conditions.h"
#include "operator/cli/pods/pod_ports.h"
#include "operator/local/port_use.h"

namespace lockstep::control {
namespace {

constexpr Duration kControlTimeout = std::chrono::seconds(1);

int64_t RestartsOf(const TrainingJobStatus& status, const std::string& cause) {
  for (const RestartCount& restart : status.restarts) {
    if (restart.cause == cause) {
      return restart.count;
    }
  }
  return 0;
}

}  // namespace

LocalBackend::LocalBackend(LocalBackendOptions options,
                           PodRunner* pods,
                           HttpClient* client,
                           Logger* logger)
    : options_(std::move(options)), pods_(pods), client_(client), logger_(logger) {}

JobId LocalBackend::key() const {
  return JobId{options_.job.metadata.namespace_name, options_.job.metadata.name};
}

void LocalBackend::Accept(const StatusArrival& arrival) {
  reports_.insert_or_assign(arrival.document.pod, arrival);
}

Result<JobSight> LocalBackend::See(const JobId&) const {
  JobSight seen{options_.job, {}};
  Observed& observed = seen.observed;
  observed.pods = pods_->pods();
  observed.nodes = std::vector{options_.machine};
  observed.settings = options_.settings;
  observed.is_one_machine = true;
  observed.mute_pods = mute_pods_;
  observed.lost_ports = lost_ports_;
  const TimePoint now = SteadyNow();
  for (const auto& [pod, arrival] : reports_) {
    observed.reports[pod] = RuntimeReport{arrival.document, now - arrival.received};
  }
  return seen;
}

Status LocalBackend::WriteStatus(const TrainingJob& job) {
  for (const RestartCount& restart : job.status.restarts) {
    if (restart.count > RestartsOf(options_.job.status, restart.cause)) {
      newest_cause_ = restart.cause;
    }
  }
  options_.job.status = job.status;
  return OkStatus();
}

std::vector<Status> LocalBackend::ApplyEffects(const std::vector<Effect>& effects) {
  std::vector<Status> results(effects.size(), OkStatus());
  for (const EffectPhase phase : kEffectPhases) {
    for (std::size_t i = 0; i < effects.size(); ++i) {
      if (PhaseOf(effects[i]) == phase) {
        results[i] = std::visit([this](const auto& one) { return Carry(one); }, effects[i]);
      }
    }
  }
  NoteCreations(effects, &results);
  return results;
}

// What the machine refuses is its user's to know, in words of the run's own; for the controller it
// is left undone.
void LocalBackend::NoteCreations(const std::vector<Effect>& effects, std::vector<Status>* results) {
  bool has_tried = false;
  std::optional<Error> first;
  for (std::size_t i = 0; i < effects.size(); ++i) {
    const auto* const creation = std::get_if<CreatePod>(&effects[i]);
    has_tried = has_tried || creation != nullptr;
    if (creation == nullptr || (*results)[i].ok()) {
      continue;
    }
    const std::string& pod = creation->pod.name;
    if ((*results)[i].error().code() == ErrorCode::kAborted) {
      continue;  // it waits for its port
    }
    Error error = std::move((*results)[i]).error().Wrap("pod " + pod + " cannot be created");
    logger_->Info("pod not created", {{"pod", pod}, {"error", error.ToString()}});
    (*results)[i] = Error(ErrorCode::kAborted, error.ToString());
    first = first ? std::move(first) : std::move(error);
  }
  if (has_tried) {
    creation_.Note(first, SteadyNow());
    ports_.Note(std::exchange(port_taken_, std::nullopt), is_port_fixed_, SteadyNow());
    MovePorts();
  }
}

// What cannot be looked at is left to the pod, which will say what is wrong.
Status LocalBackend::CheckPorts(const kube::Pod& pod) {
  const auto name = ParsePodName(pod.name);
  if (!name || pods_->FindPod(pod.name) != nullptr) {
    return OkStatus();
  }
  const JobTopology topology = TopologyOf(options_.job, options_.settings.addressing);
  for (const ListenPlace& place :
       PortsOfPod(options_.job, options_.settings.addressing, name->task)) {
    const Status free = CheckFree(place);
    if (free.ok() || free.error().code() != ErrorCode::kAlreadyExists) {
      continue;
    }
    std::string said = "port of " + pod.name + ": " + free.error().message();
    if (!port_taken_) {
      port_taken_ = said;
      is_port_fixed_ = topology.master_port == place.port;
    }
    return Error(ErrorCode::kAborted, std::move(said));
  }
  return OkStatus();
}

void LocalBackend::NotePortTaken(const kube::Pod& pod) {
  const auto name = ParsePodName(pod.name);
  if (!name || name->number.attempt != options_.job.status.attempt) {
    return;
  }
  const auto words = DecodeTerminationMessage(
      pod.status.termination ? pod.status.termination->message : std::string());
  ports_.NoteEnd(pod.name + ": " + (words.ok() ? words->reason : "its port is in use"),
                 name->number.attempt);
  MovePorts();
}

void LocalBackend::MovePorts() {
  const std::optional<std::string> why = ports_.TakeMove();
  auto* const loopback = std::get_if<LoopbackAddressing>(&options_.settings.addressing);
  if (!why || loopback == nullptr || !options_.other_ports) {
    return;
  }
  const Result<int> first = options_.other_ports();
  if (!first.ok()) {
    creation_.Note(Error(ErrorCode::kInvalidArgument, *why + "; " + first.error().message()),
                   SteadyNow());
    return;
  }
  loopback->port_base = *first;
  const int last =
      *first + LoopbackPortCount(TopologyOf(options_.job, options_.settings.addressing)) - 1;
  lost_ports_ = LostPorts{
      options_.job.status.attempt,
      *why + "; the gang now uses ports " + std::to_string(*first) + " to " + std::to_string(last)};
}

std::optional<TimePoint> LocalBackend::PauseEnd() const {
  const auto for_room = creation_.pause_end();
  return for_room ? for_room : ports_.pause_end();
}

std::optional<std::string> LocalBackend::Verdict() const {
  return creation_.verdict() ? creation_.verdict() : ports_.verdict();
}

std::optional<std::string> LocalBackend::TakeWarning() {
  auto for_room = creation_.TakeWarning();
  return for_room ? for_room : ports_.TakeWarning();
}

Status LocalBackend::Carry(const CreatePod& effect) {
  LOCKSTEP_RETURN_IF_ERROR(CheckPorts(effect.pod));
  Status created = pods_->CreatePod(effect.pod, SteadyNow());
  const bool is_done = !created.ok() && created.error().code() == ErrorCode::kAlreadyExists;
  return is_done ? OkStatus() : created;
}

Status LocalBackend::Carry(const DeletePod& effect) {
  const kube::Pod* const pod = pods_->FindPod(effect.name);
  if (pod == nullptr || (!effect.uid.empty() && pod->uid != effect.uid)) {
    return OkStatus();
  }
  if (IsGivenUp(*pod) && options_.on_given_up) {
    options_.on_given_up(*pod, newest_cause_);
  }
  reports_.erase(effect.name);
  return pods_->DeletePod(effect.name, effect.grace, SteadyNow());
}

// Whether this pod is to make way for a successor: within its attempt, or because it hangs. Other
// pods of an older attempt go because another pod failed, and those of an ended job because it has
// ended.
bool LocalBackend::IsGivenUp(const kube::Pod& pod) const {
  const auto name = ParsePodName(pod.name);
  return pod.status.phase == kube::PodPhase::kRunning && !pod.is_deleting && name &&
         (name->number.attempt == options_.job.status.attempt || mute_pods_.contains(pod.name)) &&
         !HasEnded(options_.job.status);
}

Status LocalBackend::Carry(const SendControl& effect) {
  // Of many pods that go at once every other one is told: looking one up must cost little.
  const kube::Pod* const pod = pods_->FindPod(effect.pod);
  if (pod == nullptr || pod->status.phase != kube::PodPhase::kRunning) {
    return OkStatus();  // it learns from its connections, if it still needs to
  }
  HttpRequest request;
  request.method = "POST";
  request.address = pod->status.pod_ip;
  request.port = static_cast<uint16_t>(StatusPortOf(*pod));
  request.target = "/control";
  request.body = EncodeControlMessage(effect.message);
  request.headers[kControlSignatureHeader] = SignControlBody(options_.job_key, request.body);
  client_->Start(std::move(request), kControlTimeout, [](const Result<HttpResponse>&) {});
  return OkStatus();
}

// Loopback addresses need no service, and the key is a file of the run.
Status LocalBackend::Carry(const PrepareJob&) {
  return OkStatus();
}

Status LocalBackend::Carry(const RenewKey&) {
  return OkStatus();
}

Status LocalBackend::Carry(const WriteObject&) {
  return OkStatus();
}

Status LocalBackend::Carry(const DeleteJob&) {
  return OkStatus();  // a run keeps no jobs
}

void LocalBackend::Publish(const JobId&, const Decision& decision) {
  for (const Event& event : decision.events) {
    if (options_.on_event) {
      options_.on_event(event);
    } else {
      logger_->Info(event.message, {{"reason", event.reason}});
    }
  }
}

}  // namespace lockstep::control
