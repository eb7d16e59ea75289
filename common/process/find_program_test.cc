#include "common/process/find_program.h"

#include <filesystem>
#include <fstream>
#include <stdlib.h>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

class FindProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "find-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, bool is_executable) {
    namespace fs = std::filesystem;
    std::ofstream(folder_ + "/" + name) << "#!/bin/sh\n";
    fs::permissions(folder_ + "/" + name,
                    is_executable ? fs::perms::owner_all : fs::perms::owner_read);
  }

  std::string folder_;
};

TEST_F(FindProgramTest, SkipsWhatCannotRunWhenALaterFolderHasIt) {
  std::filesystem::create_directories(folder_ + "/sh");  // a folder of that name
  EXPECT_EQ(FindProgram("sh", folder_ + ":/bin").value(), "/bin/sh");
  EXPECT_EQ(FindProgram("sh", folder_).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(FindProgramTest, PathsAndRelativeEntriesStartAtTheFolder) {
  Write("mine", true);
  EXPECT_EQ(FindProgram("./mine", "/bin", folder_).value(), folder_ + "/./mine");
  EXPECT_EQ(FindProgram("mine", "/nowhere:", folder_).value(), folder_ + "/./mine");
  EXPECT_EQ(FindProgram("mine", "/nowhere:" + folder_).value(), folder_ + "/mine");
}

TEST_F(FindProgramTest, WhatCannotRunIsNamed) {
  Write("plain", false);
  EXPECT_EQ(FindProgram("plain", folder_).error().ToString(),
            "cannot start \"plain\": " + folder_ + "/plain is not an executable file");
}

// A PATH may be hundreds of characters, and this sentence goes into conditions and events.
TEST_F(FindProgramTest, MissingProgramDoesNotRepeatTheSearchPath) {
  const auto missing = FindProgram("no-such-program", "/opt/one/bin:/opt/two/bin");
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().ToString(), "cannot start \"no-such-program\": no such file in PATH");
  EXPECT_EQ(FindProgram("/no/such", "/bin").error().ToString(),
            "cannot start \"/no/such\": no such file");
  EXPECT_EQ(FindProgram("", "/bin").error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lockstep
