#include "operator/api/rules/launch_remarks.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

// The remark that `validate` prints about workers with such a command; empty where it prints none.
std::string ToldOf(const std::vector<std::string>& command, int64_t replicas = 3) {
  TrainingJob job;
  job.spec.roles.emplace_back();
  job.spec.roles[0].replicas = replicas;
  job.spec.roles[0].pod.command = command;
  const std::vector<LaunchRemark> remarks = RemarksOn(job);
  return remarks.empty() ? "" : remarks[0].field + ": " + remarks[0].message;
}

TEST(LaunchRemarks, TorchrunThatIsKeptInOnePodIsToldOf) {
  EXPECT_EQ(
      ToldOf({"torchrun", "--standalone", "train.py"}),
      "spec.roles[0].template.spec.containers[0].command: torchrun with --standalone does not join "
      "the 3 pods of the job; remove this option, so that Lockstep tells torchrun about the pods");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"torchrun", "--nnodes=1", "train.py"},
           {"torchrun", "--nnodes", "1", "train.py"},
           {"torchrun", "--nnodes=1:1", "train.py"},
           {"torchrun", "--nnodes", "1", "--rdzv-backend=c10d", "train.py"},
           {"sh", "-c", "cd /work\ntorchrun \\\n  --nnodes=1 train.py"}}) {
    EXPECT_NE(ToldOf(command).find("torchrun with --nnodes=1"), std::string::npos)
        << command.back();
  }
}

// Its store would be on its own machine.
TEST(LaunchRemarks, TorchrunThatIsNotToldWhereToMeetIsToldOf) {
  EXPECT_NE(ToldOf({"torchrun", "--rdzv-backend=c10d", "train.py"})
                .find("torchrun with --rdzv-backend=c10d and no --rdzv-endpoint does not join"),
            std::string::npos);
  EXPECT_EQ(ToldOf({"torchrun", "--rdzv_backend=c10d", "--rdzv_endpoint=$MASTER_ADDR:1", "t.py"}),
            "");
  EXPECT_EQ(ToldOf({"torchrun", "--rdzv_backend=static", "t.py"}), "");
  EXPECT_EQ(ToldOf({"torchrun", "--rdzv_backend=lockstep", "t.py"}), "");
}

TEST(LaunchRemarks, TorchrunThatLockstepIsNotToTellIsToldOf) {
  TrainingJob job;
  job.spec.roles.emplace_back();
  job.spec.roles[0].replicas = 2;
  job.spec.roles[0].pod.command = {"torchrun", "t.py"};
  job.spec.roles[0].launcher = ProcessLauncher::kLockstep;
  ASSERT_EQ(RemarksOn(job).size(), 1U);
  EXPECT_NE(RemarksOn(job)[0].message.find("torchrun with launcher: Lockstep does not join"),
            std::string::npos);
  job.spec.roles[0].pod.command = {"torchrun", "--nnodes=2", "t.py"};
  EXPECT_TRUE(RemarksOn(job).empty());
}

TEST(LaunchRemarks, OthersAreNot) {
  EXPECT_EQ(ToldOf({"torchrun", "--nnodes=3", "train.py"}), "");
  EXPECT_EQ(ToldOf({"torchrun", "train.py"}), "");
  EXPECT_EQ(ToldOf({"python3", "train.py", "--standalone"}), "");
  EXPECT_EQ(ToldOf({"torchrun", "--standalone", "train.py"}, 1), "");
  EXPECT_EQ(ToldOf({"torchrun", "train.py", "--standalone", "--nnodes=1"}), "");
  EXPECT_EQ(ToldOf({"torchrun", "--nnodes=1", "--nnodes=3", "train.py"}), "");
  EXPECT_EQ(ToldOf({"sh", "-c", "# --standalone\ntorchrun train.py"}), "");
  EXPECT_EQ(ToldOf({"python3", "train.py", "--launcher", "torchrun", "--standalone"}), "");
}

TEST(LaunchRemarks, VariablesOfTorchThatWorkAgainstRecoveryAreToldOf) {
  TrainingJob job;
  job.spec.roles.emplace_back();
  job.spec.roles[0].pod.env = {{"TORCH_NCCL_BLOCKING_WAIT", "1"}, {"TORCH_NCCL_NAN_CHECK", "1"}};
  const std::vector<LaunchRemark> remarks = RemarksOn(job);
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_EQ(remarks[0].field, "spec.roles[0].template.spec.containers[0].env");
  EXPECT_EQ(remarks[0].message.find("with TORCH_NCCL_BLOCKING_WAIT=1, "), 0U);
}

}  // namespace
}  // namespace lockstep::control
