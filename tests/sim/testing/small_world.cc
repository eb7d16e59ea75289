#include "tests/sim/testing/small_world.h"

#include <chrono>
#include <utility>

#include <gtest/gtest.h>

#include "common/contract/environment/environment.h"
#include "operator/api/job/encode.h"
#include "operator/api/job/job_topology.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control::sim {
namespace {

using std::chrono::seconds;

}  // namespace

SmallWorld::SmallWorld(TrainingJob job) {
  nodes_.Add("n0", 4);
  nodes_.Add("n1", 4);
  CreateJob("j", std::move(job));
}

void SmallWorld::CreateJob(const std::string& name, TrainingJob job) {
  context.now += seconds(1);
  job.metadata.name = name;
  job.metadata.namespace_name = kNamespace;
  if (job.spec.training.has_value()) {
    job.spec.training->dataset.train.images = "images.gz";
    job.spec.training->dataset.train.labels = "labels.gz";
  } else {
    const Json trainer = {
        {"name", "trainer"}, {"image", "example/train:1"}, {"command", Json::array({"train"})}};
    job.spec.roles[0].pod.raw = Json::object({{"spec", {{"containers", Json::array({trainer})}}}});
  }
  Json body = EncodeTrainingJob(job);
  body.erase("status");
  body["metadata"].erase("uid");
  body["metadata"].erase("generation");
  const kube::Reply reply = server_.Handle(
      kube::Create(kube::kTrainingJobs, kNamespace, DumpJson(body)), context.ServerTime());
  ASSERT_TRUE(reply.is_success()) << reply.body;
}

void SmallWorld::Write(const std::string& name,
                       const std::function<void(TrainingJobStatus*)>& change) {
  const kube::ObjectKey key{kNamespace, name};
  const ObjectPtr before = server_.store().Get(kube::kTrainingJobs, key);
  TrainingJob job = DecodeJob(*before);
  change(&job.status);
  server_.Edit(kube::kTrainingJobs, key, [&](Json* one) { (*one)["status"] = EncodeStatus(job); });
  checks.OnStatusWrite(before, server_.store().Get(kube::kTrainingJobs, key));
}

std::string SmallWorld::AddPod(int index, PodNumber number, const std::string& node) {
  const ObjectPtr job = server_.store().Get(kube::kTrainingJobs, {kNamespace, "j"});
  PodIdentityLabels identity;
  identity.job = "j";
  identity.job_uid = UidOf(*job);
  identity.task = {Role::kWorker, index};
  identity.number = number;
  const std::string name = PodName("j", identity.task, number);
  Json labels = Json::object();
  for (const auto& [key, text] : EncodePodLabels(identity)) {
    labels[key] = text;
  }
  const Json owner = {
      {"kind", kTrainingJobKind}, {"name", "j"}, {"uid", identity.job_uid}, {"controller", true}};
  PutPod(name,
         {{"metadata", {{"labels", labels}, {"ownerReferences", Json::array({owner})}}},
          {"spec",
           {{"nodeName", node},
            {"containers", Json::array({{{"name", "trainer"}, {"env", Json::array()}}})}}},
          {"status", {{"phase", "Running"}}}});
  return name;
}

void SmallWorld::AddForeignPod(const std::string& name, const std::string& node, int gpus) {
  const Json asked = {{"limits", {{"nvidia.com/gpu", std::to_string(gpus)}}}};
  PutPod(name,
         {{"metadata", Json::object()},
          {"spec",
           {{"nodeName", node},
            {"containers", Json::array({{{"name", "main"}, {"resources", asked}}})}}},
          {"status", {{"phase", "Running"}}}});
}

void SmallWorld::PutPod(const std::string& name, Json pod) {
  pod["metadata"]["name"] = name;
  pod["metadata"]["namespace"] = kNamespace;
  pod["metadata"]["uid"] = name;
  server_.mutable_store()->Put(
      &server_.mutable_store()->Of(kube::kPods), {kNamespace, name}, std::move(pod));
}

void SmallWorld::EditPod(const std::string& name, const std::function<void(Json*)>& change) {
  server_.Edit(kube::kPods, {kNamespace, name}, change);
}

void SmallWorld::Ask(const kube::ResourceType& type,
                     const std::string& name,
                     const std::string& revision) {
  const ObjectPtr job = server_.store().Get(kube::kTrainingJobs, {kNamespace, "j"});
  const Json owner = {
      {"kind", kTrainingJobKind}, {"name", "j"}, {"uid", UidOf(*job)}, {"controller", true}};
  const Json set = {{"podTemplateRef", {{"name", name + "-worker"}}}, {"count", 1}};
  const Json body = {{"metadata",
                      {{"name", name},
                       {"annotations", {{"lockstep.dev/capacity-revision", revision}}},
                       {"ownerReferences", Json::array({owner})}}},
                     {"spec", {{"podSets", Json::array({set})}}}};
  const kube::Reply reply =
      server_.Handle(kube::Create(type, kNamespace, DumpJson(body)), context.ServerTime());
  ASSERT_TRUE(reply.is_success()) << reply.body;
  checks.OnCreated(type, ParseJson(reply.body).value());
}

void SmallWorld::EditAsked(const kube::ResourceType& type, const std::string& name) {
  checks.capacity()->NoteEdited(UidOf(*server_.store().Get(type, {kNamespace, name})));
}

void SmallWorld::TakeBack(const kube::ResourceType& type, const std::string& name) {
  ASSERT_TRUE(
      server_.Handle(kube::Delete(type, kNamespace, name, {}), context.ServerTime()).is_success());
}

void SmallWorld::AskToGo(const std::string& name) {
  EditPod(name,
          [](Json* pod) { (*pod)["metadata"]["deletionTimestamp"] = "2027-01-15T09:00:00Z"; });
}

void SmallWorld::SetPhase(const std::string& name, const std::string& phase) {
  EditPod(name, [&](Json* pod) { (*pod)["status"]["phase"] = phase; });
}

void SmallWorld::ReadPod(const std::string& name) {
  checks.OnPodRead(server_.store().Get(kube::kPods, {kNamespace, name}));
}

void SmallWorld::SetNodeReady(const std::string& name, bool is_ready) {
  server_.Edit(kube::kNodes, {"", name}, [is_ready](Json* node) {
    (*node)["status"]["conditions"][0]["status"] = is_ready ? "True" : "Unknown";
  });
  checks.CheckWorld();
}

void SmallWorld::StartProcess(const std::string& pod, const std::string& node) {
  const TrainingJob job = DecodeJob(*server_.store().Get(kube::kTrainingJobs, {kNamespace, "j"}));
  const auto environment = MakeWorkerEnvironment(TopologyOf(job, DnsAddressing{}),
                                                 {{Role::kWorker, 0}, {}, {}, job.metadata.uid});
  ASSERT_TRUE(environment.ok());
  const auto variables = RenderEnvironment(*environment);
  ASSERT_TRUE(variables.ok());
  Json container = {{"env", Json::array()}};
  for (const auto& [name, value] : *variables) {
    container["env"].push_back(Json{{"name", name}, {"value", value}});
  }
  ASSERT_TRUE(processes.Start(pod, node, container).ok());
}

void SmallWorld::BeAtPeace() {
  context.has_faults = false;
  context.peace_since = context.now;
}

void Place(int index, const std::string& node, const std::string& pod, TrainingJobStatus* status) {
  PodPlacement placement;
  placement.index = index;
  placement.node = node;
  placement.pod_uid = pod;
  status->placement.push_back(placement);
  status->origin.queue = "default";
}

void Replace(std::size_t index, const std::string& cause, TrainingJobStatus* status) {
  PodPlacement& placement = status->placement.at(index);
  placement.incarnation = placement.incarnation.Next();
  placement.pod_uid.clear();
  status->restarts = WithRestart(std::move(status->restarts), cause);
}

void CountIncident(const std::string& cause, TrainingJobStatus* status) {
  status->incidents.push_back({WallTime(seconds(1'800'003'600)), cause, "n0", 0, false, 1});
}

void ExpectVerdict(const SmallWorld& world, const std::string& verdict, const std::string& what) {
  const std::string& problem = world.checks.problem();
  EXPECT_EQ(problem.empty(), verdict.empty()) << what << ": " << problem;
  EXPECT_TRUE(problem.ends_with(verdict)) << what << ": " << problem;
}

}  // namespace lockstep::control::sim
