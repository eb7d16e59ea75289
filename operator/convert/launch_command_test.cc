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
  std::string text(NameOf(command.launcher));
  text = text.empty() ? "none" : text;
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
  if (!command.local_rank_argument.empty()) {
    text += " || " + command.local_rank_argument;
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
  EXPECT_EQ(Told("mpiexec.hydra -genv A 1 -ppn 2 -n 8 ./pi"), "mpirun per=2 count=8 A=1: ./pi");
  EXPECT_EQ(Told("mpiexec -genvlist A,B -n 8 ./pi"), "mpirun count=8 $A $B: ./pi");
}

TEST(ReadLaunchCommand, HorovodrunLeavesItsHostsBehind) {
  EXPECT_EQ(Told("horovodrun -np 2 --min-np 1 --host-discovery-script /d.sh python t.py"),
            "horovodrun count=2: python t.py | --min-np 1 | --host-discovery-script /d.sh");
}

TEST(ReadLaunchCommand, LocalRankThatWasAnArgumentIsNamedUnlessItWasRefused) {
  EXPECT_EQ(Told("python -m torch.distributed.launch --nproc_per_node 2 t.py --lr 1"),
            "torchrun per=2: python t.py --lr 1 || --local-rank (before torch 2: --local_rank)");
  EXPECT_EQ(Told("python -m torch.distributed.launch --use-env t.py"),
            "torchrun: python t.py | --use-env");
  EXPECT_EQ(Told("python -m torch.distributed.run t.py"), "torchrun: python t.py");
  EXPECT_EQ(Told("deepspeed t.py"), "deepspeed: python3 t.py || --local_rank");
  EXPECT_EQ(Told("deepspeed --no_local_rank t.py"), "deepspeed: python3 t.py | --no_local_rank");
}

TEST(ReadLaunchCommand, AccelerateIsToldOfAllProcessesAndSetsVariables) {
  EXPECT_EQ(Told("accelerate launch t.py --num_processes 3"),
            "accelerate launch: python3 t.py --num_processes 3");
  EXPECT_EQ(
      Told("accelerate launch --num_processes 4 --num-machines=2 --machine_rank 0 "
           "--main_process_ip h --mixed_precision bf16 --cpu --dynamo-use-dynamic -m pkg.t --lr 1"),
      "accelerate launch per=2 count=4 ACCELERATE_MIXED_PRECISION=bf16 ACCELERATE_USE_CPU=True "
      "ACCELERATE_DYNAMO_USE_DYNAMIC=True: python3 -m pkg.t --lr 1 | --num-machines 2 | "
      "--machine_rank 0 | --main_process_ip h");
  EXPECT_EQ(Told("accelerate-launch --num_processes 2 t.py"),
            "accelerate launch per=2 count=2: python3 t.py");
  EXPECT_EQ(Told("python -m accelerate.commands.launch --no_python ./t.sh"),
            "accelerate launch: ./t.sh");
  EXPECT_EQ(Told("accelerate launch --num_processes 3 --num_machines 2 t.py"),
            "--num_processes 3 on --num_machines 2 is not the same number on each, as a "
            "TrainingJob's pods have");
  EXPECT_EQ(Told("accelerate config"), "none: accelerate config");
}

TEST(ReadLaunchCommand, AccelerateIsAskedForTheNumbersThatItDividesBy) {
  EXPECT_EQ(Told("accelerate launch --num_processes 4 --num_machines $(NNODES) t.py"),
            "--num_machines $(NNODES) of accelerate launch is no number, so it cannot be told how "
            "many processes a pod has; say the number there");
  const std::string rest =
      "--num_machines 2 of accelerate launch needs --num_processes, the number in all: without it "
      "a pod starts as many as it has GPUs, divided by the machines";
  EXPECT_EQ(Told("accelerate launch --num_machines 2 t.py"), rest);
  const std::string unknown =
      "--num_processes $(N) of accelerate launch is no number, so it cannot be told how many "
      "processes a pod has; say the number there";
  EXPECT_EQ(Told("accelerate launch --num_machines 2 --num_processes $(N) t.py"), unknown);
  EXPECT_EQ(Told("accelerate launch --cpu --num_machines 2 t.py"),
            "accelerate launch ACCELERATE_USE_CPU=True: python3 t.py | --num_machines 2");
  EXPECT_EQ(Told("accelerate launch --num_processes $(N) t.py"), unknown);
  EXPECT_EQ(Told("accelerate launch --num_processes 0 t.py"),
            "--num_processes 0 of accelerate launch found, expected a number from 1 to 9999");
}

TEST(ReadLaunchCommand, DeepspeedSaysHowManyAPodRuns) {
  EXPECT_EQ(
      Told("deepspeed --num_gpus 2 --num_nodes 2 --hostfile /h --no_local_rank --module t --x"),
      "deepspeed per=2: python3 -m t --x | --num_nodes 2 | --hostfile /h | --no_local_rank");
  EXPECT_EQ(Told("python3.11 -m deepspeed.launcher.runner --no_local_rank --master_port=1 t.py"),
            "deepspeed: python3.11 t.py | --no_local_rank | --master_port 1");
}

TEST(ReadLaunchCommand, OtherNamesOfDeepspeedAndOptionsOfPythonAreKnown) {
  EXPECT_EQ(Told("/opt/conda/bin/ds --num_gpus 2 t.py"),
            "deepspeed per=2: python3 t.py || --local_rank");
  EXPECT_EQ(Told("python -u -m deepspeed.launcher.runner t.py"),
            "deepspeed: python t.py || --local_rank");
  EXPECT_EQ(Told("python -W ignore -um torch.distributed.run t.py"), "torchrun: python t.py");
  EXPECT_EQ(Told("python -u t.py -m torch.distributed.run"),
            "none: python -u t.py -m torch.distributed.run");
}

TEST(ReadLaunchCommand, WhatReachesTheProgramByItsLauncherAloneIsRefused) {
  const std::string why = " cannot be kept: what it says reaches the program by ";
  const std::string what =
      " alone; give the program itself as the command, and say it there or in env";
  EXPECT_EQ(Told("accelerate launch --config_file a.yaml t.py"),
            "--config_file a.yaml of accelerate launch" + why + "accelerate launch" + what);
  EXPECT_EQ(Told("accelerate launch --use_fsdp --fsdp_version 2 t.py"),
            "--use_fsdp of accelerate launch" + why + "accelerate launch" + what);
  EXPECT_EQ(Told("accelerate launch --fsdp-version 2 --use_fsdp t.py"),
            "--fsdp-version 2 of accelerate launch" + why + "accelerate launch" + what);
  EXPECT_EQ(Told("deepspeed --include localhost:0,1 t.py"),
            "--include localhost:0,1 of deepspeed" + why + "deepspeed" + what);
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

}  // namespace
}  // namespace lockstep::control
