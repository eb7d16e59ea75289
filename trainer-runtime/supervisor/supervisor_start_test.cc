// Starting programs: what they see, and what happens when they cannot be started.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/contract/environment/topology.h"
#include "trainer-runtime/supervisor/process_plan.h"
#include "trainer-runtime/supervisor/supervisor_test_support.h"

namespace lockstep::runtime {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

class SupervisorStartTest : public SupervisorTest {
 protected:
  // A file in the test's folder.
  std::string Program(const std::string& name, const std::string& content, mode_t mode) {
    const std::string path = directory_ + "/" + name;
    EXPECT_TRUE(WriteFileAtomically(path, content).ok());
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  void ExpectStartError(const std::string& command, int exit_code, const std::string& says) {
    std::filesystem::remove(options_.termination_message_file);
    options_.command = {command};
    EXPECT_EQ(Run(), exit_code) << command;
    EXPECT_THAT(Message().reason, HasSubstr(says));
    EXPECT_THAT(Message().reason, HasSubstr(command));
    EXPECT_EQ(Message().outcome, Outcome::kPermanent);
  }
};

JobTopology ThreeWorkers(int processes) {
  JobTopology topology;
  topology.job = "mnist";
  topology.namespace_name = "default";
  topology.roles = {{Role::kWorker, 3, processes}};
  topology.addressing = LoopbackAddressing{"127.4.5"};
  return topology;
}

WorkerEnvironment EnvironmentOf(const JobTopology& topology, const TaskId& task) {
  PodIdentity identity;
  identity.task = task;
  identity.job_uid = "uid-1";
  return MakeWorkerEnvironment(topology, identity).value();
}

// Acceptance: a program that prints its environment sees the whole contract.
TEST_F(SupervisorStartTest, ProgramSeesTheEnvironmentOfItsRank) {
  const WorkerEnvironment pod = EnvironmentOf(ThreeWorkers(2), {Role::kWorker, 1});
  options_.processes =
      PlanProcesses(pod, {{"PATH", "/usr/bin:/bin"}, {"RANK", "99"}, {"MINE", "kept"}}, {}, true)
          .value();
  options_.command = {"env"};
  EXPECT_EQ(Run(), 0);
  for (const int local_rank : {0, 1}) {
    std::vector<std::string> expected = {"MINE=kept"};
    for (const auto& [name, value] : RenderEnvironmentForProcess(pod, local_rank).value()) {
      expected.push_back(name + "=" + value);
    }
    for (std::string& line : expected) {
      line.insert(0, "[rank " + std::to_string(2 + local_rank) + "] ");
    }
    EXPECT_GT(expected.size(), 20U);
    EXPECT_THAT(SortedLines(), IsSupersetOf(expected));
  }
  EXPECT_THAT(SortedLines(), Contains("[rank 3] RANK=3"));
  EXPECT_THAT(SortedLines(), Contains("[rank 3] LOCAL_RANK=1"));
}

// As a kubelet starts the pod: the operator's variables over those of the image.
std::vector<SupervisedProcess> ProcessesOf(EnvironmentMap pod) {
  pod.insert({{"PATH", "/usr/bin:/bin"},
              {"RANK", "99"},
              {"MASTER_PORT", "1"},
              {"HOROVOD_GLOO_IFACE", "ens5"}});
  return PlanProcesses(ParseEnvironment(pod).value(), pod, {}, true).value();
}

// Whatever a pod is told of, its programs see the same.
TEST_F(SupervisorStartTest, ProgramsSeeNoDifferenceBetweenABriefPodAndAWholeOne) {
  const std::vector<std::vector<RoleTopology>> jobs = {
      {{Role::kWorker, 1, 1}},
      {{Role::kWorker, 3, 2}},
      {{Role::kChief, 1, 1}, {Role::kWorker, 2, 1}, {Role::kPs, 2, 1}, {Role::kEvaluator, 1, 1}}};
  for (const std::vector<RoleTopology>& roles : jobs) {
    const JobTopology topology = {"mnist", "default", roles, DnsAddressing{}};
    for (const TaskId& task : AllTasks(topology)) {
      const WorkerEnvironment pod = EnvironmentOf(topology, task);
      const auto whole = ProcessesOf(RenderEnvironment(pod).value());
      const auto brief = ProcessesOf(RenderBriefEnvironment(topology, pod).value());
      ASSERT_EQ(brief.size(), whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) {
        EnvironmentMap seen = brief[i].environment;
        EXPECT_EQ(seen.erase(env::kCluster), 1U);  // the one that is new to programs
        EXPECT_EQ(seen, whole[i].environment) << TaskName(task) << ", process " << i;
        EXPECT_EQ(brief[i].rank, whole[i].rank);
      }
    }
  }
}

// An empty value is one that somebody chose: Python buffers then.
TEST_F(SupervisorStartTest, PythonWritesAtOnceUnlessToldOtherwise) {
  const WorkerEnvironment pod = EnvironmentOf(ThreeWorkers(1), {Role::kWorker, 0});
  EXPECT_EQ(PlanProcesses(pod, {}, {}, true).value()[0].environment.at("PYTHONUNBUFFERED"), "1");
  const auto told = PlanProcesses(pod, {{"PYTHONUNBUFFERED", ""}}, {}, true).value();
  EXPECT_EQ(told[0].environment.at("PYTHONUNBUFFERED"), "");
}

TEST_F(SupervisorStartTest, PrefixIsTheRoleWherePodIsNoRank) {
  JobTopology topology = ThreeWorkers(1);
  topology.roles.push_back({Role::kEvaluator, 1, 1});
  const WorkerEnvironment pod = EnvironmentOf(topology, {Role::kEvaluator, 0});
  const auto processes = PlanProcesses(pod, {}, {}, true).value();
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].prefix, "[evaluator-0] ");
  EXPECT_EQ(processes[0].rank, std::nullopt);
  EXPECT_EQ(PlanProcesses(pod, {}, {}, false).value()[0].prefix, "");
}

// The PATH is in the log, once; the reason goes on to conditions, events and summaries without it.
TEST_F(SupervisorStartTest, MissingProgramIs127) {
  ExpectStartError("no-such-program", 127, "no such file in PATH");
  EXPECT_THAT(Message().reason, Not(HasSubstr("/usr/bin")));
  ExpectStartError(directory_ + "/none", 127, "no such file");
}

TEST_F(SupervisorStartTest, MissingInterpreterIs127) {
  ExpectStartError(Program("script", "#!/no/such/shell\n", 0755), 127, "interpreter");
}

TEST_F(SupervisorStartTest, FileWithoutPermissionIs126) {
  ExpectStartError(Program("plain", "#!/bin/sh\n", 0644), 126, "not an executable file");
}

TEST_F(SupervisorStartTest, FolderIs126) {
  ExpectStartError(directory_, 126, "not an executable file");
}

TEST_F(SupervisorStartTest, FileThatIsNoProgramIs126) {
  ExpectStartError(Program("text", "hello\n", 0755), 126, "not a program");
}

TEST_F(SupervisorStartTest, ProgramIsFoundThroughItsOwnPath) {
  Program("mine", "#!/bin/sh\necho found\n", 0755);
  options_.processes[0].environment["PATH"] = "/nowhere:" + directory_;
  options_.command = {"mine"};
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(seen_, "[rank 0] found\n");
}

// Each start says its number; the first one of rank 1 is lost.
TEST_F(SupervisorStartTest, LostProcessHasASuccessorBesideTheOthers) {
  UseProcesses(2);
  int starts[2] = {0, 0};
  options_.on_start = [&](int local_rank) -> Result<ProcessStart> {
    const int number = starts[local_rank]++;
    ProcessStart start;
    start.arguments = {"name", std::to_string(number)};
    return start;
  };
  options_.wants_again = [](const SupervisorEvent& ended) { return ended.signal == SIGKILL; };
  UseScript("echo start $1; test $RANK = 1 && test $1 = 0 && kill -9 $$; exit 0");
  EXPECT_EQ(Run(), 0) << seen_;
  EXPECT_THAT(SortedLines(),
              testing::ElementsAre("[rank 0] start 0", "[rank 1] start 0", "[rank 1] start 1"));
  EXPECT_EQ(Message().outcome, Outcome::kSuccess);
}

// As torchrun's workers do, which lead sessions: they hold ports and GPUs.
TEST_F(SupervisorStartTest, WhatALostProcessLeftInAnotherSessionIsGoneBeforeItsSuccessorRuns) {
  options_.wants_again = [count = 0](const SupervisorEvent&) mutable { return ++count == 1; };
  const std::string file = directory_ + "/left";
  UseScript("if test -e " + file + "; then kill -0 $(cat " + file + ") && exit 3; exit 0; fi; " +
            "setsid sleep 60 & echo $! > " + file + "; kill -9 $$");
  EXPECT_EQ(Run(), 0) << seen_;
}

// They are of an end that was none of the pod's.
TEST_F(SupervisorStartTest, LastWordsOfALostProcessAreForgottenWithIt) {
  options_.wants_again = [count = 0](const SupervisorEvent&) mutable { return ++count == 1; };
  const std::string words = R"({"outcome": "preempted", "reason": "not saved"})";
  UseScript("test -e " + directory_ + "/second && exit 0; touch " + directory_ + "/second; echo '" +
            words + "' > " + options_.termination_message_file + "; kill -9 $$");
  EXPECT_EQ(Run(), 0) << seen_;
  EXPECT_EQ(Message().outcome, Outcome::kSuccess);
}

TEST_F(SupervisorStartTest, LostProcessThatNobodyWantsAgainIsThePodsFailure) {
  UseProcesses(2);
  options_.wants_again = [](const SupervisorEvent&) { return false; };
  UseScript("test $RANK = 1 && kill -9 $$; exec sleep 60");
  EXPECT_EQ(Run(), 128 + SIGKILL);
  EXPECT_EQ(Message().culprit_rank, 1);
}

// It is neither started again nor a failure, and the others run on.
TEST_F(SupervisorStartTest, ProcessKilledAfterAllWorkWasDoneHasSucceeded) {
  UseProcesses(2);
  options_.judge = [](SupervisorEvent* ended) {
    ended->exit_code = ended->signal == SIGKILL ? 0 : ended->exit_code;
    ended->signal = 0;
  };
  options_.wants_again = [](const SupervisorEvent&) { return true; };
  UseScript("test $RANK = 1 && kill -9 $$; echo done");
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(seen_, "[rank 0] done\n");
  EXPECT_EQ(Message().outcome, Outcome::kSuccess);
}

TEST_F(SupervisorStartTest, ProcessThatEndsWithZeroBeforeItsWorkIsDoneHasFailed) {
  UseProcesses(2);
  options_.judge = [](SupervisorEvent* ended) {
    ended->exit_code = ended->local_rank == 1 ? 64 : ended->exit_code;
    ended->why = "step 3 of 8";
  };
  UseScript("test $RANK = 0 && exec sleep 60; echo goodbye >&2");
  EXPECT_EQ(Run(), 64);
  EXPECT_EQ(Message().outcome, Outcome::kPermanent);
  EXPECT_EQ(Message().reason, "step 3 of 8");
  EXPECT_EQ(Message().culprit_rank, 1);
}

TEST_F(SupervisorStartTest, ProcessThatEndsWithZeroWhenItWasAskedToEndIsNotJudged) {
  UseProcesses(1);
  options_.judge = [](SupervisorEvent* ended) { ended->exit_code = 64; };
  UseScript("trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
  Start();
  AwaitOutput("up");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 0);
}

TEST_F(SupervisorStartTest, NobodyIsStartedAgainWhoWasAskedToEnd) {
  UseProcesses(1);
  options_.wants_again = [](const SupervisorEvent&) { return true; };
  UseScript("echo up; exec sleep 60");
  Start();
  AwaitOutput("up");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 128 + SIGTERM);
}

TEST_F(SupervisorStartTest, InputOfAProcessIsWhatItsStartGives) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], "hello\n", 6), 6);
  ::close(ends[1]);
  options_.on_start = [&](int) -> Result<ProcessStart> {
    ProcessStart start;
    start.input = UniqueFd(ends[0]);
    return start;
  };
  UseScript("cat");
  EXPECT_EQ(Run(), 0);
  ::close(ends[0]);
  EXPECT_EQ(seen_, "[rank 0] hello\n");
}

// Only the descriptor that is to be kept is there, under the number that its variable says.
TEST_F(SupervisorStartTest, AProcessKeepsWhatItsStartGivesBeside) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], "kept\n", 5), 5);
  options_.processes[0].environment["KEPT"] = "the process's";
  options_.on_start = [&](int) -> Result<ProcessStart> {
    ProcessStart start;
    start.kept = UniqueFd(ends[0]);
    start.environment = {{"KEPT", std::to_string(ends[0])}, {"OTHER", std::to_string(ends[1])}};
    return start;
  };
  UseScript("head -n 1 /proc/self/fd/$KEPT; test -e /proc/self/fd/$OTHER && echo leaked; exit 0");
  EXPECT_EQ(Run(), 0);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(seen_, "[rank 0] kept\n");
}

TEST_F(SupervisorStartTest, TheTerminationMessageSaysWhatIsAdded) {
  options_.add_words = [](TerminationMessage* words) { words->last_step = Step(12); };
  UseScript("exit 0");
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(Message().last_step, Step(12));
}

}  // namespace
}  // namespace lockstep::runtime
