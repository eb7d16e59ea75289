#include "operator/cli/terminal/completion.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "operator/cli/arguments.h"

namespace lockstep::control {
namespace {

// What bash offers after the words, the last of which is begun; sorted, in one line.
std::string Offered(const std::string& words) {
  const std::string script = testing::TempDir() + "/completion.bash";
  std::ofstream(script) << CompletionScript(Shell::kBash, DescribeCommands());
  const std::string command = "bash -c 'source " + script + "; COMP_WORDS=(" + words +
                              "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lockstep; "
                              "printf \"%s\\n\" \"${COMPREPLY[@]}\" | sort | tr \"\\n\" \" \"'";
  std::string text;
  if (FILE* const output = ::popen(command.c_str(), "r"); output != nullptr) {
    std::array<char, 4096> block{};
    text.assign(block.data(), std::fread(block.data(), 1, block.size(), output));
    ::pclose(output);
  }
  std::filesystem::remove(script);
  return text;
}

TEST(CompletionScript, BashOffersCommandsThenTheirOptionsAndValues) {
  EXPECT_EQ(Offered("lockstep re"), "render ");
  EXPECT_EQ(Offered("lockstep --v"), "--version ");
  EXPECT_EQ(Offered("lockstep run --s"), "--set --summary ");
  EXPECT_EQ(Offered("lockstep run --verbose --t"), "--timeout ");
  EXPECT_EQ(Offered("lockstep render --output \"\""), "json text ");
  EXPECT_EQ(Offered("lockstep render -o j"), "json ");
  EXPECT_EQ(Offered("lockstep completion f"), "fish ");
}

TEST(CompletionScript, BashLeavesOtherWordsToItsOwnCompletionOfFiles) {
  EXPECT_EQ(Offered("lockstep run \"\""), " ");
  EXPECT_EQ(Offered("lockstep run --dir \"\""), " ");
}

TEST(CompletionScript, EveryShellKnowsEveryCommandAndOption) {
  const CommandWords program = DescribeCommands();
  EXPECT_GE(program.commands.size(), 10U);
  for (const Shell shell : {Shell::kBash, Shell::kZsh, Shell::kFish}) {
    const std::string script = CompletionScript(shell, program);
    for (const CommandWords& command : program.commands) {
      EXPECT_NE(script.find(command.name), std::string::npos) << command.name;
      for (const OptionWords& option : command.options) {
        const std::string name = option.names.back().substr(option.names.back().rfind("--") + 2);
        EXPECT_NE(script.find(name), std::string::npos) << command.name << " " << name;
      }
    }
  }
}

TEST(CompletionScript, QuotesAndBracketsOfADescriptionAreEscaped) {
  const CommandWords program{
      "p", "", {}, {}, {{"c", "it's", {{{"--dir"}, "the job's [runs]", true, {}}}, {}, {}}}};
  EXPECT_NE(CompletionScript(Shell::kZsh, program)
                .find("'*--dir[the job'\\''s \\[runs\\]]:value:_files'"),
            std::string::npos);
  EXPECT_NE(CompletionScript(Shell::kFish, program).find("-d 'the job'\\''s [runs]'"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
