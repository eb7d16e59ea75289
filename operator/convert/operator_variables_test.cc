#include "operator/convert/operator_variables.h"

#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"

namespace lockstep::control {
namespace {

// A PyTorchJob of a master and three workers that run `command`.
std::string JobWithMaster(const std::string& command, const std::string& more = "") {
  const std::string pod = "template: {spec: {containers: [{name: pytorch, image: i, command: [" +
                          command + "]" + more + "}]}}}\n";
  return "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: j}\nspec:\n"
         "  runPolicy: {backoffLimit: 1}\n  nprocPerNode: '2'\n  pytorchReplicaSpecs:\n"
         "    Master: {" +
         pod + "    Worker: {replicas: 3, " + pod;
}

std::size_t CountOf(const std::string& text, const std::string& notes) {
  std::size_t count = 0;
  for (std::size_t at = notes.find(text); at != std::string::npos; at = notes.find(text, at + 1)) {
    ++count;
  }
  return count;
}

TEST(MayStartUnseen, IsOfScriptsWhoseTextIsNotThere) {
  using Words = std::vector<std::string>;
  for (const Words& words : {Words{"/workspace/train.sh"},
                             {"bash", "/train"},
                             {"bash", "-lc", "cd /w && ./train.sh"},
                             {"tini", "--", "run.sh"},
                             {"./entrypoint"}}) {
    EXPECT_TRUE(MayStartUnseen(words)) << words[0];
  }
  for (const Words& words : {Words{},
                             {"python3", "t.py"},
                             {"/usr/bin/python3", "-m", "t"},
                             {"bash", "-c", "nvidia-smi && python t.py"},
                             {"/venv/bin/conda", "run", "python", "t.py"},
                             {"./t.py"},
                             {"train"}}) {
    EXPECT_FALSE(MayStartUnseen(words)) << (words.empty() ? "" : words[0]);
  }
}

TEST(ConvertPyTorchJob, ScriptThatMayStartTorchrunIsWarnedOfOnce) {
  const std::string notes = NotesOf(ConvertText(JobWithMaster("/workspace/train.sh")));
  EXPECT_EQ(CountOf("may start torchrun", notes), 1U) << notes;
  EXPECT_NE(notes.find("--nnodes 4 --node-rank $NODE_RANK --master-addr $MASTER_ADDR"),
            std::string::npos)
      << notes;
  EXPECT_EQ(notes.find("it does not start that command"), std::string::npos) << notes;
  EXPECT_NE(notes.find("spec.nprocPerNode: not kept"), std::string::npos) << notes;

  EXPECT_EQ(NotesOf(ConvertText(JobWithMaster("python, t.py"))).find("may start"),
            std::string::npos);
}

TEST(ConvertPyTorchJob, VariablesOfItsOperatorAreNamed) {
  const std::string notes = NotesOf(ConvertText(
      JobWithMaster("torchrun, --nproc-per-node=2, t.py, --r=$(PET_NODE_RANK), --n=$(WORLD_SIZE)",
                    ", env: [{name: SIZE, value: $(PET_NNODES)}, {name: PET_MINE, value: a}, "
                    "{name: B, value: $(PET_MINE)}, {name: C, value: $(RANK)}]")));
  const std::string container = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].";
  for (const std::string& note :
       {container + "command: PET_NODE_RANK: Kubeflow's operator set it, and nobody does now: it "
                    "is empty to a program or a shell, and $(PET_NODE_RANK) stays as it is; here "
                    "it is NODE_RANK\n",
        container + "env[0].value: PET_NNODES: Kubeflow's operator set it",
        std::string("the job has 4 pods\n"),
        container + "command: $(WORLD_SIZE) did not count the processes",
        std::string("and is 8 now"),
        container + "env[3].value: $(RANK) was the pod's number"}) {
    EXPECT_NE(notes.find(note), std::string::npos) << notes;
  }
  EXPECT_EQ(notes.find("PET_MINE: Kubeflow"), std::string::npos) << notes;
}

TEST(ConvertTrainJob, ScriptThatMayStartTorchrunIsWarnedOf) {
  const std::string notes = NotesOf(
      ConvertText("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\n"
                  "spec:\n  runtimeRef: {name: torch}\n  ttlSecondsAfterFinished: 5\n"
                  "  trainer: {image: i, numNodes: 4, command: [bash, /w/train.sh]}\n"));
  EXPECT_NE(notes.find("spec.trainer.command: may start torchrun"), std::string::npos) << notes;
  EXPECT_NE(notes.find("spec.ttlSecondsAfterFinished: not kept from here: set "
                       "runPolicy.ttlSecondsAfterFinished of the job\n"),
            std::string::npos)
      << notes;
}

}  // namespace
}  // namespace lockstep::control
