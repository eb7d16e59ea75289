#include "operator/convert/launcher_mentions.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

TEST(MentionsLauncher, IsAskedOfScripts) {
  EXPECT_TRUE(MentionsLauncher("cd /app && torchrun train.py"));
  EXPECT_TRUE(MentionsLauncher("accelerate launch train.py"));
  EXPECT_TRUE(MentionsLauncher("cd /app &&  deepspeed train.py"));
  EXPECT_TRUE(MentionsLauncher("set -e\ndeepspeed train.py"));
  EXPECT_FALSE(MentionsLauncher("python train.py --torch"));
  EXPECT_FALSE(MentionsLauncher("python train.py --deepspeed ds.json"));
  EXPECT_FALSE(MentionsLauncher("python train.py --strategy deepspeed --lr 1"));
  EXPECT_FALSE(MentionsLauncher("deepspeed"));
}

TEST(MentionsLauncher, DeepspeedIsFoundWhereACommandBegins) {
  for (const char* const script : {"NCCL_DEBUG=INFO deepspeed t.py",
                                   "exec deepspeed t.py",
                                   "nohup  deepspeed t.py &",
                                   "time deepspeed t.py",
                                   "if true; then deepspeed t.py; fi",
                                   "while true; do deepspeed t.py; done",
                                   "cd /a; /opt/conda/bin/deepspeed t.py",
                                   "env A=1 deepspeed t.py",
                                   "deepspeed\\\n t.py",
                                   "deepspeed\tt.py",
                                   "cd /a && deepspeed\n",
                                   "cd /a && ds t.py",
                                   "python -u -m deepspeed.launcher.runner t.py"}) {
    EXPECT_TRUE(MentionsLauncher(script)) << script;
  }
  for (const char* const script : {"python t.py --deepspeed configs/ds.json",
                                   "python t.py --config configs/deepspeed --lr 1",
                                   "configs/deepspeed",
                                   "pip install deepspeed",
                                   "ds = load()"}) {
    EXPECT_FALSE(MentionsLauncher(script)) << script;
  }
}

TEST(VariablesOfMpirun, AreThoseThatATextReads) {
  EXPECT_EQ(VariablesOfMpirun("A=$OMPI_COMM_WORLD_RANK t.py ${PMI_RANK} $OMPI_COMM_WORLD_RANK"),
            (std::vector<std::string>{"OMPI_COMM_WORLD_RANK", "PMI_RANK"}));
  EXPECT_TRUE(VariablesOfMpirun("OMPI_COMM_WORLD_RANK=0 t.py $MY_PMI_RANK OMPI_MCA_x").empty());
}

}  // namespace
}  // namespace lockstep::control
