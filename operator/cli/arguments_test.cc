#include "operator/cli/arguments.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/summary/summary.h"

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
  EXPECT_EQ(run.source.file, "job.yaml");
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
  EXPECT_EQ(run.source.file, "job.yaml");
  EXPECT_EQ(run.chaos.size(), 1U);
}

TEST(ParseArguments, RunTakesChangesToItsManifest) {
  const auto run = std::get<RunArguments>(ParseGood({"run",
                                                     "-",
                                                     "--set",
                                                     "spec.training.epochs=5",
                                                     "--set",
                                                     "training.model.inputShape=[28, 28, 1]",
                                                     "--workers",
                                                     "4",
                                                     "--quiet"}));
  EXPECT_EQ(run.source.file, "-");
  ASSERT_EQ(run.source.settings.size(), 2U);
  EXPECT_EQ(run.source.settings[0].value, "5");
  EXPECT_EQ(run.source.settings[1].value, "[28, 28, 1]");
  EXPECT_EQ(run.source.workers, 4);
  EXPECT_TRUE(run.quiet);
}

TEST(ParseArguments, TimeoutTakesUnits) {
  EXPECT_EQ(std::get<RunArguments>(ParseGood({"run", "a", "--timeout", "5m"})).timeout,
            std::chrono::minutes(5));
}

TEST(ParseArguments, ResumeNeedsNoFile) {
  const auto run = std::get<RunArguments>(ParseGood({"run", "--resume", "runs/a"}));
  EXPECT_EQ(run.resume, "runs/a");
  EXPECT_EQ(run.source.file, "");
}

TEST(ParseArguments, RunsAreListedReadAndStopped) {
  EXPECT_EQ(std::get<PsArguments>(ParseGood({"ps", "elsewhere"})).folder, "elsewhere");
  const auto logs = std::get<LogsArguments>(ParseGood({"logs", "a", "pod", "-f", "--tail", "5"}));
  EXPECT_EQ(logs.run, "a");
  EXPECT_EQ(logs.pod, "pod");
  EXPECT_TRUE(logs.follow);
  EXPECT_EQ(logs.tail, 5);
  const auto stop = std::get<StopArguments>(ParseGood({"stop", "a", "--kill", "--timeout", "5m"}));
  EXPECT_EQ(stop.run, "a");
  EXPECT_TRUE(stop.kill);
  EXPECT_EQ(stop.timeout, std::chrono::minutes(5));
}

TEST(ParseArguments, ExplainTakesAFieldOrNothing) {
  EXPECT_EQ(std::get<ExplainArguments>(ParseGood({"explain", "spec.roles"})).field, "spec.roles");
  EXPECT_EQ(std::get<ExplainArguments>(ParseGood({"explain"})).field, "");
}

TEST(ParseArguments, ValidateTakesManyFiles) {
  const auto validate = std::get<ValidateArguments>(ParseGood({"validate", "a", "b"}));
  EXPECT_THAT(validate.files, ElementsAre("a", "b"));
}

TEST(ParseArguments, RenderTakesItsOutput) {
  EXPECT_TRUE(std::get<RenderArguments>(ParseGood({"render", "a", "--output", "json"})).as_json);
  EXPECT_FALSE(std::get<RenderArguments>(ParseGood({"render", "a"})).as_json);
  const auto convert = std::get<ConvertArguments>(
      ParseGood({"convert", "--image", "i", "--command", "python3  t.py", "a", "-"}));
  EXPECT_EQ(convert.files, (std::vector<std::string>{"a", "-"}));
  EXPECT_EQ(convert.image, "i");
  EXPECT_EQ(convert.command, (std::vector<std::string>{"python3", "t.py"}));
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
    ::testing::Values(
        MistakeCase{{}, "subcommand is required"},
        MistakeCase{{"rum"}, "unknown command \"rum\"; did you mean \"run\"?"},
        MistakeCase{{"frobnicate"}, "explain, ps, logs, stop, completion and version"},
        MistakeCase{{"--bogus"}, "unknown option \"--bogus\""},
        MistakeCase{{"run"}, "FILE is required"},
        MistakeCase{{"run", "a", "b"}, "unexpected argument \"b\""},
        MistakeCase{{"run", "--bogus"}, "unknown option \"--bogus\""},
        MistakeCase{{"run", "a", "--cahos", "x"},
                    "unknown option \"--cahos\"; did you mean --chaos?"},
        MistakeCase{{"validate", "--strict"}, "unknown option \"--strict\""},
        MistakeCase{{"run", "a", "--chaos"}, "--chaos"},
        MistakeCase{{"run", "a", "--chaos", "kil=worker-1@step=1"}, "found \"kil\""},
        MistakeCase{{"run", "a", "--timeout", "soon"},
                    "--timeout: \"soon\" found, expected a duration"},
        MistakeCase{{"run", "a", "--timeout", "-1"}, "timeout"},
        MistakeCase{{"run", "a", "--timeout", ""}, "empty, expected a value"},
        MistakeCase{{"run", "a", "--resume", ""}, "empty, expected a value"},
        MistakeCase{{"run", "a", "--dir="}, "--dir"},
        MistakeCase{{"stop", "a", "--timeout", ""}, "empty, expected"},
        MistakeCase{{"run", "a", "--timeout", "0s"}, "expected more than 0 s"},
        MistakeCase{{"run", "a", "--set", "epochs"}, "expected PATH=VALUE"},
        MistakeCase{{"run", "a", "--workers", "0"},
                    "--workers: \"0\" found, expected a whole number of at least 1"},
        MistakeCase{{"logs", "a", "--tail", "1.5"}, "--tail: \"1.5\" found"},
        MistakeCase{{"run", "a", "--workers", "x"}, "--workers: \"x\" found"},
        MistakeCase{{"logs", "a", "--tail", "0"}, "--tail: \"0\" found"},
        MistakeCase{{"run", "--resume", "a", "--dir", "b"}, "cannot be used with --resume"},
        MistakeCase{{"run", "a", "-q", "-v"}, "cannot be used with --quiet"},
        MistakeCase{{"validate"}, "FILE is required"},
        MistakeCase{{"logs"}, "RUN is required"},
        MistakeCase{{"stop", "a", "--timeout", "x"}, "--timeout: \"x\" found"},
        MistakeCase{{"render"}, "FILE is required"},
        MistakeCase{{"convert"}, "FILE is required"},
        MistakeCase{{"convert", "--command", "a 'b", "f"},
                    "--command: a quote ' found, expected a second one to close it"},
        MistakeCase{{"render", "a", "--output", "xml"}, "xml"}));

}  // namespace
}  // namespace lockstep::control
