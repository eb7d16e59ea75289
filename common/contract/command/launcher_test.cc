#include "common/contract/command/launcher.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

TEST(Launcher, TorchrunIsStartedByProgramModuleOrScript) {
  const std::vector<Words> commands = {
      {"torchrun", "train.py"},
      {"/opt/conda/bin/torchrun", "--nproc_per_node=8", "train.py"},
      {"python3", "-m", "torch.distributed.run", "train.py"},
      {"python", "-m", "torch.distributed.launch", "train.py"},
      {"/usr/bin/python3", "-mtorch.distributed.run", "train.py"},
      {"python3.11", "-W", "ignore", "-Xdev", "-um", "torch.distributed.run", "train.py"},
      {"python3", "-u", "/usr/local/bin/torchrun", "train.py"},
      {"env", "A=1", "timeout", "60", "torchrun", "train.py"},
      {"sh", "-c", "cd /work && exec torchrun --nnodes 2 train.py"},
      {"sh", "-c", "A=1 env B=2 /opt/torchrun t.py || echo failed"},
      {"bash", "-c", "set -e\ntorchrun\\\n  train.py"},
      {"bash", "-euc", "if command -v torchrun; then torchrun t.py; else python t.py; fi"},
      {"bash", "-c", "python $(which torchrun) t.py"},
      {"sh", "-c", "exec \"$@\"", "sh", "torchrun", "t.py"},
      {"sh", "-c", "${PYTHON:-python3} -m torch.distributed.run t.py"},
  };
  for (const Words& command : commands) {
    EXPECT_TRUE(StartsTorchrun(command)) << command.back();
  }
}

TEST(Launcher, CommandsThatOnlyHaveTheNameInThemDoNotStartIt) {
  const std::string train = "; python3 train.py";
  const std::vector<Words> commands = {
      {"python3", "train.py"},
      {"python3", "torchrun.py"},
      {"python3", "torchrun/train.py"},
      {"python3", "-m", "torch.distributed.runner"},
      {"my-torchrun"},
      {},
      {"python3", "train.py", "--launcher", "torchrun"},
      {"python3", "train.py", "-m", "torch.distributed.run"},
      {"python3", "-c", "import torch.distributed.run"},
      {"python3", "-m", "pip", "install", "torchrun"},
      {"python3", "-W", "torchrun", "train.py"},
      {"./train", "torchrun"},
      {"bash", "run.sh", "torchrun"},
      {"env", "LAUNCHER=torchrun", "python3", "train.py"},
      {"sh", "-c", "echo using torchrun" + train},
      {"sh", "-c", "# no longer by torchrun\npython3 train.py"},
      {"sh", "-c", "command -v torchrun >/dev/null" + train},
      {"sh", "-c", "which torchrun" + train},
      {"sh", "-c", "echo 'a; torchrun b'; echo \"a\ntorchrun b\"" + train},
      {"sh", "-c", "python3 train.py # torchrun\n"},
      {"sh", "-c", "cat <<EOF\ntorchrun t.py\nEOF\npython3 train.py"},
      {"sh", "-c", "case $LAUNCHER in torchrun) python3 a.py;; x|torchrun) python3 b.py;; esac"},
      {"sh", "-c", "python3 -m train torchrun 2> torchrun"},
  };
  for (const Words& command : commands) {
    EXPECT_FALSE(StartsTorchrun(command)) << (command.empty() ? "" : command.back());
  }
  EXPECT_TRUE(MentionsTorchrun({"./train", "torchrun"}));
  EXPECT_FALSE(MentionsTorchrun({"python3", "torchrun.py"}));
}

TEST(Launcher, OthersAreTheirProgramScriptOrModule) {
  const auto name = [](const Words& words) {
    const std::optional<LauncherCall> call = LauncherCallOf(words);
    return call.has_value() ? std::string(call->name) + " " + std::to_string(call->arguments) : "";
  };
  EXPECT_EQ(name({"/opt/bin/mpiexec.hydra", "-n", "2", "t.py"}), "mpirun 1");
  EXPECT_EQ(name({"python3", "/usr/bin/horovodrun", "-np", "2", "t.py"}), "horovodrun 2");
  EXPECT_EQ(name({"python", "-um", "accelerate.commands.launch", "t.py"}), "accelerate 3");
  EXPECT_EQ(name({"ds", "t.py"}), "deepspeed 1");
  EXPECT_EQ(name({"tune", "run", "recipe"}), "tune 2");
  for (const Words& words :
       {Words{}, {"python", "-m", "composer"}, {"python", "composer.py"}, {"accelerate", "env"}}) {
    EXPECT_EQ(name(words), "");
  }
}

// "--nnodes=2 --standalone=": what the first torchrun is told.
std::string OptionsIn(const Words& command) {
  std::string text;
  const std::vector<TorchrunCall> calls = TorchrunCalls(command);
  for (const auto& [name, value] : calls.empty() ? TorchrunCall{}.options : calls[0].options) {
    text += (text.empty() ? "" : " ") + name + "=" + value;
  }
  return text;
}

TEST(Launcher, OptionsOfTorchrunEndAtItsScript) {
  EXPECT_EQ(OptionsIn({"torchrun", "t.py", "--standalone", "--nnodes=1"}), "");
  EXPECT_EQ(OptionsIn({"torchrun", "--nnodes", "2", "t.py", "--nnodes=1"}), "--nnodes=2");
  EXPECT_EQ(OptionsIn({"torchrun", "--standalone", "-m", "pkg.train", "--tee", "3"}),
            "--standalone= -m=");
  EXPECT_EQ(OptionsIn({"torchrun", "-r", "3", "-t3", "--", "t.py", "--nnodes=1"}), "-r=3 -t=3");
  EXPECT_EQ(OptionsIn({"sh", "-c", "# torchrun --nnodes=3 a.py\ntorchrun --nnodes='2' b.py"}),
            "--nnodes=2");
  EXPECT_EQ(OptionsIn({"sh", "-c", "echo torchrun --nnodes=3; torchrun b.py"}), "");
}

TEST(Launcher, OptionsOfTorchrunAreReadAsItReadsThem) {
  EXPECT_EQ(OptionsIn({"torchrun", "--nproc-per-node=2", "--nproc_per_node", "4", "t.py"}),
            "--nproc_per_node=4");
  EXPECT_EQ(OptionsIn({"torchrun", "--nproc", "4", "t.py"}), "--nproc_per_node=4");
  EXPECT_EQ(OptionsIn({"torchrun", "--later", "4", "--flag", "t.py", "--nnodes=1"}),
            "--flag= --later=4");
  EXPECT_EQ(OptionsIn({"torchrun", "--nnodes"}), "--nnodes=");
}

}  // namespace
}  // namespace lockstep
