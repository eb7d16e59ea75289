#include "trainer-runtime/supervisor/peers/torchrun_watch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// A /proc of processes that a test names.
class TorchrunWatchTest : public ::testing::Test {
 protected:
  TorchrunWatchTest() : proc_(::testing::TempDir() + "proc-XXXXXX") {
    EXPECT_NE(::mkdtemp(proc_.data()), nullptr);
  }

  ~TorchrunWatchTest() override { std::filesystem::remove_all(proc_); }

  void Add(pid_t pid,
           pid_t parent,
           const std::vector<std::string>& words,
           const std::vector<std::string>& variables = {}) {
    const std::string folder = proc_ + "/" + std::to_string(pid);
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/stat") << pid << " (a) S " << parent << " " << pid
                                    << " 1 0 0 0 0 0 0 0 1 1 0 0 20 0 1 0 1 1 1 1 0 0 0 0 0 0 0 0 "
                                       "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
    Write(folder + "/cmdline", words);
    Write(folder + "/environ", variables);
  }

  TorchrunSight Look() const { return LookForTorchrun(10, proc_); }

 private:
  static void Write(const std::string& path, const std::vector<std::string>& parts) {
    std::ofstream file(path);
    for (const std::string& part : parts) {
      file << part << '\0';
    }
  }

  std::string proc_;
};

std::vector<std::string> OfWorker(int world) {
  return {"RANK=0", "WORLD_SIZE=" + std::to_string(world), "TORCHELASTIC_USE_AGENT_STORE=True"};
}

TEST_F(TorchrunWatchTest, ProcessThatHasTheNameAmongItsArgumentsIsNone) {
  Add(10, 1, {"lockstep-runtime", "run", "--", "./train"});
  Add(11, 10, {"./train", "torchrun"});
  Add(12, 10, {"python3", "t.py", "-m", "torch.distributed.run", "--standalone"});
  Add(13, 10, {"sh", "-c", "torchrun t.py"});
  EXPECT_EQ(Look(), (TorchrunSight{0, false, std::nullopt}));

  Add(14, 10, {"/usr/bin/python3", "-mtorch.distributed.run", "t.py", "--standalone"});
  EXPECT_EQ(Look(), (TorchrunSight{1, false, std::nullopt}));
  Add(15, 10, {"python3", "-u", "/opt/torchrun", "--standalone", "t.py"});
  EXPECT_EQ(Look(), (TorchrunSight{2, true, std::nullopt}));
}

TEST_F(TorchrunWatchTest, StandaloneOneThatIsToldOfOtherPodsWaitsForThem) {
  const std::vector<std::string> alone = {"python3", "/opt/torchrun", "--standalone", "t.py"};
  const auto with = [](const std::string& nnodes) {
    return std::vector<std::string>{"torchrun", "--nnodes=" + nnodes, "--standalone", "t.py"};
  };
  Add(10, 1, {"lockstep-runtime", "run", "--", "./train.sh"});
  for (const char* const nnodes : {"1", "1:1", "1:4", "many"}) {
    Add(11, 10, alone, {"PET_NNODES=" + std::string(nnodes)});
    EXPECT_FALSE(Look().waits_alone) << nnodes;
    Add(11, 10, with(nnodes), {"PET_NNODES=2"});
    EXPECT_FALSE(Look().waits_alone) << nnodes;
  }
  for (const char* const nnodes : {"2", "2:2", "2:4"}) {
    Add(11, 10, with(nnodes), {"PET_NNODES=1"});
    EXPECT_TRUE(Look().waits_alone) << nnodes;
  }
  Add(11, 10, alone, {"PET_NNODES=2:4"});
  EXPECT_TRUE(Look().waits_alone);

  const auto fault = FaultOf(Look(), {1, 4});
  ASSERT_TRUE(fault.has_value());
  EXPECT_TRUE(fault->is_fatal);
  EXPECT_TRUE(
      fault->what.starts_with("torchrun --standalone does not join the 4 ranks of the job"));
}

TEST_F(TorchrunWatchTest, ProcessesOfATorchrunInAScriptTellTheirWorld) {
  Add(10, 1, {"lockstep-runtime", "run", "--", "./train.sh", "torchrun"});
  Add(11, 10, {"/bin/sh", "./train.sh"}, {"WORLD_SIZE=6"});
  Add(12, 11, {"/usr/bin/python3", "/usr/bin/torchrun", "train.py"}, {"WORLD_SIZE=6"});
  EXPECT_EQ(Look(), (TorchrunSight{1, false, std::nullopt}));

  Add(13, 12, {"python3", "train.py"}, OfWorker(2));
  EXPECT_EQ(Look(), (TorchrunSight{1, false, 2}));
}

TEST_F(TorchrunWatchTest, ModuleIsTorchrunAndAShellThatNamesItIsNot) {
  Add(10, 1, {"lockstep-runtime"});
  Add(11, 10, {"sh", "-c", "torchrun train.py"});
  EXPECT_EQ(Look(), TorchrunSight());
  Add(12, 10, {"python3", "-u", "-m", "torch.distributed.run", "--standalone", "train.py"});
  EXPECT_EQ(Look(), (TorchrunSight{1, true, std::nullopt}));
}

TEST_F(TorchrunWatchTest, TorchrunOfAnotherPodIsNoneOfOurs) {
  Add(10, 1, {"lockstep-runtime"});
  Add(20, 1, {"torchrun", "train.py"});
  EXPECT_EQ(Look(), TorchrunSight());
}

TEST(TorchrunFault, TableOfWhatIsToldOf) {
  struct Row {
    TorchrunSight sight;
    TorchrunExpectation expected;
    std::string told;  // a part of it; empty: nothing is
    bool is_fatal = false;
  };

  const std::vector<Row> rows = {
      {{0, false, std::nullopt}, {2, 6}, ""},
      {{1, false, std::nullopt}, {1, 6}, ""},
      {{1, false, 6}, {1, 6}, ""},
      {{1, false, 2}, {1, 6}, "trains 2 ranks by themselves, not the 6 ranks of the job"},
      {{1, true, std::nullopt}, {1, 6}, "--standalone does not join"},
      {{1, true, 1}, {1, 1}, ""},
      {{1, false, std::nullopt},
       {2, 6},
       "started the command 2 times; set launcher: Torchrun",
       true},
  };
  for (const Row& row : rows) {
    const auto fault = FaultOf(row.sight, row.expected);
    ASSERT_EQ(fault.has_value(), !row.told.empty()) << row.told;
    if (fault.has_value()) {
      EXPECT_NE(fault->what.find(row.told), std::string::npos) << fault->what;
      EXPECT_EQ(fault->is_fatal, row.is_fatal);
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
