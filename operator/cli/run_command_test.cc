#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/io/file.h"
#include "common/json/json.h"
#include "operator/cli/commands.h"
#include "operator/cli/run_folder/run_list.h"
#include "operator/cli/summary/summary.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Whole runs of commands, with a stand-in for lockstep-runtime that becomes the command: real
// processes, the real controller.
class RunCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "run-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    WriteRuntime("lockstep-runtime 0");
    arguments_.source.file = folder_ + "/job.yaml";
    arguments_.directory = folder_ + "/run";
    arguments_.summary_file = folder_ + "/summary.json";
    arguments_.runtime = folder_ + "/runtime";
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  // `version`: what it answers to --version, as a shell reads it.
  void WriteRuntime(const std::string& version) {
    std::ofstream(folder_ + "/runtime") << "#!/bin/sh\nif [ \"$1\" = --version ]; then echo "
                                        << version << "; exit; fi\nshift 2\nexec \"$@\"\n";
    ASSERT_EQ(::chmod((folder_ + "/runtime").c_str(), 0700), 0);
  }

  // Two workers that run `command`, a YAML list.
  void WriteJob(const std::string& command, const std::string& role_fields = "") {
    std::ofstream(arguments_.source.file)
        << "apiVersion: lockstep.dev/v1\n"
           "kind: TrainingJob\n"
           "metadata: {name: tested}\n"
           "spec:\n"
           "  successPolicy: AllWorkers\n"
           "  runPolicy: {backoffLimit: 1}\n"
           "  roles:\n"
           "  - name: worker\n"
           "    replicas: 2\n"
        << role_fields
        << "    template: {spec: {terminationGracePeriodSeconds: 1, "
           "containers: [{name: trainer, image: none, command: "
        << command << "}]}}\n";
  }

  Json Summary() { return ParseJson(ReadFile(arguments_.summary_file, 1 << 20).value()).value(); }

  std::string LogOf(const std::string& pod) {
    return ReadFile(folder_ + "/run/pods/" + pod + "/pod.log", 1 << 20).value();
  }

  std::string folder_;
  RunArguments arguments_;
};

TEST_F(RunCommandTest, CommandThatEndsWellSucceeds) {
  WriteJob("[sh, -c, 'echo rank $RANK of $WORLD_SIZE']");
  EXPECT_EQ(RunRun(arguments_), kCliSucceeded);
  EXPECT_EQ(LogOf("tested-worker-1"), "rank 1 of 2\n");
  const Json summary = Summary();
  EXPECT_EQ(summary["outcome"], "succeeded");
  EXPECT_EQ(summary["pods"].size(), 2U);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/run/job.key"));
}

TEST_F(RunCommandTest, ProgramsOwnVerdictFailsTheJobAtOnce) {
  WriteJob("[sh, -c, 'echo no such option; exit 3']");
  EXPECT_EQ(RunRun(arguments_), kCliFailed);
  const Json summary = Summary();
  EXPECT_EQ(summary["outcome"], "failed");
  EXPECT_TRUE(summary["restarts"].empty());
  EXPECT_THAT(summary["reason"].get<std::string>(), HasSubstr("exit code 3"));
}

// As in a cluster, "$$" in a manifest is how "$" is written: the shell sees half of them.
TEST_F(RunCommandTest, KilledWorkerIsStartedAgainAndCounted) {
  WriteJob("[sh, -c, 'test $LOCKSTEP_ATTEMPT$RANK != 01 || kill -KILL $$$$; exit 0']");
  EXPECT_EQ(RunRun(arguments_), kCliSucceeded);
  const Json summary = Summary();
  ASSERT_EQ(summary["recoveries"].size(), 1U);
  EXPECT_EQ(summary["recoveries"][0]["culprit"], "worker-1");
  EXPECT_EQ(summary["recoveries"][0]["cause"], "killed");
  EXPECT_TRUE(summary["recoveries"][0]["killToNextStepSeconds"].is_null());
  EXPECT_EQ(DumpJson(summary["restarts"]), R"([{"cause":"killed","count":1}])");
}

TEST_F(RunCommandTest, UsedUpBudgetFailsTheJobWithItsCause) {
  WriteJob("[sh, -c, 'kill -KILL $$$$']");
  EXPECT_EQ(RunRun(arguments_), kCliFailed);
  EXPECT_THAT(Summary()["reason"].get<std::string>(), HasSubstr("cause killed"));
}

TEST_F(RunCommandTest, ProgramThatDoesNotExistFailsWithItsName) {
  WriteJob("[no-such-program]");
  EXPECT_EQ(RunRun(arguments_), kCliFailed);
  // The other worker may have been stopped before it came as far.
  EXPECT_THAT(Summary()["reason"].get<std::string>(), HasSubstr("no-such-program"));
}

TEST_F(RunCommandTest, OutputThatNoFileTakesIsSaidAndCounted) {
  if (!std::filesystem::exists("/dev/full")) {
    GTEST_SKIP() << "this system has no /dev/full";
  }
  const std::string pod = folder_ + "/run/pods/tested-worker-1";
  std::filesystem::create_directories(pod);
  std::filesystem::create_symlink("/dev/full", pod + "/pod.log");
  WriteJob("[sh, -c, 'echo words']");
  arguments_.quiet = true;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(RunRun(arguments_), kCliSucceeded);
  const std::string told = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(told, HasSubstr("warning: output of tested-worker-1 is being lost: "));
  EXPECT_THAT(told, HasSubstr("pod.log: write: No space left on device\n"));
  EXPECT_THAT(told, HasSubstr("/pods/*/pod.log, without 6 bytes of tested-worker-1\n"));
  EXPECT_EQ(Summary()["pods"][0]["lostOutputBytes"], 0);
  EXPECT_EQ(Summary()["pods"][1]["lostOutputBytes"], 6);
}

TEST_F(RunCommandTest, SummaryThatCannotBeWrittenFailsAndTheEndIsKnownAllTheSame) {
  std::filesystem::create_directories(folder_ + "/run/summary.json/in-the-way");
  WriteJob("[sh, -c, 'exit 0']");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunRun(arguments_), kCliFailed);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("writing the summary: open " + folder_ + "/run/summary.json: "));
  EXPECT_EQ(StateOf(FindRun(folder_ + "/run").value()), "succeeded");
}

TEST_F(RunCommandTest, OrderedFailuresHappen) {
  WriteJob("[sh, -c, 'test $LOCKSTEP_ATTEMPT != 0 || exec sleep 1000']");
  arguments_.chaos = ParseChaos("kill=worker-1@time=0s").value();
  EXPECT_EQ(RunRun(arguments_), kCliSucceeded);
  EXPECT_EQ(Summary()["recoveries"][0]["culprit"], "worker-1");
}

TEST_F(RunCommandTest, OrderedFailureThatNeverCameIsSaid) {
  WriteJob("[sh, -c, 'exit 0']");
  arguments_.chaos = ParseChaos("kill=worker-1@time=1h").value();
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(RunRun(arguments_), kCliSucceeded);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("not injected: kill=worker-1@time=1h\n"));
  EXPECT_EQ(Summary()["chaosNotFired"][0], "kill=worker-1@time=1h");
}

TEST_F(RunCommandTest, TimeoutStopsTheJobAsFailed) {
  WriteJob("[sh, -c, 'trap : TERM; while :; do sleep 1000; done']");
  arguments_.timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(RunRun(arguments_), kCliFailed);
  const Json summary = Summary();
  EXPECT_THAT(summary["reason"].get<std::string>(), HasSubstr("not finished within"));
  EXPECT_FALSE(summary["pods"][0]["exitCode"].is_null());
}

TEST_F(RunCommandTest, JobThatDoesNotFitIsRefusedAndNothingIsMade) {
  WriteJob("[sh, -c, 'exit 0']", "    gpus: 64\n");
  EXPECT_EQ(RunRun(arguments_), kCliRefused);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/run"));
  const Json summary = Summary();
  EXPECT_EQ(summary["outcome"], "refused");
  EXPECT_THAT(summary["reason"].get<std::string>(), HasSubstr("needs 128 GPUs"));
}

TEST_F(RunCommandTest, BadManifestIsUsageAndNothingIsMade) {
  WriteJob("[sh]", "    replikas: 2\n");
  EXPECT_EQ(RunRun(arguments_), kCliUsage);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/run"));
}

TEST_F(RunCommandTest, ChaosAgainstAnUnknownPodIsUsageAndNothingIsMade) {
  WriteJob("[sh, -c, 'exit 0']");
  arguments_.chaos = ParseChaos("kill=worker-7@step=1").value();
  EXPECT_EQ(RunRun(arguments_), kCliUsage);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/run"));
}

TEST_F(RunCommandTest, MissingRuntimeIsSaid) {
  WriteJob("[sh, -c, 'exit 0']");
  arguments_.runtime = folder_ + "/missing";
  EXPECT_EQ(RunRun(arguments_), kCliFailed);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/run"));
}

// In its place every pod would end at once with exit code 0, and the job with it.
TEST_F(RunCommandTest, ProgramThatIsNoRuntimeIsRefusedWithWhatItSays) {
  WriteJob("[sh, -c, 'exit 0']");
  for (const auto& [version, says] :
       {std::pair{"'true (GNU coreutils) 9.1'", "\"true (GNU coreutils) 9.1\", expected"},
        std::pair{"", "\"\", expected \"lockstep-runtime\" and its version"},
        std::pair{"begin; while :; do echo without end; done", "\"begin\""}}) {
    WriteRuntime(version);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(RunRun(arguments_), kCliFailed);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("/runtime is not lockstep-runtime: with --version it prints " +
                          std::string(says)));
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/run"));
  }
}

TEST_F(RunCommandTest, ResumeGoesOnWithTheEarlierRunAndItsManifest) {
  WriteJob("[sh, -c, 'test -e again || { touch again; exit 3; }']");
  EXPECT_EQ(RunRun(arguments_), kCliFailed);
  RunArguments again;
  again.resume = arguments_.directory;
  again.runtime = arguments_.runtime;
  again.source.workers = 1;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(RunRun(again), kCliSucceeded);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("an earlier run in this folder failed"));
  const auto summary = ParseJson(ReadFile(folder_ + "/run/summary.json", 1 << 20).value());
  EXPECT_EQ((*summary)["pods"].size(), 1U);
}

TEST_F(RunCommandTest, LogThatCannotBeWrittenIsSaidAndCounted) {
  WriteJob("[sh, -c, 'exit 0']");
  std::filesystem::create_directory(folder_ + "/run");
  std::filesystem::create_symlink("/dev/full", folder_ + "/run/lockstep.log");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(RunRun(arguments_), kCliSucceeded);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("warning: the operator's decisions are not logged: "));
  EXPECT_GT(Summary()["lostLogLines"], 0);
}

TEST_F(RunCommandTest, ResumeOfNothingIsUsageAndNothingIsMade) {
  arguments_.resume = folder_ + "/run";
  EXPECT_EQ(RunRun(arguments_), kCliUsage);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/run"));
}

// The folder is that of the job before: its runs, not those of a job of another name, go on there.
TEST_F(RunCommandTest, ResumeUnderAnotherNameIsRefusedAsThatOfAnotherFileIs) {
  WriteJob("[sh, -c, 'exit 0']");
  ASSERT_EQ(RunRun(arguments_), kCliSucceeded);
  arguments_.resume = std::exchange(arguments_.directory, "");
  arguments_.source.file = "";
  arguments_.source.settings = {ParseSetting("metadata.name=other").value()};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunRun(arguments_), kCliUsage);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("that run belongs to the job \"tested\", but the manifest has the job "
                        "\"other\""));
}

// What is resumed from would be lost, and with it the run.
TEST_F(RunCommandTest, SummaryIsNotWrittenOverWhatTheRunKeeps) {
  WriteJob("[sh, -c, 'exit 0']");
  ASSERT_EQ(RunRun(arguments_), kCliSucceeded);
  const std::string record = ReadFile(folder_ + "/run/job.json", 1 << 20).value();
  for (const std::string name : {"job.json", "./job.json", "lock", "lockstep.log", "job.key"}) {
    arguments_.summary_file = folder_ + "/run/" + name;
    RunArguments again = arguments_;
    again.resume = std::exchange(again.directory, "");
    again.source.file = "";
    for (const RunArguments& asked : {arguments_, again}) {
      ::testing::internal::CaptureStderr();
      EXPECT_EQ(RunRun(asked), kCliUsage) << name;
      EXPECT_THAT(
          ::testing::internal::GetCapturedStderr(),
          HasSubstr("--summary " + arguments_.summary_file + ": a file of the run itself found"));
    }
  }
  EXPECT_EQ(ReadFile(folder_ + "/run/job.json", 1 << 20).value(), record);
}

TEST_F(RunCommandTest, UmaskThatTakesTheOwnersRightsIsRefusedAndNothingIsMade) {
  WriteJob("[sh, -c, 'exit 0']");
  const mode_t before = ::umask(0777);
  ::testing::internal::CaptureStderr();
  const int exit_code = RunRun(arguments_);
  ::umask(before);
  EXPECT_EQ(exit_code, kCliUsage);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("umask 0777 found"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/run"));
}

TEST_F(RunCommandTest, RunWhoseFolderIsMovedAwaySaysSoWithItsPath) {
  WriteJob("[sh, -c, 'mv run moved && sleep 1.5']");
  ::testing::internal::CaptureStdout();
  RunRun(arguments_);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("warning: the run directory " + folder_ + "/run was moved or removed"));
}

TEST_F(RunCommandTest, QuietRunTellsItsEndOnly) {
  WriteJob("[sh, -c, 'echo hello']");
  arguments_.quiet = true;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(RunRun(arguments_), kCliSucceeded);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), StartsWith("tested succeeded after"));
}

TEST_F(RunCommandTest, ValidateTellsGoodFromBad) {
  WriteJob("[sh, -c, 'exit 0']");
  EXPECT_EQ(RunValidate({{arguments_.source.file}}), kCliSucceeded);
  EXPECT_EQ(RunValidate({{arguments_.source.file, folder_ + "/missing.yaml"}}), kCliUsage);
}

TEST_F(RunCommandTest, RenderPrintsThePodsAsJson) {
  WriteJob("[python3, train.py]");
  RenderArguments render;
  render.source.file = arguments_.source.file;
  render.as_json = true;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(RunRender(render), kCliSucceeded);
  const auto json = ParseJson(::testing::internal::GetCapturedStdout());
  ASSERT_TRUE(json.ok()) << json.error().ToString();
  ASSERT_EQ((*json)["pods"].size(), 2U);
  const Json& pod = (*json)["pods"][1];
  EXPECT_EQ(pod["name"], "tested-worker-1");
  EXPECT_EQ(pod["role"], "worker");
  EXPECT_EQ(pod["index"], 1);
  EXPECT_EQ(pod["env"]["RANK"], "1");
  EXPECT_THAT(pod["env"]["TF_CONFIG"].get<std::string>(),
              HasSubstr("tested-worker-0.tested.default.svc:2222"));
  EXPECT_EQ(DumpJson(pod["command"]), R"(["lockstep-runtime","run","--","python3","train.py"])");
}

TEST_F(RunCommandTest, LocalAddressesAreNoneThatARunCouldHave) {
  WriteJob("[python3, train.py]");
  RenderArguments render;
  render.source.file = arguments_.source.file;
  render.local = true;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunRender(render), kCliSucceeded);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("MASTER_ADDR=127.X.Y.1\n"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("are examples: each run takes free addresses and ports"));
}

}  // namespace
}  // namespace lockstep::control
