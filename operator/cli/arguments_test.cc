#include "operator/cli/arguments.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/summary.h"

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Arguments ParseGood(std::vector<std::string> words) {
  words.insert(words.begin(), "lockstep");
  auto parsed = ParseArguments(words);
  if (const auto* end = std::get_if<ArgumentsEnd>(&parsed)) {
    ADD_FAILURE() << end->text;
    return VersionArguments{};
  }
  return std::get<Arguments>(parsed);
}

ArgumentsEnd ParseEnd(std::vector<std::string> words) {
  words.insert(words.begin(), "lockstep");
  auto parsed = ParseArguments(words);
  const auto* end = std::get_if<ArgumentsEnd>(&parsed);
  EXPECT_NE(end, nullptr);
  return end == nullptr ? ArgumentsEnd() : *end;
}

TEST(ParseArguments, RunTakesAllItsOptions) {
  const auto run = std::get<RunArguments>(ParseGood({"run",
                                                     "job.yaml",
                                                     "--dir",
                                                     "d",
                                                     "--summary",
                                                     "s.json",
                                                     "--chaos",
                                                     "kill=worker-1@step=60,stop=worker-0@time=1s",
                                                     "--chaos",
                                                     "kill=worker-0@step=9",
                                                     "--timeout",
                                                     "1.5",
                                                     "--verbose",
                                                     "--keep"}));
  EXPECT_EQ(run.file, "job.yaml");
  EXPECT_EQ(run.directory, "d");
  EXPECT_EQ(run.summary_file, "s.json");
  EXPECT_EQ(run.chaos.size(), 3U);
  EXPECT_EQ(run.timeout, std::chrono::milliseconds(1500));
  EXPECT_TRUE(run.verbose);
  EXPECT_TRUE(run.keep);
}

TEST(ParseArguments, OptionBeforeTheFileLeavesTheFileAlone) {
  const auto run =
      std::get<RunArguments>(ParseGood({"run", "--chaos", "kill=worker-1@step=60", "job.yaml"}));
  EXPECT_EQ(run.file, "job.yaml");
  EXPECT_EQ(run.chaos.size(), 1U);
}

TEST(ParseArguments, ValidateTakesManyFiles) {
  const auto validate = std::get<ValidateArguments>(ParseGood({"validate", "a", "b"}));
  EXPECT_THAT(validate.files, ElementsAre("a", "b"));
}

TEST(ParseArguments, RenderTakesItsOutput) {
  EXPECT_TRUE(std::get<RenderArguments>(ParseGood({"render", "a", "--output", "json"})).as_json);
  EXPECT_FALSE(std::get<RenderArguments>(ParseGood({"render", "a"})).as_json);
}

TEST(ParseArguments, VersionIsACommandAndAFlag) {
  EXPECT_TRUE(std::holds_alternative<VersionArguments>(ParseGood({"version"})));
  const ArgumentsEnd end = ParseEnd({"--version"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.text, VersionText() + "\n");
}

TEST(ParseArguments, HelpTellsCommandsAndExitCodes) {
  const ArgumentsEnd end = ParseEnd({"--help"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.text, HasSubstr("validate"));
  EXPECT_THAT(end.text, HasSubstr("130 stopped by ^C"));
}

TEST(ParseArguments, HelpOfRunShowsTheChaosGrammar) {
  EXPECT_THAT(ParseEnd({"run", "--help"}).text, HasSubstr("kill=worker-1@step=60"));
}

struct MistakeCase {
  std::vector<std::string> words;
  const char* message;
};

class ArgumentMistakes : public ::testing::TestWithParam<MistakeCase> {};

TEST_P(ArgumentMistakes, EndWithUsageAndSayWhatIsWrong) {
  const ArgumentsEnd end = ParseEnd(GetParam().words);
  EXPECT_EQ(end.exit_code, kCliUsage);
  EXPECT_THAT(end.text, HasSubstr(GetParam().message));
  EXPECT_THAT(end.text, HasSubstr("lockstep --help"));
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    ArgumentMistakes,
    ::testing::Values(MistakeCase{{}, "subcommand is required"},
                      MistakeCase{{"rum"}, "no command \"rum\"; did you mean \"run\"?"},
                      MistakeCase{{"frobnicate"}, "there are run, validate, render and version"},
                      MistakeCase{{"run"}, "FILE is required"},
                      MistakeCase{{"run", "a", "b"}, "b"},
                      MistakeCase{{"run", "a", "--cahos", "x"}, "--cahos"},
                      MistakeCase{{"run", "a", "--chaos"}, "--chaos"},
                      MistakeCase{{"run", "a", "--chaos", "kil=worker-1@step=1"}, "found \"kil\""},
                      MistakeCase{{"run", "a", "--timeout", "soon"}, "timeout"},
                      MistakeCase{{"run", "a", "--timeout", "-1"}, "timeout"},
                      MistakeCase{{"validate"}, "FILE is required"},
                      MistakeCase{{"render", "a", "--output", "xml"}, "xml"}));

}  // namespace
}  // namespace lockstep::control
