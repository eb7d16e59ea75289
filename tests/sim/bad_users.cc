#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/job/encode.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/gang_reader.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"
#include "tests/sim/simulation.h"

// Users who write what the API server takes and nobody should: what no version of the operator
// reads, what is large for its own sake, what can never start; and engineers who change quotas and
// labels under running jobs.
namespace lockstep::control::sim {
namespace {

using std::chrono::seconds;

constexpr int kNestingUnread = 70;     // the operator's parser reads 64
constexpr int kPortsUnread = 100;      // its decoder reads 64 a container
constexpr int kPortsRead = 64;         // a container
constexpr int kContainersOfPorts = 4;  // so 256 ports a pod
constexpr int kLabelsMany = 10'000;
constexpr int kNodesMany = 100;

// In peace a manifest is mended, and a quota that refuses is taken away, after so long. Choice: the
// longest limit of time that such a job may have ends before; a permission that was given before
// the quota holds for a minute.
constexpr seconds kMendedAfter{260};
constexpr seconds kQuotaStays{230};

// What is done to a training in peace is done by then: all of it shows while the quota stays.
constexpr seconds kLossesUntil{150};

// In peace. Choices: steps of two minutes, and for ever.
constexpr int kWorkersBesideQuota = 2;
constexpr int64_t kStepsLong = 800;
constexpr int64_t kStepsForever = 1'000'000;

// Jobs of two queues come when views know the cluster and no larger job is before them. They are
// more than it has room for, and so small that each start weighs.
constexpr seconds kCrowdComesAfter{40};
constexpr int kCrowdMany = 24;

// More than all nodes have.
constexpr int64_t kGpusOfFairQueue = 100;

constexpr int64_t kUnlimited = 1'000'000;

Json Nested(int depth) {
  Json inner = Json::array();
  for (int i = 1; i < depth; ++i) {
    inner = Json::array({std::move(inner)});
  }
  return inner;
}

Json Ports(int first, int count) {
  Json ports = Json::array();
  for (int i = 0; i < count; ++i) {
    ports.push_back({{"containerPort", first + i}, {"hostPort", first + i}});
  }
  return ports;
}

}  // namespace

void Simulation::RunBadUsers() {
  static constexpr Odds kMoves[] = {{20, &Simulation::WriteUnreadable},
                                    {60, &Simulation::MendManifests},
                                    {120, &Simulation::CreateHugeJob},
                                    {200, &Simulation::AddManyNodes},
                                    {80, &Simulation::ChangeServedQuota},
                                    {100, &Simulation::TakeLabelAway}};
  for (const Odds& one : kMoves) {
    if (context_.bad_users_prng.Below(one.odds) == 0) {
      (this->*one.move)();
    }
  }
}

// A running job is edited into what the parser, or only the decoder, refuses.
void Simulation::WriteUnreadable() {
  Prng* const prng = &context_.bad_users_prng;
  std::vector<ObjectPtr> running;
  for (const auto& [key, job] : server_.store().Of(kube::kTrainingJobs).objects) {
    if (HoldsPlaces(*job) && !IsUnreadable(*job)) {
      running.push_back(job);
    }
  }
  if (running.empty()) {
    return;
  }
  const ObjectPtr job = running[prng->Below(running.size())];
  const uint64_t kind = prng->Below(3);
  context_.Count("a running job that is edited into what nobody reads");
  context_.Tell("user: makes " + TextAt(*job, "metadata.name") + " unreadable");
  server_.Edit(kube::kTrainingJobs, {kNamespace, TextAt(*job, "metadata.name")}, [&](Json* one) {
    Json& pod = (*one)["spec"]["roles"][0]["template"]["spec"];
    if (kind == 0) {
      pod["deep"] = Nested(kNestingUnread);
    } else if (kind == 1) {
      pod["containers"][0]["ports"] = Ports(30'000, kPortsUnread);
    } else {
      (*one)["spec"]["fromANewerVersion"] = true;
    }
    (*one)["metadata"]["generation"] = (*one)["metadata"]["generation"].get<int64_t>() + 1;
  });
}

void Simulation::MendManifests() {
  const auto jobs = server_.store().Of(kube::kTrainingJobs).objects;  // a copy: editing writes
  for (const auto& [key, job] : jobs) {
    if (IsUnreadable(*job)) {
      context_.Tell("user: mends " + key.name);
      server_.Edit(kube::kTrainingJobs, key, [](Json* one) {
        *one = WithoutUnreadable(*one);
        (*one)["metadata"]["generation"] = (*one)["metadata"]["generation"].get<int64_t>() + 1;
      });
    }
  }
}

// No node has room for it, ever, whatever else it says.
void Simulation::CreateHugeJob() {
  Prng* const prng = &context_.bad_users_prng;
  TrainingJob job = MakeCommandJob(1);
  job.metadata.name = "job" + std::to_string(next_name_++);
  job.metadata.namespace_name = kNamespace;
  job.spec.roles[0].gpus = kGpusOfNode + 1;
  Json pod = {{"containers", Json::array()}};
  const int first = 1'000 + static_cast<int>(prng->Below(60'000));
  const bool has_ports = prng->Below(2) == 0;
  pod["initContainers"] = Json::array();
  for (int i = 0; i < kContainersOfPorts; ++i) {
    Json container = {{"name", i == 0 ? "trainer" : "tool" + std::to_string(i)},
                      {"image", "example/train:1"},
                      {"env", Json::array({{{"name", "EDITION"}, {"value", "0"}}})}};
    if (has_ports) {
      container["ports"] = Ports(first + i * kPortsRead, kPortsRead);
    }
    if (i > 0) {
      container["restartPolicy"] = "Always";
    }
    pod[i == 0 ? "containers" : "initContainers"].push_back(std::move(container));
  }
  pod["containers"][0]["command"] = Json::array({"python3", "train.py"});
  pod["containers"][0]["resources"]["requests"]["memory"] = "1" + std::string(17, '0');
  job.spec.roles[0].pod.raw = Json::object({{"spec", std::move(pod)}});
  Json body = EncodeTrainingJob(job);
  body.erase("status");
  body["metadata"].erase("uid");
  body["metadata"].erase("generation");
  if (!has_ports && prng->Below(4) == 0) {
    context_.Count("a job with ten thousand labels");
    for (int i = 0; i < kLabelsMany; ++i) {
      body["metadata"]["labels"]["l" + std::to_string(i)] = "x";
    }
  }
  context_.Count(has_ports ? "a job with 256 ports of the node and a quantity of 18 digits"
                           : "a job with a quantity of 18 digits");
  server_.Handle(kube::Create(kube::kTrainingJobs, kNamespace, DumpJson(body)),
                 context_.ServerTime());
}

// They come with a taint that nobody tolerates, and go with the next look.
void Simulation::AddManyNodes() {
  Collection* const nodes = &server_.mutable_store()->Of(kube::kNodes);
  if (!crowd_.empty()) {
    RemoveManyNodes();
    return;
  }
  context_.Count("a hundred nodes that come and go");
  for (int i = 0; i < kNodesMany; ++i) {
    const std::string name = "crowd" + std::to_string(next_name_++);
    crowd_.push_back(name);
    server_.mutable_store()->Put(
        nodes,
        {"", name},
        {{"metadata", {{"name", name}, {"uid", "uid-" + name}}},
         {"spec", {{"taints", Json::array({{{"key", "new"}, {"effect", "NoSchedule"}}})}}},
         {"status",
          {{"allocatable", {{"cpu", "64"}, {"pods", "110"}}},
           {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}});
  }
}

void Simulation::RemoveManyNodes() {
  for (const std::string& name : std::exchange(crowd_, {})) {
    server_.mutable_store()->Remove(&server_.mutable_store()->Of(kube::kNodes), {"", name});
  }
}

void Simulation::ServeQuota(const Quota& quota) {
  context_.Count("a ResourceQuota that the server shows and enforces");
  context_.quota_since = context_.now;
  server_.quotas[kNamespace] = quota;
  server_.mutable_store()->Put(&server_.mutable_store()->Of(kube::kResourceQuotas),
                               {kNamespace, "team"},
                               {{"metadata", {{"name", "team"}, {"namespace", kNamespace}}}});
}

void Simulation::DropQuota() {
  server_.quotas.erase(kNamespace);
  Collection* const quotas = &server_.mutable_store()->Of(kube::kResourceQuotas);
  if (quotas->objects.contains({kNamespace, "team"})) {
    server_.mutable_store()->Remove(quotas, {kNamespace, "team"});
  }
}

// So many pods as there are, whether they have ended or not; or fewer than the largest gang.
void Simulation::ChangeServedQuota() {
  const auto count = static_cast<int64_t>(server_.store().Of(kube::kPods).objects.size());
  switch (context_.bad_users_prng.Below(3)) {
    case 0:
      ServeQuota({kUnlimited, kUnlimited, count});
      return;
    case 1:
      ServeQuota({2, kUnlimited, kUnlimited});
      return;
    default:
      DropQuota();
  }
}

void Simulation::ReturnLabel() {
  if (!unlabelled_.empty()) {
    server_.Edit(kube::kNodes, {"", unlabelled_}, [](Json* node) {
      (*node)["metadata"]["labels"][kRackLabel] = "r0";
    });
    unlabelled_.clear();
  }
}

// A node loses the label of its rack, as long as two others have theirs: those hold the largest
// job. A rank of the same gang, on another node, is lost.
void Simulation::TakeLabelAway() {
  if (!context_.has_racks || !unlabelled_.empty()) {
    return;
  }
  for (const auto& [key, job] : server_.store().Of(kube::kTrainingJobs).objects) {
    const std::vector<PodPlacement>& places = checks_.JobOf(job).status.placement;
    if (!HoldsPlaces(*job) || places.size() < 2 || places.front().node == places.back().node ||
        processes_.Find(places.back().pod_uid) == nullptr ||
        (!context_.has_faults && UidOf(*job) != long_training_)) {
      continue;
    }
    unlabelled_ = places.front().node;
    loss_ = nullptr;
    context_.Count("a node that loses the label of its rack under a gang");
    context_.Tell("engineer: takes the label of its rack from " + unlabelled_);
    server_.Edit(kube::kNodes, {"", unlabelled_}, [](Json* node) {
      (*node)["metadata"]["labels"].erase(kRackLabel);
    });
    processes_.Fail(places.back().pod_uid, {137, "Error"});
    return;
  }
}

// Two queues above which one lets both have the same. All that they hold is over their nominal
// amounts, so that a gang weighs by what it would add.
void Simulation::CreateFairQueues() {
  const auto add = [this](const std::string& name, Json spec) {
    server_.mutable_store()->Put(
        &server_.mutable_store()->Of(kube::kTrainingQueues),
        {"", name},
        {{"metadata", {{"name", name}, {"uid", "uid-" + name}}}, {"spec", std::move(spec)}});
  };
  const auto gpus = [](int64_t count) { return Json{{"nvidia.com/gpu", count}}; };
  add("fair", {{"ordering", "FairShare"}, {"nominal", gpus(kGpusOfFairQueue)}});
  add("left", {{"parent", "fair"}, {"nominal", gpus(0)}});
  add("right", {{"parent", "fair"}, {"nominal", gpus(0)}});
}

// What bad users leave behind, and meet, in peace.
void Simulation::LeaveBadUsers() {
  RemoveManyNodes();
  context_.older_release.reset();
  ReturnLabel();
  DropQuota();
  if (keeps_time_) {
    context_.Count("in peace: a training that only its limit of time ends");
    TrainingJob job = MakeTrainingJob(1);
    job.spec.run_policy.active_deadline = seconds(60);
    job.spec.run_policy.clean_pod_policy = CleanPodPolicy::kNone;
    CreateLongTraining(std::move(job), 1, kStepsForever);
  }
  if (context_.has_shares) {
    ServeQuota({2, kUnlimited, kUnlimited});
  } else {
    PrepareLosses();
  }
}

// A rank of a long training is to be lost beside a full quota, or beside a node that has lost the
// label of its rack; or many jobs of two queues come.
void Simulation::PrepareLosses() {
  const bool is_quota_meant = context_.bad_users_prng.Below(2) == 0;
  if (context_.has_fair_queues && !is_quota_meant) {
    is_crowd_due_ = true;
    return;
  }
  if (context_.has_racks && !is_quota_meant) {
    loss_ = &Simulation::TakeLabelAway;
    TrainingJob job = MakeTrainingJob(4);  // of two nodes
    job.spec.scheduling.topology.required = kRackLabel;
    CreateLongTraining(std::move(job), 2, kStepsLong);
    return;
  }
  loss_ = &Simulation::LosePodBesideQuota;
  CreateLongTraining(MakeTrainingJob(kWorkersBesideQuota), 1, kStepsLong);
}

// A rank is lost where the quota counts the pods that are there, and no more.
void Simulation::LosePodBesideQuota() {
  for (const auto& [uid, process] : processes_.all()) {
    if (process.environment.job_uid == long_training_ && !process.end.has_value() &&
        process.phase == Phase::kTraining && process.environment.rank > 0) {
      context_.Count("in peace: a rank that is lost where a quota is full");
      ServeQuota({kUnlimited, kUnlimited, kUnlimited});
      is_quota_full_ = true;
      KeepQuotaFull();
      processes_.Fail(uid, {137, "Error"});
      loss_ = nullptr;
      return;
    }
  }
}

// It has room for the gang of the long training, and for the pods of others that are there.
void Simulation::KeepQuotaFull() {
  const auto quota = server_.quotas.find(kNamespace);
  if (!is_quota_full_ || quota == server_.quotas.end()) {
    return;
  }
  const auto& pods = server_.store().Of(kube::kPods).objects;
  const auto others = std::count_if(pods.begin(), pods.end(), [this](const auto& pod) {
    return JobUidOf(*pod.second) != long_training_;
  });
  quota->second.objects_max = kWorkersBesideQuota + others;
}

void Simulation::CreateCrowd() {
  context_.Count("in peace: many jobs of two queues that share evenly");
  CreateJob("job" + std::to_string(next_name_++), 4, kGpusOfNode + 1);  // first of one, for ever
  for (int i = 0; i < kCrowdMany; ++i) {
    CreateJob("job" + std::to_string(next_name_++), 1, 1);
  }
}

// In peace people mend what is wrong, after a while.
void Simulation::MendBadUsers() {
  const Duration since = context_.now - context_.peace_since;
  if (loss_ != nullptr && since < kLossesUntil) {
    (this->*loss_)();
  }
  KeepQuotaFull();
  if (is_crowd_due_ && since >= kCrowdComesAfter && AllEnded()) {
    is_crowd_due_ = false;
    CreateCrowd();
  }
  if (since >= kQuotaStays && server_.quotas.contains(kNamespace)) {
    DropQuota();
  }
  if (since >= kMendedAfter) {
    MendManifests();
    return;
  }
  if (context_.has_shares && !is_over_ && since >= seconds(100) &&
      context_.bad_users_prng.Below(120) == 0) {
    context_.Count("in peace: an urgent job whose pods a quota refuses");
    CreateJob("job" + std::to_string(next_name_++), 3, 2);
  }
}

}  // namespace lockstep::control::sim
