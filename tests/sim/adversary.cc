#include <algorithm>
#include <iterator>

#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"
#include "tests/sim/simulation.h"

// What the adversary of the simulation does.
namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Choice: once or twice in the time of faults.
constexpr uint64_t kLimitEditOdds = 150;

}  // namespace

void Simulation::Adversary() {
  static constexpr Odds kMoves[] = {
      {60, &Simulation::KillProcess},       {200, &Simulation::FreezeProcess},
      {250, &Simulation::LoseNode},         {60, &Simulation::ReturnNode},
      {500, &Simulation::RemoveNode},       {200, &Simulation::TogglePlugin},
      {200, &Simulation::Cordon},           {120, &Simulation::DeletePod},
      {250, &Simulation::TouchService},     {200, &Simulation::Suspend},
      {400, &Simulation::DeleteJob},        {100, &Simulation::AddForeignPod},
      {250, &Simulation::ChangeQuota},      {100, &Simulation::ForgetHistory},
      {300, &Simulation::BreakImage},       {250, &Simulation::FreezeOperator},
      {250, &Simulation::StopOperator},     {150, &Simulation::CrashOperator},
      {300, &Simulation::Outage},           {4, &Simulation::CollectGarbage},
      {150, &Simulation::TakeName},         {150, &Simulation::FreeNames},
      {150, &Simulation::LagBehind},        {200, &Simulation::StepClock},
      {1000, &Simulation::DeleteNamespace}, {250, &Simulation::DrainNode},
      {250, &Simulation::DrainFirstRank},   {250, &Simulation::EditManifest},
      {250, &Simulation::SetWebhook},       {300, &Simulation::HoldPod},
      {150, &Simulation::LetPodsGo},        {250, &Simulation::SetNodeTemper},
      {500, &Simulation::SetLimitRange},    {250, &Simulation::ClonePod},
      {250, &Simulation::WriteFutureStatus}};
  for (const Odds& one : kMoves) {
    if (context_.Happens(one.odds)) {
      (this->*one.move)();
    }
  }
  if (context_.has_bad_users) {
    RunBadUsers();
  }
  if (context_.has_limits && context_.limits_prng.Below(kLimitEditOdds) == 0) {
    EditLimit();
  }
  if (context_.has_autoscaler) {
    static constexpr Odds kAutoscalerMoves[] = {{120, &Simulation::CrashAutoscaler},
                                                {100, &Simulation::TakeNameOfAsk},
                                                {150, &Simulation::RemoveAsked},
                                                {150, &Simulation::EditAsked}};
    for (const Odds& one : kAutoscalerMoves) {
      if (context_.autoscaler_prng.Below(one.odds) == 0) {
        (this->*one.move)();
      }
    }
  }
  if (outage_until_ != TimePoint() && outage_until_ <= context_.now) {
    outage_until_ = TimePoint();
    for (auto& [number, one] : operators_) {
      one->SetOutage(false);
    }
  }
}

std::string Simulation::RandomNode() {
  const std::vector<std::string> names = nodes_.names();
  return names[context_.prng.Below(names.size())];
}

ObjectPtr Simulation::RandomPod(bool is_ours) {
  std::vector<ObjectPtr> pods;
  for (const auto& [key, pod] : server_.mutable_store()->Of(kube::kPods).objects) {
    if (JobUidOf(*pod).empty() != is_ours) {
      pods.push_back(pod);
    }
  }
  return pods.empty() ? nullptr : pods[context_.prng.Below(pods.size())];
}

ObjectPtr Simulation::RandomJob() {
  const auto& jobs = server_.mutable_store()->Of(kube::kTrainingJobs).objects;
  if (jobs.empty()) {
    return nullptr;
  }
  return std::next(jobs.begin(), static_cast<std::ptrdiff_t>(context_.prng.Below(jobs.size())))
      ->second;
}

void Simulation::KillProcess() {
  const ObjectPtr pod = RandomPod(true);
  if (pod != nullptr) {
    constexpr int kCodes[] = {1, 42, 70, 75, 126, 134, 137, 139, 143};
    const int code = kCodes[context_.prng.Below(std::size(kCodes))];
    processes_.Fail(UidOf(*pod),
                    {code, code == 137 && context_.Happens(2) ? "OOMKilled" : "Error"});
  }
}

// Sometimes with all who could tell of it.
void Simulation::FreezeProcess() {
  const ObjectPtr pod = RandomPod(true);
  if (pod == nullptr) {
    return;
  }
  processes_.Freeze(UidOf(*pod));
  checks_.casualties()->NoteAlone(UidOf(*pod), false);
  if (!context_.Happens(3)) {
    return;
  }
  for (const auto& [key, other] : server_.mutable_store()->Of(kube::kPods).objects) {
    if (other != pod && JobUidOf(*other) == JobUidOf(*pod)) {
      processes_.Fail(UidOf(*other), {137, "Error"});
    }
  }
}

void Simulation::NoteLoss(const std::string& node) {
  const int act = checks_.casualties()->Begin(/*is_free=*/false);
  checks_.casualties()->NoteNode(node, act);
  for (const auto& [key, pod] : server_.mutable_store()->Of(kube::kPods).objects) {
    if (TextAt(*pod, "spec.nodeName") == node) {
      checks_.casualties()->Note(UidOf(*pod), act);
    }
  }
}

void Simulation::LoseNode() {
  const std::string name = RandomNode();
  NoteLoss(name);
  if (context_.Happens(2)) {
    nodes_.Crash(name);
  } else {
    nodes_.CutOff(name);
  }
}

// Two are enough for the largest job.
void Simulation::RemoveNode() {
  const std::string name = RandomNode();
  if (nodes_.names().size() > 2 && !context_.has_racks) {
    NoteLoss(name);
    nodes_.Remove(name);
  }
}

void Simulation::ReturnNode() {
  nodes_.Return(RandomNode());
}

void Simulation::TogglePlugin() {
  nodes_.SetPlugin(RandomNode(), context_.Happens(2));
}

void Simulation::Cordon() {
  const bool is_cordoned = context_.Happens(2);
  server_.Edit(kube::kNodes, {"", RandomNode()}, [is_cordoned](Json* node) {
    (*node)["spec"]["unschedulable"] = is_cordoned;
  });
}

void Simulation::DeletePod() {
  const ObjectPtr pod = RandomPod(true);
  if (pod == nullptr) {
    return;
  }
  checks_.casualties()->NoteAlone(UidOf(*pod), true);
  const std::string name = TextAt(*pod, "metadata.name");
  context_.Tell("user: deletes pod " + name);
  kube::DeleteOptions options;
  if (context_.Happens(3)) {
    options.grace = seconds(0);
  }
  server_.Handle(kube::Delete(kube::kPods, kNamespace, name, options), context_.ServerTime());
}

void Simulation::TouchService() {
  const ObjectPtr job = RandomJob();
  if (job == nullptr) {
    return;
  }
  const std::string name = TextAt(*job, "metadata.name");
  if (context_.Happens(2)) {
    server_.Handle(kube::Delete(kube::kServices, kNamespace, name, {}), context_.ServerTime());
  } else if (server_.store().Get(kube::kServices, {kNamespace, name}) != nullptr) {
    const Json body = {{"metadata", {{"name", name}}},
                       {"spec", {{"publishNotReadyAddresses", false}}}};
    server_.Handle(
        kube::Apply(kube::kServices, kNamespace, name, DumpJson(body), {"user", true, ""}),
        context_.ServerTime());
  }
}

void Simulation::Suspend() {
  const ObjectPtr job = RandomJob();
  if (job == nullptr) {
    return;
  }
  const bool suspend = context_.Happens(2);
  context_.Tell("user: " + std::string(suspend ? "suspends " : "resumes ") +
                TextAt(*job, "metadata.name"));
  server_.Edit(
      kube::kTrainingJobs, {kNamespace, TextAt(*job, "metadata.name")}, [suspend](Json* one) {
        (*one)["spec"]["runPolicy"]["suspend"] = suspend;
        (*one)["metadata"]["generation"] = (*one)["metadata"]["generation"].get<int64_t>() + 1;
      });
}

// Now and then another job takes the name at once.
void Simulation::DeleteJob() {
  const ObjectPtr job = RandomJob();
  if (job == nullptr) {
    return;
  }
  const std::string name = TextAt(*job, "metadata.name");
  const bool is_foreground = context_.Happens(2);
  context_.Tell("user: deletes " + name);
  server_.Handle(kube::Delete(kube::kTrainingJobs, kNamespace, name, {"", {}, is_foreground}),
                 context_.ServerTime());
  CreateJob(is_foreground || context_.Happens(2) ? "job" + std::to_string(next_name_++) : name);
}

void Simulation::AddForeignPod() {
  const Json body = {
      {"metadata", {{"name", "foreign" + std::to_string(next_name_++)}}},
      {"spec",
       {{"overhead", {{"cpu", "2"}}},
        {"containers",
         Json::array(
             {{{"name", "main"},
               {"resources",
                {{"requests", {{"cpu", std::to_string(1 + context_.prng.Below(16))}}},
                 {"limits",
                  {{"nvidia.com/gpu", std::to_string(1 + context_.prng.Below(3))}}}}}}})}}}};
  server_.Handle(kube::Create(kube::kPods, kNamespace, DumpJson(body)), context_.ServerTime());
}

void Simulation::ChangeQuota() {
  if (context_.Happens(2)) {
    server_.quotas.clear();
  } else {
    server_.quotas[kNamespace] = {static_cast<int64_t>(context_.prng.Below(8)), 16};
  }
}

void Simulation::ForgetHistory() {
  server_.mutable_store()->Compact();
}

void Simulation::BreakImage() {
  if (const ObjectPtr pod = RandomPod(true)) {
    nodes_.broken_images.insert(UidOf(*pod));
    checks_.casualties()->NoteAlone(UidOf(*pod), false);
  }
}

void Simulation::FreezeOperator() {
  for (auto& [number, one] : operators_) {
    if (context_.Happens(2)) {
      context_.Tell(one->identity() + " is frozen");
      one->FreezeUntil(context_.now + context_.Between(seconds(0), seconds(40)));
    }
  }
}

void Simulation::StopOperator() {
  for (auto& [number, one] : operators_) {
    if (context_.Happens(2)) {
      context_.Tell(one->identity() + " is told to end");
      one->Stop();
    }
  }
}

void Simulation::CrashOperator() {
  for (auto& [number, one] : operators_) {
    if (context_.Happens(2)) {
      context_.Tell(one->identity() + " is killed");
      one->Kill();
    }
  }
}

void Simulation::Outage() {
  if (outage_until_ <= context_.now) {
    context_.outage_since = context_.now;
  }
  outage_until_ = context_.now + context_.Between(seconds(0), seconds(60));
  context_.outage_until = outage_until_;
  context_.Tell("the API server is out");
  for (auto& [number, one] : operators_) {
    one->SetOutage(true);
  }
}

void Simulation::CollectGarbage() {
  server_.CollectGarbage(context_.ServerTime());
}

}  // namespace lockstep::control::sim
