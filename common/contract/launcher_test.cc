#include "common/contract/launcher.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Launcher, TorchrunIsNamedByProgramModuleOrScript) {
  const std::vector<std::vector<std::string>> commands = {
      {"torchrun", "train.py"},
      {"/opt/conda/bin/torchrun", "--nproc_per_node=8", "train.py"},
      {"python3", "-m", "torch.distributed.run", "train.py"},
      {"python", "-m", "torch.distributed.launch", "train.py"},
      {"sh", "-c", "cd /work && exec torchrun --nnodes 2 train.py"},
      {"bash", "-c", "set -e\ntorchrun\\\n  train.py"},
  };
  for (const std::vector<std::string>& command : commands) {
    EXPECT_TRUE(NamesTorchrun(command)) << command.back();
  }
}

TEST(Launcher, OtherWordsThatHoldTheNameAreNotTorchrun) {
  const std::vector<std::vector<std::string>> commands = {
      {"python3", "train.py"},
      {"python3", "torchrun.py"},
      {"python3", "torchrun/train.py"},
      {"python3", "-m", "torch.distributed.runner"},
      {"my-torchrun"},
      {},
  };
  for (const std::vector<std::string>& command : commands) {
    EXPECT_FALSE(NamesTorchrun(command)) << (command.empty() ? "" : command.back());
  }
}

}  // namespace
}  // namespace lockstep
