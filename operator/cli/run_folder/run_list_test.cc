#include "operator/cli/run_folder/run_list.h"

#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/run_folder/run_directory.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;

class RunList : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "list-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A run that nobody works on; `summary` may be empty.
  std::string MakeRun(const std::string& name, const std::string& summary) {
    const std::string directory = folder_ + "/" + name;
    std::filesystem::create_directory(directory);
    std::ofstream(directory + "/job.json")
        << R"({"folder": "/", "job": {"metadata": {"name": "mnist"}}})";
    if (!summary.empty()) {
      std::ofstream(directory + "/summary.json") << summary;
    }
    return directory;
  }

  std::string folder_;
};

TEST_F(RunList, HolderIsTheProcessThatHasTheLockOpen) {
  const std::string directory = MakeRun("a", "");
  {
    const auto held = RunDirectory::Open(directory);
    ASSERT_TRUE(held.ok()) << held.error().ToString();
    EXPECT_EQ(HolderOf(directory), ::getpid());
    EXPECT_EQ(StateOf(FindRun(directory).value()), "running");
  }
  EXPECT_EQ(HolderOf(directory), std::nullopt);  // though the file still names this process
  EXPECT_EQ(HolderOf(folder_), std::nullopt);
}

TEST_F(RunList, FolderThatIsItselfARunIsToldFromAnEmptyOne) {
  EXPECT_EQ(WhyNoRuns(folder_), "no runs below " + folder_);
  const std::string directory = MakeRun("a", "");
  const std::string parent = std::filesystem::relative(folder_).string();
  EXPECT_EQ(WhyNoRuns(directory + "/"),
            "no runs below " + directory + "/: this folder is itself a run; lockstep ps " + parent +
                " lists it, lockstep logs " + directory + "/ shows what it prints");
}

TEST_F(RunList, FolderOfOtherRunsIsNoRunDirectory) {
  EXPECT_TRUE(CheckNewDirectory(folder_ + "/not-there").ok());
  EXPECT_TRUE(CheckNewDirectory(folder_).ok());
  const std::string directory = MakeRun("a", "");
  EXPECT_TRUE(CheckNewDirectory(directory).ok());
  EXPECT_THAT(CheckNewDirectory(folder_).error().message(), HasSubstr("such as " + directory));
}

TEST_F(RunList, NameThatIsNoRunTellsBothPlaces) {
  const auto run = FindRun("no-such-run");
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.error().message(),
              ::testing::HasSubstr("there is no run in runs/no-such-run either"));
}

TEST_F(RunList, TableTellsStateAndSteps) {
  MakeRun("a", R"({"outcome": "stopped", "steps": 20, "stepsTotal": 120})");
  MakeRun("b", "");
  std::filesystem::create_directory(folder_ + "/no-run");
  const std::string table = FormatRuns(RunsBelow(folder_));
  EXPECT_THAT(table, HasSubstr("/a  mnist  stopped     20/120  -\n"));
  EXPECT_THAT(table, HasSubstr("/b  mnist  unfinished  -       -\n"));
  EXPECT_EQ(table.find("no-run"), std::string::npos);
}

TEST_F(RunList, StepsOfWhoHasNotToldItsEndAreThoseOfItsNewestCheckpoint) {
  for (const char* name : {"killed", "running"}) {
    const std::string directory = MakeRun(name, "");
    std::ofstream(directory + "/job.json")
        << R"({"folder": "/", "job": {"metadata": {"name": "mnist"},)"
        << R"( "spec": {"training": {"checkpoint": {"directory": "checkpoints"}}}}})";
    std::filesystem::create_directories(directory + "/checkpoints/step-00000100");
    std::ofstream(directory + "/checkpoints/step-00000100/manifest.json") << "{}";
  }
  const auto held = RunDirectory::Open(folder_ + "/running");
  ASSERT_TRUE(held.ok()) << held.error().ToString();
  const std::string table = FormatRuns(RunsBelow(folder_));
  EXPECT_THAT(table, HasSubstr("/killed   mnist  unfinished  100+   -\n"));
  EXPECT_THAT(table,
              HasSubstr("/running  mnist  running     100+   " + std::to_string(::getpid())));
}

TEST_F(RunList, StepsOfSeveralModelsAreToldFromTheLowest) {
  const std::string directory = MakeRun("killed", "");
  std::ofstream(directory + "/job.json")
      << R"({"folder": "/", "job": {"metadata": {"name": "mnist"},)"
      << R"( "spec": {"training": {"checkpoint": {"directory": "checkpoints"}}}}})";
  for (const char* newest : {"rank-0/step-00000300", "rank-1/step-00000100"}) {
    std::filesystem::create_directories(directory + "/checkpoints/" + newest + "/a");
  }
  EXPECT_THAT(FormatRuns(RunsBelow(folder_)), HasSubstr("  unfinished  100-300+  -\n"));
}

TEST_F(RunList, ColumnsStandBelowEachOtherWhateverTheFoldersAreCalled) {
  MakeRun("übung", "");
  MakeRun("plain", "");
  const std::string table = FormatRuns(RunsBelow(folder_));
  EXPECT_THAT(table, HasSubstr("/übung  mnist  unfinished"));
  EXPECT_THAT(table, HasSubstr("/plain  mnist  unfinished"));
}

TEST_F(RunList, FolderWithoutARunIsNotFound) {
  EXPECT_EQ(FindRun(folder_).error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::control
