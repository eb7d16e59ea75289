#include "common/contract/command/python_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::HasSubstr;

TEST(ParsePythonCommand, TakesAScriptOrAModule) {
  const std::vector<std::vector<std::string>> commands = {
      {"python3", "train.py"},
      {"python", "-u", "code/train.py", "--lr", "0.1 or so", "-c"},
      {"/opt/conda/bin/python3.11", "-m", "pkg.train", "-u"},
      {"python3", "-u", "-m", "train"},
  };
  for (const std::vector<std::string>& command : commands) {
    const Result<PythonCommand> parsed = ParsePythonCommand(command);
    ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
    EXPECT_EQ(parsed->interpreter, command.front());
    EXPECT_EQ(parsed->words, std::vector<std::string>(command.begin() + 1, command.end()));
  }
}

TEST(ParsePythonCommand, RefusesAllElseAndSaysWhatWasExpected) {
  struct Case {
    std::vector<std::string> command;
    std::string found;
  };

  const std::vector<Case> cases = {
      {{}, "no command found"},
      {{"torchrun", "train.py"}, "\"torchrun\" found"},
      {{"sh", "-c", "python3 train.py"}, "\"sh\" found"},
      {{"python2", "train.py"}, "\"python2\" found"},
      {{"python3.x", "train.py"}, "\"python3.x\" found"},
      {{"python3"}, "\"python3\" without a program found"},
      {{"python3", "-u"}, "\"python3\" without a program found"},
      {{"python3", "-c", "print()"}, "\"-c\" after \"python3\" found"},
      {{"python3", "-O", "train.py"}, "\"-O\" after \"python3\" found"},
      {{"python3", "train"}, "\"train\" after \"python3\" found"},
      {{"python3", "my train.py"}, "\"my train.py\" after \"python3\" found"},
      {{"python3", "-m"}, "-m without the name of a module found"},
      {{"python3", "-m", "--help"}, "-m without the name of a module found"},
  };
  for (const Case& one : cases) {
    const Result<PythonCommand> parsed = ParsePythonCommand(one.command);
    ASSERT_FALSE(parsed.ok()) << one.found;
    EXPECT_THAT(parsed.error().message(), HasSubstr(one.found));
    EXPECT_THAT(parsed.error().message(), HasSubstr(kPythonCommandWords));
  }
}

TEST(IsModuleName, IsWhatImportTakes) {
  for (const char* name : {"torch", "torch.distributed", "_a1.b_2"}) {
    EXPECT_TRUE(IsModuleName(name)) << name;
  }
  for (const char* name : {"", ".", "a.", ".a", "a..b", "1a", "a-b", "a b", "a,b"}) {
    EXPECT_FALSE(IsModuleName(name)) << name;
  }
  EXPECT_FALSE(IsModuleName(std::string(254, 'a')));
}

}  // namespace
}  // namespace lockstep
