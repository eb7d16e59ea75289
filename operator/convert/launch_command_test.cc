#include "operator/convert/launch_command.h"

#include <sstream>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

std::vector<std::string> WordsOf(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) {
    words.push_back(word);
  }
  return words;
}

// "mpirun per=4: python3 train.py --lr 1 | dropped: --tag-output".
std::string Told(const std::string& line) {
  const LaunchCommand command = ReadLaunchCommand(WordsOf(line));
  if (!command.problem.empty()) {
    return command.problem;
  }
  std::string text = command.is_of_mpi() ? command.launcher : "none";
  if (command.processes_per_pod.has_value()) {
    text += " per=" + std::to_string(*command.processes_per_pod);
  }
  if (command.process_count.has_value()) {
    text += " count=" + std::to_string(*command.process_count);
  }
  for (const auto& [name, value] : command.variables) {
    text += value.has_value() ? " " + name + "=" + *value : " $" + name;
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

TEST(ReadLaunchCommand, OtherCommandsStayAsTheyAre) {
  for (const char* const line : {"python3 train.py --nnodes 2",
                                 "torchrun --nnodes=2 train.py",
                                 "accelerate launch --use_fsdp t.py",
                                 "deepspeed t.py"}) {
    EXPECT_EQ(Told(line), "none: " + std::string(line));
  }
  EXPECT_EQ(Told(""), "none:");
}

TEST(ReadLaunchCommand, LauncherInAScriptIsRefused) {
  EXPECT_EQ(ReadLaunchCommand({"sh", "-c", "cd /w && horovodrun -np 2 python t.py"}).problem,
            "horovodrun found inside the command. Ranks that start there would use the pod's "
            "HOROVOD_RANK instead of their own. Begin the command with horovodrun, followed by the "
            "program");
  EXPECT_NE(Told("env A=1 /opt/bin/mpirun python t.py").find("/opt/bin/mpirun found inside"),
            std::string::npos);
  EXPECT_EQ(Told("python mpirun.py"), "none: python mpirun.py");
  EXPECT_EQ(Told("python t.py --launcher mpirun"), "none: python t.py --launcher mpirun");
}

TEST(ReadLaunchCommand, MpirunTakesOneHyphenOrTwo) {
  EXPECT_EQ(
      Told("mpirun --allow-run-as-root -np 4 -bind-to none --map-by slot -x NCCL_DEBUG=INFO "
           "-x PATH -mca pml ob1 --mca btl ^openib python train.py -n 3"),
      "mpirun count=4 NCCL_DEBUG=INFO $PATH: python train.py -n 3 | --allow-run-as-root | -bind-to "
      "none | --map-by slot | -mca pml ob1 | --mca btl ^openib");
  EXPECT_EQ(Told("mpiexec.hydra -genv A 1 -ppn 2 -n 8 ./t.py"), "mpirun per=2 count=8 A=1: ./t.py");
  EXPECT_EQ(Told("mpiexec -genvlist A,B -n 8 ./t.py"), "mpirun count=8 $A $B: ./t.py");
}

TEST(ReadLaunchCommand, HorovodrunLeavesItsHostsBehind) {
  EXPECT_EQ(Told("horovodrun -np 2 --min-np 1 --host-discovery-script /d.sh python t.py"),
            "horovodrun count=2: python t.py | --min-np 1 | --host-discovery-script /d.sh");
  EXPECT_EQ(Told("python3 -m horovod.runner.launch -np 2 python t.py"),
            "horovodrun count=2: python t.py");
}

TEST(ReadLaunchCommand, ProgramThatCallsMpiItselfIsRefused) {
  const std::string rest =
      " found after mpirun, expected a Python program that uses Horovod: MPI programs (nccl-tests, "
      "GROMACS) do not work without mpirun";
  EXPECT_EQ(Told("mpirun -np 2 /opt/all_reduce_perf -b 8"), "\"/opt/all_reduce_perf\"" + rest);
  EXPECT_EQ(Told("mpirun gmx_mpi mdrun"), "\"gmx_mpi\"" + rest);
  EXPECT_EQ(Told("mpirun python3 -m mpi4py t.py"), "\"python3\"" + rest);
  for (const char* const text : {"cd /o; ./sendrecv_perf -b 8", "gmx_mpi mdrun"}) {
    EXPECT_EQ(ReadLaunchCommand({"mpirun", "sh", "-c", text}).problem, "\"sh\"" + rest);
  }
  for (const char* const line : {"mpirun python t.py",
                                 "mpirun ./t.py",
                                 "mpirun numactl python t.py",
                                 "mpirun bash run.sh",
                                 "horovodrun ./program"}) {
    EXPECT_EQ(ReadLaunchCommand(WordsOf(line)).problem, "") << line;
  }
}

TEST(ReadLaunchCommand, ProgramThatReadsMpirunsVariablesIsRefused) {
  EXPECT_EQ(
      ReadLaunchCommand({"mpirun", "sh", "-c", "python t.py --r $OMPI_COMM_WORLD_RANK"}).problem,
      "OMPI_COMM_WORLD_RANK found, but only mpirun sets this variable; expected RANK, LOCAL_RANK, "
      "WORLD_SIZE or LOCAL_WORLD_SIZE");
}

// Each rank would start a job of its own.
TEST(ReadLaunchCommand, LauncherBehindMpirunIsRefused) {
  using Words = std::vector<std::string>;
  for (const auto& [words, name] : std::vector<std::pair<Words, std::string>>{
           {{"mpirun", "-np", "2", "torchrun", "t.py"}, "torchrun"},
           {{"mpirun", "env", "A=1", "deepspeed", "t.py"}, "deepspeed"},
           {{"mpirun", "bash", "-c", "accelerate launch t.py"}, "accelerate"},
           {{"mpirun", "bash", "-c", "mpirun -np 2 python t.py"}, "mpirun"},
           {{"mpirun", "horovodrun", "-np", "2", "python", "t.py"}, "horovodrun"}}) {
    EXPECT_EQ(
        ReadLaunchCommand(words).problem,
        name + " found after mpirun, expected the program itself: Lockstep starts every rank");
  }
  EXPECT_EQ(Told("mpirun -np 2 python3 t.py --launcher torchrun"),
            "mpirun count=2: python3 t.py --launcher torchrun");
}

TEST(ReadLaunchCommand, NumberForEachNodeIsThePods) {
  for (const char* const option : {"--npernode 2", "-N 2", "-ppn=2", "-perhost 2"}) {
    EXPECT_EQ(Told("mpirun " + std::string(option) + " t.py"), "mpirun per=2: t.py") << option;
  }
  EXPECT_EQ(Told("mpirun --map-by ppr:2:node:pe=4 t.py"),
            "mpirun per=2: t.py | --map-by ppr:2:node:pe=4");
  EXPECT_EQ(Told("mpirun --map-by ppr:2:socket -pernode t.py"),
            "mpirun per=1: t.py | --map-by ppr:2:socket | -pernode");
}

TEST(ReadLaunchCommand, SeveralProgramsAreRefused) {
  EXPECT_EQ(Told("mpirun -np 1 python a.py : -np 1 python b.py"),
            "several programs found after mpirun, with \":\" between them, expected one: all pods "
            "of a role run the same program");
}

TEST(ReadLaunchCommand, UnknownOptionMakesItUnsureUnlessItHoldsItsValue) {
  EXPECT_EQ(Told("mpirun --bogus 3 train.py"),
            "the option --bogus of mpirun is not known, so lockstep cannot tell where the program "
            "begins; remove the option");
  EXPECT_EQ(Told("mpirun --bogus=3 train.py"), "mpirun: train.py | --bogus=3");
}

TEST(ReadLaunchCommand, MissingProgramOrValueIsSaid) {
  EXPECT_EQ(Told("mpirun -np 2"), "no program found after the options of mpirun");
  EXPECT_EQ(Told("mpirun -np"), "the option -np of mpirun has no value");
  EXPECT_EQ(Told("mpirun -np x t.py"), "-np x of mpirun found, expected a number from 1 to 9999");
}

}  // namespace
}  // namespace lockstep::control
