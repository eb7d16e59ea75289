#include "operator/reconcile/pods/pod.h"

#include <gtest/gtest.h>

#include "common/contract/environment/environment.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

PodRequest Worker1() {
  return {{Role::kWorker, 1}, {Attempt(2), Incarnation(3)}, Epoch(7), "node-a"};
}

TEST(BuildPod, TrainingPodRunsTheBuiltInTrainer) {
  const kube::Pod pod = BuildPod(MakeTrainingJob(3), Worker1(), {}).value();

  EXPECT_EQ(pod.name, "mnist-worker-1-a2-r3");
  EXPECT_EQ(pod.namespace_name, "default");
  EXPECT_EQ(pod.spec.hostname, "mnist-worker-1");
  EXPECT_EQ(pod.spec.subdomain, "mnist");
  EXPECT_EQ(pod.spec.node_name, "node-a");
  EXPECT_EQ(pod.spec.container.command, (std::vector<std::string>{"lockstep-runtime", "train"}));
}

TEST(BuildPod, LostProcessesHaveSuccessorsInTheirPodUnlessTheJobWantsNone) {
  const std::vector<std::string> train = {"lockstep-runtime", "train"};
  const std::vector<std::string> once = {"lockstep-runtime", "train", "--no-restarts"};
  TrainingJob job = MakeTrainingJob(3);
  const auto command = [&] { return BuildPod(job, Worker1(), {}).value().spec.container.command; };
  job.spec.roles[0].processes = 2;
  EXPECT_EQ(command(), train);
  job.spec.run_policy.backoff_limit = 0;
  EXPECT_EQ(command(), once);
  job.spec.run_policy.backoff_limit = 6;
  job.spec.roles[0].restart_policy = RestartPolicy::kNever;
  EXPECT_EQ(command(), once);
  job.spec.roles[0].processes = 1;
  EXPECT_EQ(command(), train);
}

TEST(BuildPod, CommandPodIsSupervised) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].pod.args = {"--epochs", "3"};
  PodSettings settings;
  settings.runtime_path = "/opt/lockstep-runtime";

  EXPECT_EQ(BuildPod(job, Worker1(), settings).value().spec.container.command,
            (std::vector<std::string>{
                "/opt/lockstep-runtime", "run", "--", "python3", "train.py", "--epochs", "3"}));
}

TEST(BuildPod, ACommandThatMayNotRestartStartsNoProcessAgain) {
  TrainingJob job = MakeCommandJob(2);
  const auto option = [&](const PodSettings& settings) {
    return BuildPod(job, Worker1(), settings).value().spec.container.command.at(2);
  };
  PodSettings settings;
  EXPECT_EQ(option(settings), "--");
  job.spec.run_policy.backoff_limit = 0;
  EXPECT_EQ(option(settings), "--no-restarts");
  job.spec.run_policy.backoff_limit = 6;
  job.spec.roles[0].restart_policy = RestartPolicy::kNever;
  EXPECT_EQ(option(settings), "--no-restarts");
  // A gang that goes on under the runtime of an earlier operator, which may not know the option.
  settings.install_directory = "/lockstep/bin";
  settings.runtime_image = "runtime:new";
  job.status.origin.runtime_image = "runtime:old";
  EXPECT_EQ(option(settings), "--");
  job.status.origin.runtime_image = "runtime:new";
  EXPECT_EQ(option(settings), "--no-restarts");
}

TEST(BuildPod, HorovodsProgramsStartTogether) {
  TrainingJob job = MakeCommandJob(2);
  PodSettings settings;
  const auto option = [&] {
    return BuildPod(job, Worker1(), settings).value().spec.container.command.at(2);
  };
  EXPECT_EQ(option(), "--");
  job.spec.strategy = Strategy::kHorovod;
  EXPECT_EQ(option(), "--together");
  settings.install_directory = "/lockstep/bin";
  settings.runtime_image = "runtime:new";
  job.status.origin.runtime_image = "runtime:old";
  EXPECT_EQ(option(), "--") << "it may not know the option";
}

TEST(BuildPod, TheRuntimeIsToldWhatToKeepWarm) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].pod.command = {"python3", "train.py"};
  job.spec.roles[0].warm = {"torch", "numpy"};
  PodSettings settings;
  const auto command = [&] {
    return BuildPod(job, Worker1(), settings).value().spec.container.command;
  };
  EXPECT_EQ(command(),
            (std::vector<std::string>{"lockstep-runtime",
                                      "run",
                                      "--warm",
                                      "torch",
                                      "--warm",
                                      "numpy",
                                      "--",
                                      "python3",
                                      "train.py"}));
  settings.install_directory = "/lockstep/bin";
  settings.runtime_image = "runtime:new";
  job.status.origin.runtime_image = "runtime:old";
  EXPECT_EQ(command().at(2), "--") << "it may not know the option";
}

TEST(BuildPod, InitContainersAndSidecarsCountInWhatThePodAsksFor) {
  TrainingJob job = MakeCommandJob(2);
  PodTemplate& pod = job.spec.roles[0].pod;
  pod.requests = {1000, 100, 0};
  pod.init_containers = {{"agent", {50, 10, 0}, true}, {"fetch", {3000, 20, 0}, false}};

  EXPECT_EQ(BuildPod(job, Worker1(), {}).value().spec.container.requests,
            (ResourceVector{3050, 110, 0}));
}

// Source: k8s.io/component-helpers/resource, PodRequests.
TEST(BuildPod, WhatThePodAsksForAsAWholeCountsInsteadOfItsContainers) {
  TrainingJob job = MakeCommandJob(2);
  PodTemplate& pod = job.spec.roles[0].pod;
  pod.requests = {1000, 100, 0};
  pod.init_containers = {{"fetch", {3000, 20, 0}, false}};
  pod.overhead = {50, 0, 0};
  pod.pod_requests = {4000, 0, 0};
  pod.pod_limits = {8000, 600, 0};
  const kube::ContainerSpec container = BuildPod(job, Worker1(), {}).value().spec.container;
  EXPECT_EQ(container.requests, (ResourceVector{4050, 100, 0}));
  EXPECT_EQ(container.limits.memory_bytes, 600);
}

TEST(BuildPod, PortsOfTheNodeCountInWhatThePodAsksFor) {
  const auto requests_of = [](const std::string& spec) {
    TrainingJob job = MakeCommandJob(2);
    job.spec.roles[0].pod.raw = ParseJson(R"({"spec": )" + spec + "}").value();
    return RequestsOf(job.spec.roles[0]);
  };
  const std::string containers =
      R"("containers": [{"name": "trainer", "ports": [{"containerPort": 80, "hostPort": 8080},
                                                      {"containerPort": 81}]}])";
  ResourceVector expected;
  expected.Set(HostPortResource(8080), 1);
  EXPECT_EQ(requests_of("{" + containers + "}"), expected);

  expected = {};
  for (const int port : {80, 81, 2222, 2223}) {  // of the runtime, the last two
    expected.Set(HostPortResource(port), 1);
  }
  EXPECT_EQ(requests_of(R"({"hostNetwork": true, )" + containers + "}"), expected);
}

TEST(BuildPod, FieldsOfThePodThatAreKnownNeedNoKubelet) {
  TrainingJob job = MakeCommandJob(2);
  EnvironmentSource name{"POD", "", "fieldRef", "metadata.name", false};
  EnvironmentSource node{"NODE", "", "fieldRef", "spec.nodeName", false};
  EnvironmentSource address{"IP", "", "fieldRef", "status.podIP", false};
  job.spec.roles[0].pod.env_sources = {name, node, address};

  const kube::Pod pod = BuildPod(job, Worker1(), {}).value();

  EXPECT_EQ(pod.spec.container.env.at("POD"), pod.name);
  EXPECT_EQ(pod.spec.container.env.at("NODE"), "node-a");
  EXPECT_EQ(pod.spec.container.env.count("IP"), 0U);
}

// What the operator writes the runtime reads back: every field of the contract.
TEST(BuildPod, EnvironmentParsesBackToTheIdentity) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].pod.termination_grace = std::chrono::seconds(12);
  PodSettings settings;
  settings.addressing = LoopbackAddressing{"127.8.9"};
  settings.job_directory = "/runs/mnist";
  settings.data_directory = "/data";
  settings.job_key_file = "/runs/mnist/key";
  const kube::Pod pod = BuildPod(job, Worker1(), settings).value();

  const WorkerEnvironment environment = ParseEnvironment(pod.spec.container.env).value();

  EXPECT_EQ(environment.job_uid, "uid-1");
  EXPECT_EQ(environment.attempt, Attempt(2));
  EXPECT_EQ(environment.incarnation, Incarnation(3));
  EXPECT_EQ(environment.epoch, Epoch(7));
  EXPECT_EQ(environment.pod, pod.name);
  EXPECT_EQ(environment.rank, 1);
  EXPECT_EQ(environment.world_size, 3);
  EXPECT_EQ(environment.host, "127.8.9.2");
  EXPECT_EQ(environment.bind_address, "127.8.9.2");
  EXPECT_EQ(environment.grace, std::chrono::seconds(12));
  EXPECT_EQ(environment.rendezvous_timeout, std::chrono::seconds(60));
  EXPECT_EQ(environment.checkpoint_directory, "/runs/mnist/checkpoints");
  EXPECT_EQ(environment.data_directory, "/data");
  EXPECT_EQ(environment.job_key_file, "/runs/mnist/key");
  EXPECT_EQ(ParseTrainingSpec(environment.training).ok(), false);  // no data set is named
  EXPECT_FALSE(environment.training.empty());
}

TEST(BuildPod, AbsoluteCheckpointDirectoryStaysAndRelativeNeedsABase) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.training->checkpoint.directory = "/mnt/checkpoints";
  EXPECT_EQ(BuildPod(job, Worker1(), {}).value().spec.container.env.at("LOCKSTEP_CHECKPOINT_DIR"),
            "/mnt/checkpoints");
  job.spec.training->checkpoint.directory = "checkpoints";

  EXPECT_EQ(
      BuildPod(job, Worker1(), {}).value().spec.container.env.count("LOCKSTEP_CHECKPOINT_DIR"), 0U);
}

TEST(BuildPod, ContractsVariablesWinOverTheTemplates) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].pod.env = {{"RANK", "9"}, {"TF_CONFIG", "{}"}, {"OMP_NUM_THREADS", "1"}};

  const auto env = BuildPod(job, Worker1(), {}).value().spec.container.env;

  EXPECT_EQ(env.at("RANK"), "1");
  EXPECT_NE(env.at("TF_CONFIG"), "{}");
  EXPECT_EQ(env.at("OMP_NUM_THREADS"), "1");
}

TEST(BuildPod, InterfaceOfTheTemplateWins) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].pod.env = {{"HOROVOD_GLOO_IFACE", "ens5"}};

  EXPECT_EQ(BuildPod(job, Worker1(), {}).value().spec.container.env.at("HOROVOD_GLOO_IFACE"),
            "ens5");
}

// The cure for jobs that share a host: torch listens for it on all addresses of that host.
TEST(BuildPod, MasterPortOfOneRoleIsThatOfTheJob) {
  TrainingJob job = MakeCommandJob(2);
  AddRole(Role::kChief, 1, &job);
  job.spec.roles[0].pod.env = {{"MASTER_PORT", "31000"}};
  const PodRequest chief{{Role::kChief, 0}, {}, Epoch(0), "node-a"};

  EXPECT_EQ(BuildPod(job, Worker1(), {}).value().spec.container.env.at("MASTER_PORT"), "31000");
  EXPECT_EQ(BuildPod(job, chief, {}).value().spec.container.env.at("MASTER_PORT"), "31000");
}

TEST(BuildPod, OnlyRanksAreWatchedForHangs) {
  TrainingJob job = MakeCommandJob(2);
  AddRole(Role::kEvaluator, 1, &job);
  const auto limit = [&job](const TaskId& task) {
    const kube::Pod pod = BuildPod(job, {task, {}, Epoch(0), "node-a"}, {}).value();
    return ParseEnvironment(pod.spec.container.env).value().hung_after;
  };
  EXPECT_EQ(limit({Role::kWorker, 1}), std::nullopt);
  job.spec.recovery.hung_after = std::chrono::minutes(2);

  EXPECT_EQ(limit({Role::kWorker, 1}), std::chrono::minutes(2));
  EXPECT_EQ(limit({Role::kEvaluator, 0}), std::nullopt);
}

TEST(BuildPod, RuntimeIsToldWhoStartsProcessesAndWhatTheySee) {
  TrainingJob job = MakeCommandJob(2);
  const auto told = [&job] {
    const kube::Pod pod = BuildPod(job, Worker1(), {}).value();
    return ParseEnvironment(pod.spec.container.env).value();
  };
  EXPECT_EQ(told().launcher, std::nullopt);
  EXPECT_EQ(told().gpu_visibility, std::nullopt);
  job.spec.roles[0].launcher = ProcessLauncher::kTorchrun;
  job.spec.roles[0].gpu_visibility = GpuVisibility::kOne;

  EXPECT_EQ(told().launcher, ProcessLauncher::kTorchrun);
  EXPECT_EQ(told().gpu_visibility, GpuVisibility::kOne);
}

TEST(BuildPod, CommandsHaveAPlaceForCheckpointsWhereItOutlivesThePod) {
  TrainingJob job = MakeCommandJob(2);
  const auto directory = [&job](const PodSettings& settings) {
    const auto env = BuildPod(job, Worker1(), settings).value().spec.container.env;
    const auto found = env.find("LOCKSTEP_CHECKPOINT_DIR");
    return found == env.end() ? std::string() : found->second;
  };
  PodSettings machine;
  machine.addressing = LoopbackAddressing{"127.8.9"};
  machine.job_directory = "/runs/mnist";
  EXPECT_EQ(directory(machine), "/runs/mnist/checkpoints");
  PodSettings cluster;
  cluster.job_directory = "/lockstep/work";
  EXPECT_EQ(directory(cluster), "");
  job.spec.roles[0].pod.raw.Edit()["spec"]["containers"][0]["volumeMounts"] =
      Json::array({{{"name", "v"}, {"mountPath", "/lockstep/work"}}});
  EXPECT_EQ(directory(cluster), "/lockstep/work/checkpoints");
}

// What a kubelet makes of the manifest is made here where there is none.
TEST(BuildPod, ReferencesAreExpandedWhereThereIsNoKubelet) {
  TrainingJob job = MakeCommandJob(2);
  PodTemplate& pod = job.spec.roles[0].pod;
  pod.command = {"python3", "train.py", "--rank=$(RANK)", "--out=$(OUT)", "$$(RANK)", "$(NONE)"};
  Json& env = pod.raw.Edit()["spec"]["containers"][0]["env"];
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"LATE", "$(OUT)"}, {"OUT", "run-$(RANK)"}, {"PICKED", "$(OUT)/$(LATE)/$(SELF)"}}) {
    env.push_back({{"name", name}, {"value", value}});
    pod.env[name] = value;
  }
  PodSettings settings;
  settings.expands_references = true;

  const kube::ContainerSpec here = BuildPod(job, Worker1(), settings).value().spec.container;
  const kube::ContainerSpec cluster = BuildPod(job, Worker1(), {}).value().spec.container;

  EXPECT_EQ(here.env.at("LATE"), "$(OUT)") << "a variable that comes later";
  EXPECT_EQ(here.env.at("OUT"), "run-1");
  EXPECT_EQ(here.env.at("PICKED"), "run-1/$(OUT)/$(SELF)");
  const std::vector<std::string> words(here.command.begin() + 3, here.command.end());
  EXPECT_EQ(words,
            (std::vector<std::string>{
                "python3", "train.py", "--rank=1", "--out=run-1", "$(RANK)", "$(NONE)"}));
  EXPECT_EQ(cluster.env.at("OUT"), "run-$(RANK)");
  EXPECT_EQ(cluster.command.at(7), "$$(RANK)");
}

TEST(BuildPod, PodsThatAskForAnyDeviceSeeWhatTheirPluginShows) {
  for (const char* const resources : {R"({"limits": {"nvidia.com/gpu.shared": 1}})",
                                      R"({"limits": {"nvidia.com/mig-1g.10gb": "1"}})",
                                      R"({"requests": {"example.org/fpga": 1}})",
                                      R"({"claims": [{"name": "gpu"}]})"}) {
    TrainingJob job = MakeCommandJob(2);
    job.spec.roles[0].pod.raw.Edit()["spec"]["containers"][0]["resources"] =
        ParseJson(resources).value();
    EXPECT_EQ(
        BuildPod(job, Worker1(), {}).value().spec.container.env.count("NVIDIA_VISIBLE_DEVICES"), 0U)
        << resources;
  }
  for (const char* const resources : {R"({"limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}})",
                                      R"({"limits": {"kubernetes.io/batteries": 1}})",
                                      R"({"limits": {"nvidia.com/gpu.shared": 0}})"}) {
    TrainingJob job = MakeCommandJob(2);
    job.spec.roles[0].pod.raw.Edit()["spec"]["containers"][0]["resources"] =
        ParseJson(resources).value();
    EXPECT_EQ(BuildPod(job, Worker1(), {}).value().spec.container.env.at("NVIDIA_VISIBLE_DEVICES"),
              "none")
        << resources;
  }
}

TEST(BuildPod, OnlyPodsThatAskForGpusSeeSome) {
  TrainingJob job = MakeCommandJob(2);
  EXPECT_EQ(BuildPod(job, Worker1(), {}).value().spec.container.env.at("NVIDIA_VISIBLE_DEVICES"),
            "none");
  job.spec.roles[0].gpus = 2;

  const kube::Pod pod = BuildPod(job, Worker1(), {}).value();

  EXPECT_EQ(pod.spec.container.env.count("NVIDIA_VISIBLE_DEVICES"), 0U);
  EXPECT_EQ(pod.spec.container.requests.gpu_count, 2);
  EXPECT_EQ(pod.spec.container.limits.gpu_count, 2);
}

TEST(BuildPod, LabelsSayWhatThePodStandsFor) {
  TrainingJob job = MakeCommandJob(2);
  AddRole(Role::kEvaluator, 1, &job);
  const kube::Pod worker = BuildPod(job, Worker1(), {}).value();
  const kube::Pod evaluator =
      BuildPod(job, {{Role::kEvaluator, 0}, {}, Epoch(0), "node-a"}, {}).value();

  EXPECT_EQ(
      ParsePodLabels(worker.labels),
      (PodIdentityLabels{"mnist", "uid-1", {Role::kWorker, 1}, 1, {Attempt(2), Incarnation(3)}}));
  EXPECT_EQ(ParsePodLabels(evaluator.labels)->rank, std::nullopt);
}

TEST(PodLabels, MissingOrMalformedLabelIsNotOurs) {
  const Labels good =
      EncodePodLabels({"mnist", "uid-1", {Role::kWorker, 1}, 1, {Attempt(2), Incarnation(3)}});
  ASSERT_TRUE(ParsePodLabels(good).has_value());
  for (const auto& [key, value] : good) {
    Labels labels = good;
    labels.erase(key);
    EXPECT_EQ(ParsePodLabels(labels).has_value(), key == label::kRank) << "without " << key;
    if (key == label::kJob || key == label::kJobUid) {
      continue;  // any text will do
    }
    for (const char* bad : {"", "x", "-1", "01", "1 ", "99999999999999999999", "1.0"}) {
      labels = good;
      labels[key] = bad;
      EXPECT_FALSE(ParsePodLabels(labels).has_value()) << key << "='" << bad << "'";
    }
  }
}

}  // namespace
}  // namespace lockstep::control
