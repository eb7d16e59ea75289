#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

constexpr const char* kOfPyTorch =
    "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command: ";

struct Pods {
  int count = 2;
  int gpus = 0;
  std::string env = {};
  std::string more = {};  // of the job
};

// A PyTorchJob or TFJob of `pods` that run `command`.
std::string LaunchedJob(const std::string& kind, const std::string& command, const Pods& pods) {
  const bool is_torch = kind == "PyTorchJob";
  return "apiVersion: kubeflow.org/v1\nkind: " + kind +
         "\nmetadata: {name: j}\nspec:\n  runPolicy: {backoffLimit: 1}\n" + pods.more + "  " +
         (is_torch ? "pytorch" : "tf") +
         "ReplicaSpecs:\n    Worker:\n      replicas: " + std::to_string(pods.count) +
         "\n      template: {spec: {containers: [{name: " + (is_torch ? "pytorch" : "tensorflow") +
         ", image: i, command: [" + command + "], env: [" + pods.env +
         "], resources: {limits: {nvidia.com/gpu: " + std::to_string(pods.gpus) + "}}}]}}\n";
}

Conversion ConvertPyTorch(const std::string& command, const Pods& pods = {}) {
  return ConvertText(LaunchedJob("PyTorchJob", command, pods));
}

Json ProcessesOf(const Conversion& conversion) {
  return conversion.job["spec"]["roles"][0].value("processes", Json());
}

bool HasNote(const Conversion& conversion, const std::string& text) {
  return NotesOf(conversion).find(text) != std::string::npos;
}

TEST(ConvertPyTorchJob, MpirunMakesAHorovodJobOfAsManyRanks) {
  const Conversion alone =
      ConvertPyTorch("horovodrun, -np, '4', -H, 'localhost:4', python, t.py", {1, 4});
  EXPECT_EQ(alone.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(ProcessesOf(alone), 4);
  EXPECT_FALSE(HasNote(alone, "asked for")) << NotesOf(alone);

  const Conversion several = ConvertPyTorch("mpirun, -np, '8', python, t.py", {2, 4});
  EXPECT_EQ(several.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(ProcessesOf(several), 8);
  EXPECT_TRUE(HasNote(several,
                      std::string(kOfPyTorch) +
                          "8 ranks were asked for; the job has 16, 8 in each of its pods: set the "
                          "role's processes for another number\n"))
      << NotesOf(several);
  EXPECT_TRUE(HasNote(several, "it needs mpirun"));

  EXPECT_EQ(ProcessesOf(ConvertPyTorch("mpirun, -np, '8', -npernode, '4', python, t.py")), 4);
  EXPECT_TRUE(HasNote(ConvertPyTorch("mpirun, python, t.py"),
                      "mpirun that is told no number starts as many ranks as the pod has cores; "
                      "the job has 2, 1 in each of its pods"));
}

TEST(ConvertPyTorchJob, LauncherBehindMpirunIsCountedInEachPod) {
  const auto notes = [](const std::string& mpirun) {
    return NotesOf(ConvertPyTorch(mpirun + ", torchrun, --nproc-per-node=2, --nnodes=2, t.py"));
  };
  EXPECT_NE(notes("mpirun, -np, '2'")
                .find("mpirun was to start torchrun 2 times; the job has the processes of one in "
                      "each of its pods\n"),
            std::string::npos);
  EXPECT_EQ(notes("mpirun, -np, '1'").find("times"), std::string::npos);
  EXPECT_EQ(notes("mpirun, -pernode").find("times"), std::string::npos);
}

TEST(ConvertTfJob, HorovodrunMakesAHorovodJobOfAsManyRanks) {
  const std::string text = LaunchedJob("TFJob", "horovodrun, -np, '4', python, t.py", {1, 4});
  const Conversion conversion = ConvertText(text);
  EXPECT_EQ(conversion.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(ProcessesOf(conversion), 4);

  std::string with_ps = text;
  with_ps +=
      "    PS: {template: {spec: {containers: [{name: tensorflow, image: i, command: [a]}]}}}\n";
  EXPECT_EQ(ErrorsOf(ConvertText(with_ps)),
            "spec.tfReplicaSpecs.PS: found beside mpirun or horovodrun, expected none: Horovod has "
            "no such role\n");
}

TEST(ConvertPyTorchJob, CountsThatAreVariablesOfTheContainerAreRead) {
  const std::string n = "{name: M, value: '4'}, {name: K, value: $(M)}";
  EXPECT_EQ(ProcessesOf(ConvertPyTorch("torchrun, '--nproc-per-node=$(K)', t.py", {2, 0, n})), 4);
  EXPECT_EQ(ProcessesOf(ConvertPyTorch("deepspeed, '--num_gpus=$(K)', t.py", {2, 4, n})), 4);
  EXPECT_EQ(
      ProcessesOf(ConvertPyTorch("accelerate, launch, --num_processes, $(K), t.py", {2, 4, n})), 4);
}

TEST(ConvertPyTorchJob, CountsThatTheFileDoesNotHaveAreSaid) {
  const std::string unknown =
      "\"$(K)\": how many processes that is cannot be told from this file; ";
  for (const char* const command :
       {"torchrun, '--nproc-per-node=$(K)', t.py", "deepspeed, '--num_gpus=$(K)', t.py"}) {
    const Conversion one = ConvertPyTorch(command);
    EXPECT_EQ(ProcessesOf(one), 1);
    EXPECT_TRUE(HasNote(one, kOfPyTorch + unknown + "a TrainingJob has one in each pod: set the"))
        << NotesOf(one);
    const Conversion by_gpu = ConvertPyTorch(command, {2, 4});
    EXPECT_EQ(ProcessesOf(by_gpu), Json());
    EXPECT_TRUE(HasNote(by_gpu, kOfPyTorch + unknown + "a TrainingJob has one for each GPU: set"))
        << NotesOf(by_gpu);
  }
}

TEST(ConvertPyTorchJob, CountsThatTorchrunRefusesAreRefused) {
  const std::string expected =
      " found, expected a number from 1 to 9999, auto, gpu or cpu, as torchrun does\n";
  for (const char* const count : {"x", "0", "${N:-4}"}) {
    EXPECT_EQ(
        ErrorsOf(ConvertPyTorch("torchrun, --nproc-per-node, '" + std::string(count) + "', t.py")),
        std::string(kOfPyTorch) + "--nproc-per-node " + count + " of torchrun" + expected);
  }
  EXPECT_EQ(ErrorsOf(ConvertPyTorch("torchrun, --nproc-per-node, $(K), t.py",
                                    {2, 0, "{name: K, value: x}"})),
            std::string(kOfPyTorch) + "--nproc-per-node $(K) (= x) of torchrun" + expected);
  for (const char* const count : {"x", "0"}) {
    const std::string more = "  nprocPerNode: \"" + std::string(count) + "\"\n";
    EXPECT_EQ(ErrorsOf(ConvertPyTorch("torchrun, t.py", {2, 4, "", more})),
              "spec.nprocPerNode: \"" + std::string(count) + "\"" + expected);
  }
  const Conversion gpu = ConvertPyTorch("torchrun, --nproc-per-node=gpu, t.py");
  EXPECT_EQ(ProcessesOf(gpu), 1);
  EXPECT_TRUE(HasNote(
      gpu,
      std::string(kOfPyTorch) + "\"gpu\" found where no GPU is asked for, which torchrun refuses"))
      << NotesOf(gpu);
  EXPECT_FALSE(HasNote(gpu, "cores"));
  EXPECT_TRUE(HasNote(ConvertPyTorch("torchrun, --nproc-per-node=npu, t.py"),
                      "\"npu\", which meant a process for each of these devices"));
}

TEST(ConvertPyTorchJob, OtherNodesThanTorchrunTrainedOnAreSaid) {
  const std::string alone =
      std::string(kOfPyTorch) +
      "torchrun for one node trained in each pod for itself: the job's 2 pods train together, one "
      "model; for one pod that trains alone set replicas to 1\n";
  const auto of = [](const std::string& options, int pods) {
    return ConvertPyTorch("torchrun, " + options + ", --nproc-per-node=2, t.py", {pods});
  };
  EXPECT_TRUE(HasNote(of("--standalone", 2), alone));
  EXPECT_TRUE(HasNote(of("--nnodes=1", 2), alone));
  EXPECT_FALSE(HasNote(of("--standalone", 1), "for itself"));
  EXPECT_TRUE(HasNote(of("--nnodes=5", 2),
                      std::string(kOfPyTorch) +
                          "--nnodes 5 was asked for; the job trains on all of its pods, 2: set"));
  for (const char* const nodes : {"--nnodes=2", "--nnodes=$(PET_NNODES)"}) {
    EXPECT_FALSE(HasNote(of(nodes, 2), "its pods")) << nodes;
    EXPECT_FALSE(HasNote(of(nodes, 2), "for itself")) << nodes;
  }
}

TEST(ConvertPyTorchJob, RangeOfNodesIsHeldAgainstThePods) {
  const auto of = [](const std::string& nodes, int pods) {
    return ConvertPyTorch("torchrun, --nnodes, '" + nodes + "', --nproc-per-node=2, t.py", {pods});
  };
  EXPECT_TRUE(HasNote(of("1:1", 2), "torchrun for one node trained in each pod for itself"));
  EXPECT_TRUE(HasNote(of("3:4", 2),
                      std::string(kOfPyTorch) +
                          "--nnodes 3:4 was asked for; the job trains on all of its pods, 2: set"));
  EXPECT_TRUE(HasNote(of("1:2", 3), "--nnodes 1:2 was asked for"));
  EXPECT_TRUE(HasNote(of("1:4", 2),
                      std::string(kOfPyTorch) +
                          "--nnodes 1:4: the job trains on all of its pods, 2, and keeps its size "
                          "until somebody scales it\n"));
  EXPECT_TRUE(HasNote(of("$(K)", 2),
                      "--nnodes $(K): how many nodes that is cannot be told from this file; the "
                      "job trains on all of its pods, 2\n"));
  EXPECT_FALSE(HasNote(of("2:2", 2), "all of its pods"));
  for (const char* const nodes : {"x", "0", "4:3", "1:2:3", "2:", ""}) {
    EXPECT_EQ(ErrorsOf(of(nodes, 2)),
              std::string(kOfPyTorch) + "--nnodes " + nodes +
                  " of torchrun found, expected a number from 1 to 9999, or MIN:MAX of such, as "
                  "torchrun does\n");
  }
  EXPECT_EQ(ErrorsOf(ConvertPyTorch("deepspeed, --num_nodes, x, t.py")),
            std::string(kOfPyTorch) +
                "--num_nodes x of deepspeed found, expected a number from 1 to 9999\n");
  EXPECT_EQ(ErrorsOf(ConvertPyTorch("deepspeed, --num_nodes, '-1', t.py")), "");
}

TEST(ConvertPyTorchJob, AccelerateThatStartsOneProcessIsToldOf) {
  const std::string one = std::string(kOfPyTorch) +
                          "accelerate launch started one process in each pod, and so does the job";
  EXPECT_TRUE(HasNote(ConvertPyTorch("accelerate, launch, t.py"), one));
  EXPECT_TRUE(HasNote(ConvertPyTorch("accelerate, launch, --cpu, t.py", {2, 4}), one));
  EXPECT_FALSE(HasNote(ConvertPyTorch("accelerate, launch, t.py", {2, 1}), one));
  EXPECT_FALSE(HasNote(ConvertPyTorch("accelerate, launch, t.py", {2, 4}), one));
}

// torchrun, by which it starts several, reads PET_NNODES: that of the operator.
TEST(ConvertPyTorchJob, AccelerateThatKnewOfNoOtherPodIsToldOf) {
  const std::string alone = "accelerate launch for one node trained in each pod for itself: the";
  EXPECT_TRUE(HasNote(ConvertPyTorch("accelerate, launch, t.py", {2, 1}), alone));
  EXPECT_FALSE(HasNote(ConvertPyTorch("accelerate, launch, t.py", {1, 1}), alone));
  EXPECT_FALSE(HasNote(ConvertPyTorch("accelerate, launch, t.py", {2, 4}), alone));
}

constexpr const char* kVariables =
    "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].env";

TEST(ConvertPyTorchJob, SettingsOfTorchrunInVariablesAreReadAsItsOptions) {
  const std::string env =
      "{name: PET_STANDALONE, value: '1'}, {name: PET_MAX_RESTARTS, value: '3'}, {name: "
      "PET_NO_PYTHON, value: '1'}, {name: PET_MODULE, value: '0'}, {name: PET_RDZV_ID, valueFrom: "
      "{secretKeyRef: {name: s, key: k}}}";
  const Conversion conversion = ConvertPyTorch("torchrun, --nproc-per-node=2, ./t", {2, 0, env});
  EXPECT_EQ(conversion.job["spec"]["roles"][0]["template"]["spec"]["containers"][0]["command"],
            Json({"./t"}));
  EXPECT_TRUE(HasNote(conversion, "torchrun for one node trained in each pod for itself"));
  EXPECT_TRUE(HasNote(conversion, "so are its options PET_MAX_RESTARTS=3, PET_STANDALONE=1"))
      << NotesOf(conversion);
  EXPECT_TRUE(HasNote(conversion,
                      std::string(kVariables) +
                          "[0]: PET_STANDALONE is read as an option of torchrun's: it says nothing "
                          "to the job\n"));
  EXPECT_TRUE(HasNote(conversion,
                      std::string(kVariables) +
                          "[4]: PET_RDZV_ID is not heeded: torchrun read it, which is left out\n"));
}

// Kubeflow's operator adds its own behind those of the manifest.
TEST(ConvertPyTorchJob, SettingsThatTheOperatorGivesTorchrunWin) {
  const std::string env = "{name: PET_NNODES, value: '7'}, {name: PET_NPROC_PER_NODE, value: '4'}";
  const Conversion conversion = ConvertPyTorch("torchrun, t.py", {2, 2, env});
  EXPECT_EQ(ProcessesOf(conversion), Json());
  EXPECT_FALSE(HasNote(conversion, "all of its pods"));
  for (const char* const variable : {"[0]: PET_NNODES", "[1]: PET_NPROC_PER_NODE"}) {
    EXPECT_TRUE(HasNote(conversion,
                        std::string(kVariables) + variable +
                            " is not heeded: Kubeflow's operator gave torchrun another\n"))
        << NotesOf(conversion);
  }
  const Conversion of_manifest = ConvertText(LaunchedJob("TFJob", "torchrun, t.py", {2, 2, env}));
  EXPECT_EQ(ProcessesOf(of_manifest), 4);
  EXPECT_TRUE(
      HasNote(of_manifest, "--nnodes 7 was asked for; the job trains on all of its pods, 2"));
  EXPECT_EQ(ErrorsOf(ConvertText(
                LaunchedJob("TFJob", "torchrun, t.py", {2, 0, "{name: PET_NNODES, value: x}"}))),
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].command: PET_NNODES=x of "
            "torchrun found, expected a number from 1 to 9999, or MIN:MAX of such, as torchrun "
            "does\n");
}

// What the operator tells torchrun may be handed on to it, too.
TEST(ConvertPyTorchJob, OptionsThatReferToTheOperatorsVariablesSayNothing) {
  const Conversion conversion = ConvertPyTorch(
      "torchrun, --nnodes, $(PET_NNODES), --nproc-per-node, $(PET_NPROC_PER_NODE), t.py",
      {2, 0, "", "  nprocPerNode: \"4\"\n"});
  EXPECT_EQ(ProcessesOf(conversion), 4);
  EXPECT_FALSE(HasNote(conversion, "not kept")) << NotesOf(conversion);
}

TEST(ConvertTfJob, SuccessPolicyOfAnotherNameIsRefused) {
  EXPECT_EQ(ErrorsOf(ConvertText(LaunchedJob("TFJob", "a", {2, 0, "", "  successPolicy: Foo\n"}))),
            "spec.successPolicy: \"Foo\" found, expected AllWorkers or nothing\n");
}

TEST(ConvertPyTorchJob, ProcessesThatAreNoTextAreRefusedAndNotCalledMissing) {
  const Conversion conversion = ConvertPyTorch("torchrun, t.py", {2, 0, "", "  nprocPerNode: 4\n"});
  EXPECT_EQ(ErrorsOf(conversion), "spec.nprocPerNode: 4 found, expected a text\n");
  EXPECT_FALSE(HasNote(conversion, "not there"));
}

TEST(ConvertTfJob, LauncherOfPyTorchSaysHowManyProcessesAPodHas) {
  EXPECT_EQ(
      ProcessesOf(ConvertText(LaunchedJob("TFJob", "torchrun, --nproc-per-node=4, t.py", {2}))), 4);
  EXPECT_EQ(ProcessesOf(ConvertText(LaunchedJob("TFJob", "torchrun, t.py", {2, 4}))), 1);
  EXPECT_EQ(ProcessesOf(ConvertText(LaunchedJob("TFJob", "python, t.py", {2, 4}))), 1);
}

TEST(ConvertPyTorchJob, CountThatIsRefusedIsNotNotedAsWell) {
  const Conversion conversion = ConvertPyTorch(
      "accelerate, launch, --num_processes, '7', --num_machines, '2', --multi_gpu, t.py");
  EXPECT_FALSE(conversion.errors.empty());
  EXPECT_EQ(NotesOf(conversion), "");
  const Conversion none = ConvertPyTorch("accelerate, launch, --num_processes, '0', t.py");
  EXPECT_FALSE(none.errors.empty());
  EXPECT_EQ(NotesOf(none), "");
}

TEST(ConvertPyTorchJob, NoPodsAreReportedWhereTheRolesAre) {
  const std::string text = LaunchedJob("PyTorchJob", "a", {0});
  const Conversion conversion = ConvertForeignJob(ReadYaml(text).documents.at(0).value, {});
  EXPECT_EQ(ForeignField(conversion, "spec.roles"), "spec.pytorchReplicaSpecs");
}

}  // namespace
}  // namespace lockstep::control
