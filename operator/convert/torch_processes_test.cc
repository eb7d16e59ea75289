#include "operator/convert/torch_processes.h"

#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"

namespace lockstep::control {
namespace {

constexpr const char* kContainer = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].";
constexpr const char* kCommand =
    "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command";

struct Workers {
  int gpus = 0;
  std::string per_pod = {};  // nprocPerNode
  std::string env = {};
};

// A PyTorchJob or TFJob of two workers whose container has the command `command`.
Conversion ConvertWorkers(const std::string& command,
                          const Workers& workers = {},
                          const std::string& kind = "PyTorchJob") {
  return ConvertText(KubeflowJob(
      kind,
      Replica("Worker",
              "command: [" + command + "], env: [" + workers.env +
                  "], resources: {limits: {cpu: 8, nvidia.com/gpu: " +
                  std::to_string(workers.gpus) + "}}"),
      "runPolicy: {backoffLimit: 1}" +
          (workers.per_pod.empty() ? "" : ", nprocPerNode: '" + workers.per_pod + "'")));
}

Json ProcessesOf(const Conversion& conversion) {
  return FirstRole(conversion).value("processes", Json());
}

Json CountVariable(const std::string& value) {
  return Json::array({{{"name", "PET_NPROC_PER_NODE"}, {"value", value}}});
}

TEST(ConvertPyTorchJob, TorchrunStaysInTheCommand) {
  for (const auto& [command, words] : std::vector<std::pair<std::string, Json>>{
           {"torchrun, --nnodes=2, --nproc-per-node=4, t.py, --lr, '1'",
            {"torchrun", "--nnodes=2", "--nproc-per-node=4", "t.py", "--lr", "1"}},
           {"python3, -m, torch.distributed.run, --nproc_per_node, '4', t.py",
            {"python3", "-m", "torch.distributed.run", "--nproc_per_node", "4", "t.py"}},
           {"sh, -c, 'cd /w && torchrun --nproc_per_node=4 t.py'",
            {"sh", "-c", "cd /w && torchrun --nproc_per_node=4 t.py"}}}) {
    const Conversion conversion = ConvertWorkers(command, {4});
    EXPECT_EQ(FirstContainer(conversion)["command"], words);
    EXPECT_EQ(ProcessesOf(conversion), 4) << command;
    EXPECT_FALSE(FirstRole(conversion).contains("launcher"));
    EXPECT_EQ(NotesOf(conversion), "") << command;
  }
  EXPECT_EQ(
      ForeignField(ConvertWorkers("torchrun, --nproc-per-node=4, t.py"), "spec.roles[0].processes"),
      kCommand);
}

TEST(ConvertPyTorchJob, RanksAreCountedAsTorchrunIsTold) {
  struct Row {
    std::string command;
    Workers workers;
    Json processes;
    Json env;
  };

  for (const Row& row : std::vector<Row>{
           {"torchrun, t.py", {4}, Json(), Json::array()},  // one for each GPU
           {"torchrun, t.py", {4, "gpu"}, Json(), Json::array()},
           {"torchrun, t.py", {4, "8"}, 8, Json::array()},
           {"torchrun, t.py", {4, "2"}, 1, CountVariable("2")},  // a rank has one GPU, or all
           {"torchrun, --nproc_per_node=2, t.py", {4}, 1, Json::array()},
           {"torchrun, --nproc_per_node=gpu, t.py", {4}, Json(), Json::array()},
           {"torchrun, t.py", {4, "cpu"}, 1, CountVariable("cpu")},
           {"torchrun, t.py", {0, "auto"}, Json(), CountVariable("auto")},
           {"torchrun, t.py", {}, Json(), CountVariable("auto")},
           {"torchrun, '--nproc-per-node=$(K)', t.py",
            {0, "", "{name: K, value: '4'}"},
            4,
            Json::array({{{"name", "K"}, {"value", "4"}}})},
           {"sh, -c, 'torchrun --nproc_per_node=$N t.py'", {4}, 1, Json::array()}}) {
    const Conversion conversion = ConvertWorkers(row.command, row.workers);
    EXPECT_EQ(ProcessesOf(conversion), row.processes) << row.command << row.workers.per_pod;
    EXPECT_EQ(FirstEnv(conversion), row.env) << row.command << row.workers.per_pod;
  }
}

// RANK and WORLD_SIZE counted pods, and scripts hand them on to torchrun.
TEST(ConvertPyTorchJob, CommandThatHandsOnRankKeepsWhatItCounts) {
  for (const char* const reference : {"$RANK", "${WORLD_SIZE}", "$(RANK)"}) {
    const Conversion conversion = ConvertWorkers(
        "bash, -c, 'torchrun --nproc_per_node=8 --node_rank=" + std::string(reference) + " t.py'",
        {8});
    EXPECT_EQ(ProcessesOf(conversion), 1) << reference;
    EXPECT_EQ(FirstEnv(conversion), Json::array()) << reference;
  }
  // There, WORLD_SIZE was the pods' number times nprocPerNode.
  ExpectNote(
      ConvertWorkers("sh, -c, 'torchrun --nproc_per_node=8 t.py --world $WORLD_SIZE'", {8, "8"}),
      "spec.nprocPerNode: in the TrainingJob, WORLD_SIZE counts each pod as one rank, not as 8 "
      "ranks\n");
}

TEST(ConvertPyTorchJob, ScriptsAndOtherLaunchersStartOnceInEachPodAsThere) {
  for (const char* const command : {"/workspace/train.sh",
                                    "bash, run.sh",
                                    "accelerate, launch, --use_fsdp, t.py",
                                    "sh, -c, 'exec accelerate launch t.py'",
                                    "tune, run, --nproc_per_node, '8', recipe"}) {
    const Conversion conversion = ConvertWorkers(command, {8, "8"});
    EXPECT_EQ(ProcessesOf(conversion), 1) << command;
    EXPECT_EQ(FirstEnv(conversion), CountVariable("8")) << command;
    EXPECT_EQ(
        NotesOf(conversion),
        "spec.nprocPerNode: kept as PET_NPROC_PER_NODE; the job and WORLD_SIZE count each pod "
        "as one rank\n");
    EXPECT_EQ(FirstEnv(ConvertWorkers(command, {8})), CountVariable("auto")) << command;
  }
}

TEST(ConvertPyTorchJob, ComposerIsToldOfItsRanks) {
  for (const char* const command :
       {"composer, t.py", "env, A=1, /opt/composer, t.py", "sh, -c, 'cd /w; composer t.py'"}) {
    const Conversion conversion = ConvertWorkers(command, {8});
    EXPECT_EQ(FirstRole(conversion)["launcher"], "Torchrun") << command;
    EXPECT_EQ(ProcessesOf(conversion), Json());
    ExpectNote(conversion, std::string(kCommand) + ": composer joins the job's pods by WORLD_SIZE");
  }
  EXPECT_EQ(ProcessesOf(ConvertWorkers("composer, -n, '4', t.py", {0})), 4);
  EXPECT_NE(
      ErrorsOf(ConvertWorkers("composer, -n, '4', t.py", {8}))
          .find("composer with 4 processes found, expected one process, or one for each of 8 GPUs"),
      std::string::npos);
}

TEST(ConvertPyTorchJob, PlainProgramRunsOnceAndNprocPerNodeSaysNothingToIt) {
  const Conversion conversion = ConvertWorkers("python3, t.py", {4, "4"});
  EXPECT_EQ(ProcessesOf(conversion), 1);
  EXPECT_EQ(FirstEnv(conversion), Json::array());
  EXPECT_EQ(NotesOf(conversion),
            "spec.nprocPerNode: nprocPerNode has no effect here; set roles[].processes\n");
  EXPECT_EQ(ProcessesOf(ConvertWorkers("python3, t.py", {1})), Json());
}

TEST(ConvertPyTorchJob, CommandWinsOverNprocPerNode) {
  const Conversion conversion = ConvertWorkers("torchrun, --nproc_per_node, '8', t.py", {8, "4"});
  EXPECT_EQ(ProcessesOf(conversion), 8);
  EXPECT_EQ(NotesOf(conversion),
            "spec.nprocPerNode: nprocPerNode has no effect here: the command says 8\n");
}

TEST(ConvertPyTorchJob, OptionsThatTorchrunDoesNotGetCountNothing) {
  for (const char* const command :
       {"torchrun, t.py, --nproc_per_node=3",
        "sh, -c, 'echo torchrun --nproc_per_node=3; torchrun t.py'",
        "sh, -c, \"# was: torchrun --nproc_per_node=3 old.py\\ntorchrun t.py\"",
        "torchrun, --nproc_per_node=3, --nproc_per_node=4, t.py"}) {
    const Conversion conversion = ConvertWorkers(command, {0, "4"});
    EXPECT_EQ(ProcessesOf(conversion), 4) << command;
    EXPECT_EQ(NotesOf(conversion), "") << command;
  }
}

TEST(ConvertPyTorchJob, RankThatACommandOnlyPrintsIsNotHandedOn) {
  const Conversion conversion =
      ConvertWorkers("sh, -c, 'echo $RANK of $WORLD_SIZE; torchrun --nproc_per_node=8 t.py'", {8});
  EXPECT_EQ(ProcessesOf(conversion), 8);
}

TEST(ConvertPyTorchJob, CountThatTorchrunRefusesIsRefused) {
  for (const char* const count : {"x", "0"}) {
    EXPECT_EQ(ErrorsOf(ConvertWorkers("torchrun, t.py", {4, count})),
              "spec.nprocPerNode: \"" + std::string(count) +
                  "\" found, but torchrun expects a number from 1 to 9999, auto, gpu or cpu\n");
  }
}

// Kubernetes replaces $(NAME) by what the pod has, and the runtime sets PET_* later.
TEST(ConvertPyTorchJob, ReferencesToTheOperatorsVariablesAreRefused) {
  const std::string rest =
      " found, which Kubernetes cannot replace: the runtime sets PET_NODE_RANK only when it starts "
      "the process; use $PET_NODE_RANK in a command that sh -c runs\n";
  EXPECT_EQ(ErrorsOf(ConvertWorkers("torchrun, --node-rank, $(PET_NODE_RANK), t.py")),
            std::string(kCommand) + ": $(PET_NODE_RANK)" + rest);
  EXPECT_EQ(ErrorsOf(ConvertWorkers("python, t.py", {0, "", "{name: A, value: $(PET_NODE_RANK)}"})),
            std::string(kContainer) + "env[0]: $(PET_NODE_RANK)" + rest);
  EXPECT_EQ(ErrorsOf(ConvertWorkers("sh, -c, 'echo $PET_NODE_RANK; torchrun t.py'")), "");
  EXPECT_EQ(ErrorsOf(ConvertWorkers("torchrun, $(PET_X)", {0, "", "{name: PET_X, value: t.py}"})),
            "");
}

TEST(ConvertPyTorchJob, VariablesThatTheOperatorGaveTorchrunWin) {
  const Conversion conversion = ConvertWorkers(
      "torchrun, t.py", {4, "", "{name: PET_NNODES, value: '7'}, {name: PET_RDZV_ID, value: a}"});
  EXPECT_EQ(FirstEnv(conversion), Json::array({{{"name", "PET_RDZV_ID"}, {"value", "a"}}}));
  EXPECT_EQ(NotesOf(conversion),
            std::string(kContainer) +
                "env[0]: PET_NNODES is not kept: Kubeflow's operator overwrote it, and Lockstep's "
                "runtime sets it\n");
  EXPECT_EQ(ForeignField(conversion, "spec.roles[0].template.spec.containers[0].env[0].value"),
            std::string(kContainer) + "env[1].value");
}

TEST(ConvertTfJob, TorchrunStaysInItsPodAsThere) {
  const Conversion conversion = ConvertWorkers("torchrun, t.py", {4}, "TFJob");
  EXPECT_EQ(FirstRole(conversion)["launcher"], "Lockstep");
  EXPECT_EQ(ProcessesOf(conversion), 1);
  EXPECT_EQ(NotesOf(conversion),
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].command: torchrun trains in "
            "each pod separately, as under Kubeflow's operator; to train together, remove "
            "\"launcher: Lockstep\" from the role\n");
}

TEST(ReadTorchProgram, WhatIsNoPlainPythonMayStartTorchrun) {
  using Words = std::vector<std::string>;
  for (const Words& words : {Words{"/workspace/train.sh"},
                             {"bash", "-lc", "cd /w && ./train.sh"},
                             {"./entrypoint"},
                             {"python", "-m", "accelerate.commands.launch", "t.py"},
                             {"python", "-m", "torch.distributed.run", "t.py"}}) {
    EXPECT_TRUE(ReadTorchProgram(words).may_start_torchrun) << words[0];
  }
  for (const Words& words : {Words{},
                             {"python3", "t.py"},
                             {"bash", "-c", "pip install accelerate && python t.py"},
                             {"./t.py"}}) {
    EXPECT_FALSE(ReadTorchProgram(words).may_start_torchrun) << JoinedWords(words);
  }
}

}  // namespace
}  // namespace lockstep::control
