#include "operator/convert/torch_processes.h"

#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"

namespace lockstep::control {
namespace {

constexpr const char* kCommand =
    "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command: ";

// A PyTorchJob of two workers that run `command`.
Conversion ConvertTwoWorkers(const std::string& command,
                             int gpus = 0,
                             const std::string& more = "") {
  return ConvertText(
      "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: j}\nspec:\n"
      "  runPolicy: {backoffLimit: 1}\n" +
      more +
      "  pytorchReplicaSpecs:\n    Worker:\n      replicas: 2\n      template: {spec: "
      "{containers: [{name: pytorch, image: i, command: " +
      command + ", resources: {limits: {nvidia.com/gpu: " + std::to_string(gpus) + "}}}]}}\n");
}

constexpr const char* kAccelerateIsOut =
    "accelerate launch is left out: Lockstep starts every rank itself, and tells it who it is";
constexpr const char* kNoConfiguration =
    "; what a configuration file in the image says (accelerate config) is not in this file\n";

TEST(ConvertPyTorchJob, AccelerateGivesWayToProcessesAndVariables) {
  const Conversion conversion = ConvertTwoWorkers(
      "[accelerate, launch, --num_processes=4, --num_machines, '2', --mixed_precision, bf16, t.py, "
      "--lr, '1']",
      2);

  EXPECT_EQ(FirstRole(conversion)["processes"], 2);
  EXPECT_EQ(FirstContainer(conversion)["command"], Json({"python3", "t.py", "--lr", "1"}));
  EXPECT_EQ(FirstContainer(conversion)["env"],
            Json::array({{{"name", "ACCELERATE_MIXED_PRECISION"}, {"value", "bf16"}}}));
  EXPECT_EQ(NotesOf(conversion),
            std::string(kCommand) + kAccelerateIsOut + "; so are its options --num_machines 2" +
                kNoConfiguration);
}

// A PyTorchJob of one pod that asks for `devices` and runs `command`.
Conversion WithDevices(const std::string& command, const std::string& devices) {
  return ConvertText(
      "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: j}\nspec:\n"
      "  runPolicy: {backoffLimit: 1}\n"
      "  pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{name: pytorch, image: i, "
      "command: [" +
      command + "], resources: {limits: {" + devices + "}}}]}}}}\n");
}

constexpr const char* kCannotBeTold = "which meant a process for each device that PyTorch finds";

// What starts one process for each device goes by all that PyTorch knows of, whoever makes them.
TEST(ConvertPyTorchJob, DevicesOfOtherMakersAreCounted) {
  struct Row {
    std::string command;
    std::string devices;
    Json processes;
  };

  for (const Row& row : std::vector<Row>{
           {"torchrun, --nproc-per-node=auto, t.py", "amd.com/gpu: 4", 4},
           {"torchrun, --nproc-per-node=gpu, t.py", "amd.com/gpu: 4", 4},
           {"torchrun, t.py", "gpu.intel.com/i915: 2", 2},
           {"torchrun, --nproc-per-node=xpu, t.py", "gpu.intel.com/xe: 2", 2},
           {"torchrun, --nproc-per-node=npu, t.py", "huawei.com/Ascend910: 8", 8},
           {"accelerate, launch, t.py", "amd.com/gpu: 4", 4},
           {"deepspeed, t.py", "habana.ai/gaudi: 8", 8},
           {"torchrun, t.py", "nvidia.com/gpu: 4, rdma/hca: 4", Json()},
           {"accelerate, launch, t.py", "nvidia.com/gpu: 1, rdma/hca: 4", Json()},
           // CUDA shows a process one part of a GPU, however many a pod has.
           {"torchrun, t.py", "nvidia.com/mig-1g.5gb: 2", 1},
           {"accelerate, launch, t.py", "nvidia.com/mig-1g.5gb: 2", 1},
       }) {
    const Conversion conversion = WithDevices(row.command, row.devices);
    const Json processes = FirstRole(conversion).value("processes", Json());
    EXPECT_TRUE(processes == row.processes || (row.processes.is_null() && processes == 1))
        << row.command << ", " << row.devices << ": " << processes;
    EXPECT_EQ(NotesOf(conversion).find("TrainingJob has"), std::string::npos)
        << NotesOf(conversion);
  }
}

TEST(ConvertPyTorchJob, DevicesOfWhichNobodyKnowsWhetherPyTorchFindsThemAreSaid) {
  for (const char* const command : {"torchrun, --nproc-per-node=auto, t.py", "deepspeed, t.py"}) {
    const Conversion conversion = WithDevices(command, "acme.io/npu: 4");
    EXPECT_EQ(FirstRole(conversion)["processes"], 1);
    EXPECT_NE(NotesOf(conversion).find(kCannotBeTold), std::string::npos) << NotesOf(conversion);
    EXPECT_NE(NotesOf(conversion).find("among 4 of acme.io/npu cannot be told"), std::string::npos)
        << NotesOf(conversion);
  }
  const std::string told = "accelerate, launch, --num_processes, '4', t.py";
  EXPECT_EQ(FirstRole(WithDevices(told, "acme.io/npu: 4"))["processes"], 4);
  EXPECT_EQ(FirstRole(WithDevices(told, "nvidia.com/gpu: 1, rdma/hca: 4"))["processes"], 1);
  const Conversion claimed =
      WithDevices("torchrun, t.py", "cpu: 1}, claims: [{name: gpu}], requests: {cpu: 1");
  EXPECT_NE(NotesOf(claimed).find("among claim gpu cannot be told"), std::string::npos)
      << NotesOf(claimed);
  EXPECT_NE(NotesOf(WithDevices("torchrun, --nproc-per-node=gpu, t.py", "gpu.intel.com/xe: 4"))
                .find("\"gpu\" found where no GPU is asked for"),
            std::string::npos);
}

TEST(ConvertPyTorchJob, AccelerateThatIsToldNothingRunsAProcessForEachGpu) {
  EXPECT_FALSE(FirstRole(ConvertTwoWorkers("[accelerate, launch, t.py]", 2)).contains("processes"));
  EXPECT_EQ(FirstRole(ConvertTwoWorkers("[accelerate, launch, t.py]"))["processes"], 1);
}

// Each pod starts as many without --num_machines.
TEST(ConvertPyTorchJob, OtherNumberOfProcessesThanWasAskedForIsSaid) {
  const Conversion conversion =
      ConvertTwoWorkers("[accelerate, launch, --num_processes, '2', t.py]", 2);
  EXPECT_EQ(NotesOf(conversion),
            std::string(kCommand) + kAccelerateIsOut + kNoConfiguration + kCommand +
                "2 ranks were asked for in all; the job has 4, 2 in each of its pods: set the "
                "role's processes for another number\n");
}

// It starts several only with --multi_gpu, which a pod of several GPUs turns on, and without --cpu.
TEST(ConvertPyTorchJob, AccelerateRunsOneProcessWhereItWouldStartOne) {
  const std::string note = std::string(kCommand) +
                           "told of 4 processes a pod, accelerate launch "
                           "started one, and so does the job: ";
  const auto expect_one = [&](const std::string& options, int gpus) {
    const Conversion conversion =
        ConvertTwoWorkers("[accelerate, launch, " + options + ", t.py]", gpus);
    EXPECT_EQ(FirstRole(conversion)["processes"], 1) << options;
    const std::string notes = NotesOf(conversion);
    EXPECT_NE(notes.find(note), std::string::npos) << options << notes;
    EXPECT_EQ(notes.find("were asked for in all"), std::string::npos) << notes;
  };
  expect_one("--cpu, --num_processes, '4'", 4);
  expect_one("--num_processes, '4'", 0);
  expect_one("--num_processes, '4'", 1);
  expect_one("--cpu, --num_machines, '2', --num_processes, '8'", 0);

  const auto processes_of = [](const std::string& options, int gpus) {
    return FirstRole(
        ConvertTwoWorkers("[accelerate, launch, " + options + ", t.py]", gpus))["processes"];
  };
  EXPECT_EQ(processes_of("--num_processes, '4'", 2), 4);
  EXPECT_EQ(processes_of("--multi_gpu, --num_processes, '4'", 1), 4);
  EXPECT_EQ(processes_of("--cpu", 2), 1);
}

TEST(ConvertPyTorchJob, SettingsOfAccelerateThatCannotBeKeptAreRefused) {
  const Conversion conversion =
      ConvertTwoWorkers("[accelerate, launch, --config_file, a.yaml, t.py]");
  ASSERT_EQ(conversion.errors.size(), 1U);
  EXPECT_EQ(conversion.errors[0].field() + ": ", kCommand);
  EXPECT_TRUE(conversion.errors[0].message().starts_with(
      "--config_file a.yaml of accelerate launch cannot be kept: "));
}

TEST(ConvertPyTorchJob, DeepspeedGivesWayToProcesses) {
  const Conversion conversion =
      ConvertTwoWorkers("[deepspeed, --num_gpus, '2', --no_ssh, t.py, --deepspeed, ds.json]",
                        2,
                        "  nprocPerNode: \"4\"\n");

  EXPECT_EQ(FirstRole(conversion)["processes"], 2);
  EXPECT_EQ(FirstContainer(conversion)["command"],
            Json({"python3", "t.py", "--deepspeed", "ds.json"}));
  const std::string notes = NotesOf(conversion);
  EXPECT_NE(notes.find("deepspeed is left out: Lockstep starts every rank itself, and tells it who "
                       "it is; so are its options --no_ssh\n"),
            std::string::npos)
      << notes;
  EXPECT_NE(notes.find("its command starts deepspeed, whose own options say how many"),
            std::string::npos)
      << notes;
}

TEST(ConvertPyTorchJob, OtherMachinesThanDeepspeedTrainedOnAreSaid) {
  const auto notes = [](const std::string& options) {
    return NotesOf(ConvertTwoWorkers("[deepspeed, " + options + "t.py]", 1));
  };
  EXPECT_NE(notes("").find("deepspeed without a hostfile trained in each pod for itself: the job's "
                           "2 pods train together"),
            std::string::npos);
  EXPECT_EQ(notes("--hostfile, /h, ").find("for itself"), std::string::npos);
  EXPECT_NE(notes("--num_nodes, '3', ")
                .find("--num_nodes 3 was asked for; the job trains on all "
                      "of its pods, 2"),
            std::string::npos);
  EXPECT_EQ(notes("--num_nodes, '2', ").find("was asked for"), std::string::npos);
}

TEST(ConvertPyTorchJob, ProgramThatReadItsLocalRankFromItsArgumentsIsToldWhereItIs) {
  const auto notes = [](const std::string& command) { return NotesOf(ConvertTwoWorkers(command)); };
  EXPECT_NE(
      notes("[python, -m, torch.distributed.launch, --nproc_per_node=1, t.py]")
          .find(std::string(kCommand) +
                "the program is not given --local-rank (before torch 2: --local_rank) any more, "
                "which the launcher put first of its arguments: it has the number in the variable "
                "LOCAL_RANK, and must read it there\n"),
      std::string::npos);
  EXPECT_EQ(notes("[python, -m, torch.distributed.launch, --nproc_per_node=1, --use_env, t.py]")
                .find("LOCAL_RANK"),
            std::string::npos);
  EXPECT_EQ(notes("[torchrun, --nproc_per_node=1, t.py]").find("LOCAL_RANK"), std::string::npos);
  EXPECT_NE(notes("[deepspeed, t.py]").find("not given --local_rank any more"), std::string::npos);
}

TEST(ConvertPyTorchJob, ShellThatStartsAccelerateOrDeepspeedIsWarnedOf) {
  for (const char* const command : {"[sh, -c, 'exec accelerate launch t.py']",
                                    "[env, A=1, accelerate, launch, t.py]",
                                    "[bash, -c, 'cd /a; deepspeed t.py']"}) {
    EXPECT_NE(NotesOf(ConvertTwoWorkers(command)).find("seems to start"), std::string::npos)
        << command;
  }
  EXPECT_EQ(NotesOf(ConvertTwoWorkers("[python, t.py, --deepspeed, ds.json]")), "");
}

TEST(ConvertMpiJob, DeepspeedsProgramRunsInTheWorkersAsOneOfPyTorch) {
  const Conversion conversion = ConvertText(R"(
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: h}
spec:
  slotsPerWorker: 2
  runPolicy: {backoffLimit: 2}
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: l, image: i,
      command: [deepspeed, --hostfile, /etc/mpi/hostfile, t.py]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: i}]}}}
)");

  EXPECT_EQ(conversion.job["spec"]["strategy"], "MultiWorkerMirrored");
  EXPECT_EQ(FirstRole(conversion)["processes"], 2);
  EXPECT_EQ(FirstContainer(conversion)["command"], Json({"python3", "t.py"}));
  EXPECT_EQ(NotesOf(conversion).find("for itself"), std::string::npos);
  EXPECT_EQ(ForeignField(conversion, "spec.roles[0].processes"), "spec.slotsPerWorker");
}

TEST(ConvertMpiJob, ProcessesOfTheCommandComeFromThere) {
  const Conversion conversion = ConvertText(R"(
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: h}
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: l, image: i,
      command: [accelerate, launch, --multi_gpu, --num_processes, '4', t.py]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: i}]}}}
)");

  EXPECT_EQ(FirstRole(conversion)["processes"], 4);
  const std::string command = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command";
  EXPECT_EQ(ForeignField(conversion, "spec.roles[0].processes"), command);
  const std::string notes = NotesOf(conversion);
  EXPECT_NE(notes.find("4 ranks were asked for; the job has 8, 4 in each of its pods"),
            std::string::npos)
      << notes;
  EXPECT_NE(notes.find("spec.slotsPerWorker: not kept: accelerate launch says how many"),
            std::string::npos)
      << notes;
}

}  // namespace
}  // namespace lockstep::control
