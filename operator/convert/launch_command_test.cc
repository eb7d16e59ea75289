#include "operator/convert/launch_command.h"

#include <sstream>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

// "torchrun per=4: python3 train.py --lr 1 | dropped: --nnodes 2".
std::string Told(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) {
    words.push_back(word);
  }
  const LaunchCommand command = ReadLaunchCommand(words);
  if (!command.problem.empty()) {
    return command.problem;
  }
  constexpr const char* kNames[] = {"none", "torchrun", "mpirun", "horovodrun"};
  std::string text = kNames[static_cast<int>(command.launcher)];
  if (!command.processes_per_pod.empty()) {
    text += " per=" + command.processes_per_pod;
  }
  if (command.process_count.has_value()) {
    text += " count=" + std::to_string(*command.process_count);
  }
  for (const auto& [name, value] : command.environment) {
    text += " " + name + "=" + value;
  }
  for (const std::string& name : command.handed_on) {
    text += " $" + name;
  }
  text += ":";
  for (const std::string& word : command.program) {
    text += " " + word;
  }
  for (const std::string& option : command.dropped) {
    text += " | " + option;
  }
  return text;
}

TEST(ReadLaunchCommand, ProgramWithoutLauncherIsItself) {
  EXPECT_EQ(Told("python3 train.py --nnodes 2"), "none: python3 train.py --nnodes 2");
  EXPECT_EQ(Told("python -m train"), "none: python -m train");
  EXPECT_EQ(Told(""), "none:");
}

TEST(ReadLaunchCommand, TorchrunInItsForms) {
  EXPECT_EQ(Told("torchrun train.py --lr 1"), "torchrun: python3 train.py --lr 1");
  EXPECT_EQ(Told("/opt/bin/torchrun --nnodes=2 --nproc-per-node 4 train.py"),
            "torchrun per=4: python3 train.py | --nnodes 2");
  EXPECT_EQ(Told("torchrun --nproc_per_node=gpu -m pkg.train --epochs 3"),
            "torchrun per=gpu: python3 -m pkg.train --epochs 3");
  EXPECT_EQ(Told("torchrun --no-python bash run.sh"), "torchrun: bash run.sh");
  EXPECT_EQ(Told("python3.11 -m torch.distributed.run --standalone train.py"),
            "torchrun: python3.11 train.py | --standalone");
  EXPECT_EQ(Told("python -m torch.distributed.launch --use_env --rdzv-conf=a=1,b=2 x.py"),
            "torchrun: python x.py | --use_env | --rdzv-conf a=1,b=2");
}

TEST(ReadLaunchCommand, MpirunTakesOneHyphenOrTwo) {
  EXPECT_EQ(
      Told("mpirun --allow-run-as-root -np 4 -bind-to none --map-by slot -x NCCL_DEBUG=INFO "
           "-x PATH -mca pml ob1 --mca btl ^openib python train.py -n 3"),
      "mpirun count=4 NCCL_DEBUG=INFO $PATH: python train.py -n 3 | --allow-run-as-root | -bind-to "
      "none | --map-by slot | -mca pml ob1 | --mca btl ^openib");
  EXPECT_EQ(Told("mpiexec.hydra -genv A 1 -ppn 2 -n 8 ./pi"), "mpirun count=8 A=1: ./pi | -ppn 2");
  EXPECT_EQ(Told("mpiexec -genvlist A,B -n 8 ./pi"), "mpirun count=8 $A $B: ./pi");
}

TEST(ReadLaunchCommand, HorovodrunLeavesItsHostsBehind) {
  EXPECT_EQ(Told("horovodrun -np 2 --min-np 1 --host-discovery-script /d.sh python t.py"),
            "horovodrun count=2: python t.py | --min-np 1 | --host-discovery-script /d.sh");
}

TEST(ReadLaunchCommand, UnknownOptionMakesItUnsureUnlessItHoldsItsValue) {
  EXPECT_EQ(Told("torchrun --bogus 3 train.py"),
            "the option --bogus of torchrun is not known, so it cannot be told where the program "
            "begins; remove it");
  EXPECT_EQ(Told("torchrun --bogus=3 train.py"), "torchrun: python3 train.py | --bogus=3");
}

TEST(ReadLaunchCommand, MissingProgramOrValueIsSaid) {
  EXPECT_EQ(Told("mpirun -np 2"), "no program found behind the options of mpirun");
  EXPECT_EQ(Told("mpirun -np"), "the option -np of mpirun lacks its value");
  EXPECT_EQ(Told("torchrun"), "no program found behind the options of torchrun");
}

TEST(MentionsLauncher, IsAskedOfScripts) {
  EXPECT_TRUE(MentionsLauncher("cd /app && torchrun train.py"));
  EXPECT_FALSE(MentionsLauncher("python train.py --torch"));
}

}  // namespace
}  // namespace lockstep::control
