#include "operator/reconcile/pods/pod_manifest.h"

#include <string>

#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "common/base/testing/paths.h"
#include "common/contract/environment/environment.h"
#include "operator/api/job_manifest.h"
#include "operator/capacity/pod_group.h"
#include "operator/reconcile/pods/pod.h"
#include "operator/reconcile/pods/pod_request.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

PodSettings Settings() {
  return SettingsForImages({"example/runtime:1", "Never", "cluster.local", "/data"});
}

std::string Load(const std::string& name) {
  return ReadFile(RepositoryFile("operator/reconcile/pods/testdata/" + name), kManifestBytesMax)
      .value();
}

kube::Pod BuildWorker1(const TrainingJob& job) {
  return BuildPod(job,
                  {{Role::kWorker, 1}, {Attempt(0), Incarnation(1)}, Epoch(2), "node-a"},
                  Settings())
      .value();
}

Json ManifestOf(const TrainingJob& job) {
  return PodManifest(job, BuildWorker1(job), Settings());
}

// A command job whose worker has this template.
TrainingJob JobWith(const std::string& pod_spec) {
  const std::string text =
      R"({"apiVersion": "lockstep.dev/v1", "kind": "TrainingJob", "metadata": {"name": "job"}, )"
      R"("spec": {"roles": [{"name": "worker", "replicas": 2, "template": {"spec": )" +
      pod_spec + "}}]}}";
  const Manifest manifest = ReadManifest(text, "job.json");
  EXPECT_EQ(FormatProblems(manifest), "");
  return manifest.jobs.front();
}

std::vector<std::string> VolumesOf(const Json& pod) {
  std::vector<std::string> names;
  for (const Json& volume : pod.at("spec").value("volumes", Json::array())) {
    names.push_back(volume.at("name"));
  }
  return names;
}

const Json& TrainerIn(const Json& pod) {
  return pod.at("spec").at("containers").at(0);
}

// The variable's value; "-" when it is not there, "(twice)" when it is there twice.
std::string VariableIn(const Json& container, const std::string& name) {
  std::string found = "-";
  for (const Json& variable : container.value("env", Json::array())) {
    if (variable.at("name") == name) {
      found = found == "-" ? variable.value("value", "") : "(twice)";
    }
  }
  return found;
}

// The environment holds long documents of the contract, which has tests of its own: a snapshot
// keeps the names only.
Json WithoutValues(Json pod) {
  for (Json& container : pod["spec"]["containers"]) {
    for (Json& variable : container["env"]) {
      const std::string name = variable["name"];
      if (name.starts_with("LOCKSTEP_") || name.starts_with("HOROVOD_") || name == "TF_CONFIG") {
        variable["value"] = "...";
      }
    }
  }
  return pod;
}

TEST(PodManifest, WholePodsAreAsWrittenDown) {
  for (const std::string name : {"trainer", "command"}) {
    const Manifest manifest = ReadManifest(Load(name + ".yaml"), name + ".yaml");
    ASSERT_EQ(FormatProblems(manifest), "");

    const Json pod = ManifestOf(manifest.jobs.front());

    EXPECT_EQ(DumpJsonPretty(WithoutValues(pod)) + "\n", Load(name + ".pod.json")) << name;
  }
}

TEST(PodManifest, PortOfTheMetricsIsDeclaredOnce) {
  const Json own = {{"name", "status"}, {"containerPort", 2223}};
  const Json other = {{"containerPort", 8888}};
  const auto ports_of = [](const Json& ports) {
    const Json container = {{"command", Json::array({"run"})}, {"ports", ports}};
    const TrainingJob job = JobWith(DumpJson({{"containers", Json::array({container})}}));
    return TrainerIn(ManifestOf(job)).at("ports");
  };
  const Json declared = {{"containerPort", 2223}, {"protocol", "TCP"}};
  EXPECT_EQ(ports_of(Json::array({other})), Json::array({other, declared}));
  EXPECT_EQ(ports_of(Json::array({own})), Json::array({own}));
}

TEST(PodManifest, ValuesThatTheClusterKeepsAreHandedOnAsWritten) {
  const Json sources = Json::array(
      {{{"name", "TOKEN"}, {"valueFrom", {{"secretKeyRef", {{"name", "s"}, {"key", "k"}}}}}},
       {{"name", "POD"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.name"}}}}}}});
  const Json maps = Json::array({{{"secretRef", {{"name", "s"}}}}});
  const Json container = {{"name", "main"},
                          {"image", "i"},
                          {"command", Json::array({"run"})},
                          {"env", sources},
                          {"envFrom", maps}};
  const TrainingJob job = JobWith(DumpJson({{"containers", Json::array({container})}}));

  const Json trainer = TrainerIn(ManifestOf(job));

  EXPECT_EQ(trainer["envFrom"], maps);
  std::vector<Json> found;
  for (const Json& variable : trainer["env"]) {
    if (variable["name"] == "TOKEN" || variable["name"] == "POD") {
      found.push_back(variable);
    }
  }
  EXPECT_EQ(Json(found), sources);
}

// With the node's resolver no pod finds another.
TEST(PodManifest, PodsInTheirNodesNetworkFindEachOtherByName) {
  const std::string containers = R"("containers": [{"command": ["python3"]}])";
  const auto policy_of = [&](const std::string& fields) {
    const Json spec = ManifestOf(JobWith("{" + fields + containers + "}")).at("spec");
    return spec.value("dnsPolicy", "");
  };
  EXPECT_EQ(policy_of(R"("hostNetwork": true, )"), "ClusterFirstWithHostNet");
  EXPECT_EQ(policy_of(R"("hostNetwork": true, "dnsPolicy": "Default", )"), "Default");
  EXPECT_EQ(policy_of(R"("hostNetwork": false, )"), "");
}

TEST(PodManifest, DirectBindingNamesTheNodeAndLeavesAffinityAlone) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.scheduling.binding = PodBinding::kDirect;

  const Json pod = ManifestOf(job);

  EXPECT_EQ(pod["spec"]["nodeName"], "node-a");
  EXPECT_FALSE(pod["spec"].contains("affinity"));
}

// A job whose gang kube-scheduler places, and its first worker's pod.
TrainingJob NativeJob() {
  TrainingJob job = MakeCommandJob(2);
  job.spec.scheduling.binding = PodBinding::kNative;
  job.status.pod_group = "mnist-uid-1-0";
  for (int64_t index = 0; index < 2; ++index) {
    PodPlacement placement;
    placement.index = index;
    placement.node = "node-a";
    placement.since = WallTime{std::chrono::seconds(1000)};
    job.status.placement.push_back(placement);
  }
  return job;
}

Json NativeManifestOf(const TrainingJob& job) {
  const PodRequest request = RequestPod(job, job.status, {Role::kWorker, 0});
  return PodManifest(job, BuildPod(job, request, Settings()).value(), Settings());
}

TEST(PodManifest, NativeBindingNamesThePodGroupAndNoNode) {
  const Json spec = NativeManifestOf(NativeJob())["spec"];

  EXPECT_EQ(spec["schedulingGroup"], Json({{"podGroupName", "mnist-uid-1-0"}}));
  EXPECT_FALSE(spec.contains("nodeName"));
  EXPECT_FALSE(spec.contains("affinity"));
}

TEST(PodManifest, SuccessorOfANativeGangIsInNoPodGroupAndOnNoNode) {
  TrainingJob job = NativeJob();
  job.status.placement[0].incarnation = Incarnation(1);

  const Json spec = NativeManifestOf(job)["spec"];

  EXPECT_FALSE(spec.contains("schedulingGroup"));
  EXPECT_FALSE(spec.contains("nodeName"));
  EXPECT_FALSE(spec.contains("affinity"));
}

TEST(PodManifest, EditOfBindingChangesNothingOfAGangThatHasItsPlaces) {
  TrainingJob job = NativeJob();
  job.spec.scheduling.binding = PodBinding::kDirect;
  EXPECT_FALSE(NativeManifestOf(job)["spec"].contains("nodeName"));
  job.spec.scheduling.binding = PodBinding::kNative;
  job.status.pod_group.clear();
  const Json spec = NativeManifestOf(job)["spec"];
  EXPECT_FALSE(spec.contains("schedulingGroup"));
  EXPECT_EQ(DumpJson(spec["affinity"]),
            R"({"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":)"
            R"({"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In",)"
            R"("values":["node-a"]}]}]}}})");
}

TEST(PodManifest, NativeBindingKeepsFromSuspectsThatThePlanDoesWithout) {
  TrainingJob job = NativeJob();
  const WallTime later{std::chrono::seconds(1001)};
  job.status.suspect_nodes = {{"node-a", "PodRefused", 1, later},
                              {"node-b", "PodRefused", 1, later},
                              {"node-c", "PodRefused", 1, WallTime{std::chrono::seconds(999)}},
                              {"node-d", "PodRefused", 2, later}};
  job.spec.roles[0].pod.raw = ParseJson(R"({"spec": {"affinity": {"nodeAffinity":
      {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, {}]}}}}})")
                                  .value();

  const Json terms =
      NativeManifestOf(job)["spec"]["affinity"]["nodeAffinity"]
                           ["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];

  EXPECT_EQ(DumpJson(terms[0]["matchFields"]),
            R"([{"key":"metadata.name","operator":"NotIn","values":["node-b"]},)"
            R"({"key":"metadata.name","operator":"NotIn","values":["node-d"]}])");
  EXPECT_EQ(terms[0]["matchExpressions"].size(), 1U);
  EXPECT_EQ(terms[1], Json::object()) << "it matches no node, and is to go on so";
}

TEST(PodManifest, DollarsOfTheContractAreNotExpanded) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.training->checkpoint.directory = "/mnt/$(HOME)$";

  EXPECT_EQ(VariableIn(TrainerIn(ManifestOf(job)), "LOCKSTEP_CHECKPOINT_DIR"), "/mnt/$$(HOME)$$");
}

TEST(PodManifest, UnsupervisedRoleRunsItsCommandAndGetsNeitherRuntimeNorKey) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].supervise = false;

  const Json pod = ManifestOf(job);

  EXPECT_EQ(TrainerIn(pod)["command"], Json::array({"python3", "train.py"}));
  EXPECT_FALSE(pod["spec"].contains("initContainers"));
  EXPECT_EQ(VolumesOf(pod), (std::vector<std::string>{"lockstep-shm"}));
  EXPECT_NE(VariableIn(TrainerIn(pod), "RANK"), "-");
}

TEST(PodManifest, ImageOfTheTemplateIsKeptForTheTrainer) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.roles[0].pod.raw =
      Json::object({{"spec", {{"containers", Json::array({{{"image", "example/train:1"}}})}}}});

  const Json pod = ManifestOf(job);

  EXPECT_EQ(TrainerIn(pod)["image"], "example/train:1");
  EXPECT_FALSE(TrainerIn(pod).contains("imagePullPolicy"));
  EXPECT_FALSE(pod["spec"].contains("initContainers"));
}

// What only the API server can judge passes through, whatever it is.
TEST(PodManifest, ValuesOfAWrongTypeAreLeftToTheApiServer) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].pod.raw.Edit()["spec"] =
      ParseJson(R"({"affinity": "near", "securityContext": 7, "volumes": "all", "containers": [)"
                R"({"command": ["a"], "volumeMounts": {}, "securityContext": []}]})")
          .value();

  const Json pod = ManifestOf(job);

  EXPECT_EQ(pod["spec"]["affinity"], "near");
  EXPECT_EQ(pod["spec"]["volumes"], "all");
  EXPECT_EQ(TrainerIn(pod)["volumeMounts"], Json::object());
  EXPECT_EQ(TrainerIn(pod)["securityContext"], Json::array());
}

TEST(PodManifest, PodsThatAskForNoDeviceSeeNoGpu) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].pod.raw.Edit()["spec"] = {
      {"initContainers", Json::array({{{"name", "fetch"}}})},
      {"containers",
       Json::array(
           {{{"name", "trainer"}, {"command", Json::array({"a"})}},
            {{"name", "all"},
             {"env", Json::array({{{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "all"}}})}}})}};

  const Json spec = ManifestOf(job)["spec"];

  ASSERT_EQ(spec["initContainers"].size(), 2U);
  EXPECT_EQ(spec["initContainers"][0]["name"], "lockstep-install");
  EXPECT_EQ(VariableIn(spec["initContainers"][0], kNvidiaVisibleDevices), "none");
  EXPECT_EQ(VariableIn(spec["initContainers"][1], kNvidiaVisibleDevices), "none");
  EXPECT_EQ(VariableIn(spec["containers"][0], kNvidiaVisibleDevices), "none");
  EXPECT_EQ(VariableIn(spec["containers"][1], kNvidiaVisibleDevices), "all");
}

// The variable of the pod beats the device plugin's, of whatever resource name that is.
TEST(PodManifest, NothingIsHiddenInAPodThatAsksForADevice) {
  for (const char* const name : {"nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"}) {
    const TrainingJob job =
        JobWith(R"({"initContainers": [{"name": "look", "image": "i"}], "containers": [)"
                R"({"image": "i", "command": ["a"], "resources": {"limits": {")" +
                std::string(name) + R"(": 1}}}]})");

    const Json spec = ManifestOf(job)["spec"];

    EXPECT_EQ(VariableIn(spec["containers"][0], kNvidiaVisibleDevices), "-") << name;
    EXPECT_EQ(VariableIn(spec["initContainers"][1], kNvidiaVisibleDevices), "-") << name;
  }
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].gpus = 1;
  const Json spec = ManifestOf(job)["spec"];
  EXPECT_EQ(VariableIn(spec["containers"][0], kNvidiaVisibleDevices), "-");
  EXPECT_EQ(spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "1");
}

// An image of somebody else's may have to be root, and the kubelet would not start it.
TEST(PodManifest, OnlyOurImageIsRestrictedWhereTheLevelDoesNotDemandIt) {
  const TrainingJob job =
      JobWith(R"({"initContainers": [{"name": "fetch", "image": "i"}], "containers": [)"
              R"({"image": "i", "command": ["a"]}]})");
  PodSettings settings = Settings();
  const auto restricted = [&](const Json& container) {
    return container.contains("securityContext") &&
           container["securityContext"].value("runAsNonRoot", false);
  };

  const Json open = PodManifest(job, BuildWorker1(job), settings)["spec"];
  settings.pod_security = PodSecurityLevel::kRestricted;
  const Json strict = PodManifest(job, BuildWorker1(job), settings)["spec"];

  EXPECT_TRUE(restricted(open["initContainers"][0])) << "the installer";
  EXPECT_FALSE(open["initContainers"][1].contains("securityContext"));
  EXPECT_FALSE(open["containers"][0].contains("securityContext"));
  EXPECT_TRUE(restricted(strict["initContainers"][1]));
  EXPECT_TRUE(restricted(strict["containers"][0]));
}

TEST(PodManifest, SecretsOfTheRuntimeImageComeBesideTheTemplates) {
  PodSettings settings = Settings();
  settings.runtime_image_pull_secrets = {"registry", "mirror"};
  TrainingJob job = JobWith(R"({"imagePullSecrets": [{"name": "mine"}, {"name": "mirror"}], )"
                            R"("containers": [{"image": "i", "command": ["a"]}]})");
  const auto secrets = [&] {
    const Json pod = PodManifest(job, BuildWorker1(job), settings);
    return pod["spec"].value("imagePullSecrets", Json::array());
  };

  EXPECT_EQ(secrets(),
            Json::array({{{"name", "mine"}}, {{"name", "mirror"}}, {{"name", "registry"}}}));
  job.spec.roles[0].supervise = false;  // our image is not in the pod
  EXPECT_EQ(secrets(), Json::array({{{"name", "mine"}}, {{"name", "mirror"}}}));
}

std::vector<std::string> VariablesOf(const Json& pod) {
  std::vector<std::string> names;
  for (const Json& variable : TrainerIn(pod).at("env")) {
    names.push_back(variable.at("name"));
  }
  return names;
}

// Names of variables stand in the managed fields of a pod once more, and the API server merges
// those at every write of its status.
TEST(PodManifest, PodsAreToldWhatTheRuntimeCannotFindOut) {
  EXPECT_EQ(VariablesOf(ManifestOf(MakeCommandJob(500))),
            (std::vector<std::string>{"LOCKSTEP_CLUSTER",
                                      "LOCKSTEP_DATA_DIR",
                                      "LOCKSTEP_EPOCH",
                                      "LOCKSTEP_JOB_KEY_FILE",
                                      "LOCKSTEP_JOB_UID",
                                      "LOCKSTEP_NAMESPACE",
                                      "LOCKSTEP_POD",
                                      "LOCKSTEP_RENDEZVOUS_TIMEOUT_SECONDS",
                                      "LOCKSTEP_TERMINATION_MESSAGE_FILE",
                                      "NVIDIA_VISIBLE_DEVICES"}));
}

// Those who read a pod's variables without our runtime, or with one that may not know the brief
// form, get all of them.
TEST(PodManifest, PodsThatNeedEveryVariableHaveIt) {
  TrainingJob unsupervised = MakeCommandJob(2);
  unsupervised.spec.roles[0].supervise = false;
  TrainingJob older = MakeCommandJob(2);
  older.status.origin.runtime_image = "example/runtime:0";
  TrainingJob own_image = MakeTrainingJob(2);
  own_image.spec.roles[0].pod.image = "example/train:1";
  const auto with = [](const std::string& field) {
    return JobWith(R"({"containers": [{"image": "i", "command": ["python3", "a.py"], )" + field +
                   "}]}");
  };
  const std::vector<std::pair<const char*, TrainingJob>> jobs = {
      {"not supervised", unsupervised},
      {"the gang's runtime is of another version", older},
      {"the runtime is in the user's image", own_image},
      {"an argument", with(R"json("args": ["--rank=$(RANK)"])json")},
      {"a value", with(R"json("env": [{"name": "A", "value": "x$(LOCKSTEP_RANK)"}])json")},
      {"a value of its own", with(R"("env": [{"name": "MASTER_PORT", "value": "31000"}])")},
      {"a hook", with(R"("lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "$RANK"]}}})")},
  };
  for (const auto& [what, job] : jobs) {
    const Json trainer = TrainerIn(ManifestOf(job));
    EXPECT_EQ(VariableIn(trainer, "RANK"), "1") << what;
    EXPECT_EQ(VariableIn(trainer, "LOCKSTEP_RANK"), "1") << what;
    EXPECT_NE(VariableIn(trainer, "TF_CONFIG"), "-") << what;
  }
  older.status.origin.runtime_image = Settings().runtime_image;
  EXPECT_EQ(VariableIn(TrainerIn(ManifestOf(older)), "RANK"), "-");
}

// What the API server stores, and sends to all who watch, for every pod of a job.
TEST(PodManifest, PodsStayBelowThreeKilobytesAtAnySize) {
  for (const int workers : {2, 8, 12, 16, 24, 32, 64, 96, 500, 1500, 4096}) {
    const Json pod = ManifestOf(MakeCommandJob(workers));
    EXPECT_LT(DumpJson(pod).size(), 3000U) << workers << " workers";
  }
}

TEST(PodManifest, TrainerWithoutGpusSeesNoneOnce) {
  EXPECT_EQ(VariableIn(TrainerIn(ManifestOf(MakeTrainingJob(2))), kNvidiaVisibleDevices), "none");
}

struct MountCase {
  const char* what;
  const char* checkpoint_directory;
  const char* user_mount;     // empty: none
  const char* expected_path;  // of the scratch volume; empty: none is added
};

TEST(PodManifest, ScratchVolumeStandsInWhereTheTemplateMountsNone) {
  const std::vector<MountCase> cases = {
      {"relative", "checkpoints", "", "/lockstep/work"},
      {"absolute", "/ckpt/run", "", "/ckpt/run"},
      {"mounted there", "/ckpt", "/ckpt/", ""},
      {"mounted above", "/ckpt/run", "/ckpt", ""},
      {"mounted at a longer name", "/ckpt", "/ckpt-old", "/ckpt"},
      {"mounted over the job's folder", "checkpoints", "/lockstep/work", ""},
  };
  for (const MountCase& one : cases) {
    SCOPED_TRACE(one.what);
    TrainingJob job = MakeTrainingJob(2);
    job.spec.training->checkpoint.directory = one.checkpoint_directory;
    Json container = Json::object();
    if (*one.user_mount != '\0') {
      container["volumeMounts"] = Json::array({{{"name", "v"}, {"mountPath", one.user_mount}}});
    }
    job.spec.roles[0].pod.raw.Edit()["spec"]["containers"] = Json::array({container});
    std::string path;
    const Json pod = ManifestOf(job);
    for (const Json& mount : TrainerIn(pod)["volumeMounts"]) {
      path = mount["name"] == "lockstep-work" ? mount["mountPath"].get<std::string>() : path;
    }

    EXPECT_EQ(path, one.expected_path);
  }
}

// The size that a pod's /dev/shm may have; "-": no bound of its own, "": not ours.
std::string SharedMemoryOf(const TrainingJob& job) {
  const Json pod = ManifestOf(job);
  for (const Json& volume : pod.at("spec").value("volumes", Json::array())) {
    if (volume.at("name") == "lockstep-shm") {
      return volume.at("emptyDir").value("sizeLimit", "-");
    }
  }
  return "";
}

TEST(PodManifest, SharedMemoryIsAsLargeAsTheRoleSaysOrHalfOfTheMemoryLimit) {
  const auto with = [](const std::string& more) {
    return JobWith(R"({"containers": [{"command": ["python3", "train.py"])" + more + "}]}");
  };
  TrainingJob job = with("");
  EXPECT_EQ(SharedMemoryOf(job), "-");
  job.spec.roles[0].shared_memory = 3'000'000;
  EXPECT_EQ(SharedMemoryOf(job), "3000000");
  EXPECT_EQ(SharedMemoryOf(with(R"(, "resources": {"limits": {"memory": "3Gi"}})")), "1610612736");
  EXPECT_EQ(SharedMemoryOf(with(R"(, "resources": {"limits": {"memory": 100000000}})")),
            "67108864");
  EXPECT_EQ(SharedMemoryOf(with(R"(, "volumeMounts": [{"name": "a", "mountPath": "/dev/shm"}])")),
            "");
}

TEST(PodManifest, InstallerAsksForNoMoreThanTheTrainer) {
  const TrainingJob job = JobWith(
      R"({"containers": [{"command": ["a"], "resources": {)"
      R"("requests": {"cpu": 2, "nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 1}}}]})");

  EXPECT_EQ(ManifestOf(job)["spec"]["initContainers"][0]["resources"],
            Json({{"requests", {{"cpu", 2}}}}));
}

}  // namespace
}  // namespace lockstep::control
