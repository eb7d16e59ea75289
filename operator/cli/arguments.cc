#include "operator/cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include <CLI/CLI.hpp>

#include "common/json/json.h"
#include "operator/cli/summary/summary.h"
#include "operator/cli/terminal/duration.h"
#include "operator/cli/terminal/shell_words.h"

namespace lockstep::control {
namespace {

constexpr const char* kAbout = "Synchronous training on many machines, or on this one";
constexpr const char* kFooter =
    R"(Exit codes: 0 succeeded, 1 the job failed, 2 bad manifest or usage,
3 refused (the job does not fit this machine), 130 stopped by ^C.)";

constexpr const char* kRunFooter =
    R"(^C writes a checkpoint and stops; a second ^C kills.

Failures that --chaos can inject:
  kill=worker-1@step=60           SIGKILL once step 60 is complete
  stop=worker-1@time=2.5s         SIGSTOP 2.5 s after all pods run
  exit=3:worker-1@step=60         the program ends with exit code 3
  kill=worker-0+worker-2@step=60  SIGKILL to both pods at once
  kill=worker-0@phase=rendezvous  SIGKILL while the pod is in that phase
Separate several failures by commas, or repeat --chaos.

)";

// CLI11's own words for it tell the range of a double.
std::string CheckPositiveCount(const std::string& text) {
  int64_t count = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, count);
  return error == std::errc() && end == last && count > 0
             ? ""
             : "\"" + text + "\" found, expected a whole number of at least 1";
}

// An option that a script gave an empty variable must not count as left out.
std::string CheckNotEmpty(const std::string& text) {
  return text.empty() ? "empty, expected a value" : "";
}

// Strings as CLI11 stores them, before they become types.
struct Texts {
  RunArguments run;
  std::vector<std::string> chaos;
  std::string timeout;
  ValidateArguments validate;
  RenderArguments render;
  std::string render_output = "text";
  ConvertArguments convert;
  std::string convert_command;
  ExplainArguments explain;
  PsArguments ps;
  LogsArguments logs;
  StopArguments stop;
  std::string shell;
  std::vector<std::string> settings;
  int64_t workers = 0;  // 0: not given
};

void AddSource(CLI::App* command, const std::string& what, JobSource* source, Texts* texts) {
  command->add_option("FILE", source->file, what + "; - reads standard input");
  command->add_option("--set", texts->settings, "set a field of the manifest")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
  command->add_option("--workers", texts->workers, "number of workers, instead of the manifest's")
      ->type_name("N")
      ->check(CheckPositiveCount);
}

void AddRun(CLI::App* app, Texts* texts) {
  CLI::App* run = app->add_subcommand("run", "Run a TrainingJob on this machine");
  AddSource(run, "manifest with one TrainingJob, YAML or JSON", &texts->run.source, texts);
  run->add_option("--dir", texts->run.directory, "run directory [runs/JOB-TIME]")
      ->check(CheckNotEmpty);
  run->add_option("--resume", texts->run.resume, "continue the run in this directory")
      ->type_name("RUN")
      ->check(CheckNotEmpty);
  run->add_option("--summary", texts->run.summary_file, "also write the summary to FILE, as JSON")
      ->type_name("FILE")
      ->check(CheckNotEmpty);
  run->add_option("--chaos", texts->chaos, "inject a failure, see below")
      ->type_name("WHAT@WHEN")
      ->allow_extra_args(false);
  run->add_option("--timeout", texts->timeout, "let the job fail after this time, such as 5m")
      ->type_name("DURATION")
      ->check(CheckNotEmpty);
  run->add_option("--runtime", texts->run.runtime, "path of lockstep-runtime")
      ->type_name("PATH")
      ->check(CheckNotEmpty);
  run->add_flag("-v,--verbose", texts->run.verbose, "show what the pods print");
  run->add_flag("-q,--quiet", texts->run.quiet, "show only warnings and the result");
  run->add_flag("--keep", texts->run.keep, "keep the job's key file in the run directory");
  run->footer(std::string(kRunFooter) + kFooter);
}

void AddValidate(CLI::App* app, Texts* texts) {
  CLI::App* validate = app->add_subcommand("validate", "Check manifests and show all mistakes");
  validate->add_option("FILE", texts->validate.files, "manifests; - reads standard input");
  validate->footer("Exit codes: 0 all are good, 2 some are not.");
}

void AddRender(CLI::App* app, Texts* texts) {
  CLI::App* render = app->add_subcommand("render", "Show the pods of a job with their environment");
  AddSource(render, "manifest with one TrainingJob", &texts->render.source, texts);
  render->add_option("-o,--output", texts->render_output, "output format")
      ->check(CLI::IsMember({"text", "json"}));
  render->add_flag(
      "--local", texts->render.local, "show the pods as a run on this machine would start them");
  render->footer("Exit codes: 0 printed, 1 could not print, 2 bad manifest or usage.");
}

void AddConvert(CLI::App* app, Texts* texts) {
  CLI::App* convert = app->add_subcommand(
      "convert", "Convert TFJob, PyTorchJob, MPIJob and TrainJob to TrainingJobs, as YAML");
  convert->add_option("FILE", texts->convert.files, "manifests; - reads standard input");
  convert->add_option("--image", texts->convert.image, "image for pods that name none")
      ->type_name("IMAGE");
  convert
      ->add_option("--command",
                   texts->convert_command,
                   "command of the image, for a manifest that has no command; quotes and "
                   "backslashes work as in a shell, variables are not expanded")
      ->type_name("WORDS");
  convert->footer(
      "Standard error lists what the converted job does not keep.\n"
      "Exit codes: 0 all converted, 1 lockstep validate refuses a converted job, 2 a job could not "
      "be converted.");
}

void AddExplain(CLI::App* app, Texts* texts) {
  CLI::App* explain =
      app->add_subcommand("explain", "Explain a field of a TrainingJob or TrainingQueue");
  explain->add_option("FIELD",
                      texts->explain.field,
                      "such as spec.training.optimizer, or tq.spec.nominal for a TrainingQueue");
  explain->footer("Exit codes: 0 explained, 2 no such field.");
}

void AddPs(CLI::App* app, Texts* texts) {
  CLI::App* ps = app->add_subcommand("ps", "List the runs of a folder");
  ps->add_option("FOLDER", texts->ps.folder, "folder that holds the run directories [runs]");
  ps->footer("Exit codes: 0 listed (also if there is no run), 2 no such folder.");
}

void AddLogs(CLI::App* app, Texts* texts) {
  CLI::App* logs = app->add_subcommand("logs", "Show what the pods of a run print");
  logs->add_option("RUN", texts->logs.run, "run directory, or its name in the folder runs");
  logs->add_option("POD", texts->logs.pod, "only this pod");
  logs->add_flag("-f,--follow", texts->logs.follow, "keep printing until the run ends");
  logs->add_option("--tail", texts->logs.tail, "start with the last N lines of each pod")
      ->type_name("N")
      ->check(CheckPositiveCount);
  logs->footer("Exit codes: 0 printed, 2 no such run or pod.");
}

void AddStop(CLI::App* app, Texts* texts) {
  CLI::App* stop =
      app->add_subcommand("stop", "Stop a run after a checkpoint, and wait for its end");
  stop->add_option("RUN", texts->stop.run, "run directory, or its name in the folder runs");
  stop->add_flag("--kill", texts->stop.kill, "do not wait for a checkpoint");
  stop->add_option("--timeout", texts->timeout, "stop waiting after this time [2m]")
      ->type_name("DURATION")
      ->check(CheckNotEmpty);
  stop->footer("Exit codes: 0 the run has ended, 1 it still runs, 2 no such run.");
}

void AddCompletion(CLI::App* app, Texts* texts) {
  CLI::App* completion =
      app->add_subcommand("completion", "Print a script that completes commands in a shell");
  completion->add_option("SHELL", texts->shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer("In bash: source <(lockstep completion bash)");
}

void AddAll(CLI::App* app, Texts* texts) {
  app->require_subcommand(1);
  app->set_version_flag("--version", VersionText());
  app->footer(kFooter);
  AddRun(app, texts);
  AddValidate(app, texts);
  AddRender(app, texts);
  AddConvert(app, texts);
  AddExplain(app, texts);
  AddPs(app, texts);
  AddLogs(app, texts);
  AddStop(app, texts);
  AddCompletion(app, texts);
  app->add_subcommand("version", "Print the version");
}

// The members of an option's CLI::IsMember, which shows them as "TEXT:{json,text}".
std::vector<std::string> ValuesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) {
    return {};
  }
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

CommandWords WordsOf(const CLI::App& app) {
  CommandWords words{app.get_name(), app.get_description(), {}, {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    OptionWords one{{}, option->get_description(), option->get_items_expected_max() > 0, {}};
    for (const std::string& name : option->get_snames()) {
      one.names.push_back("-" + name);
    }
    for (const std::string& name : option->get_lnames()) {
      one.names.push_back("--" + name);
    }
    one.values = ValuesOf(*option);
    if (!one.names.empty()) {
      words.options.push_back(std::move(one));
    } else if (words.values.empty()) {
      words.values = std::move(one.values);
    }
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    words.commands.push_back(WordsOf(*command));
  }
  return words;
}

ArgumentsEnd Usage(const std::string& message) {
  return ArgumentsEnd{"lockstep: " + message + "\nTry: lockstep --help\n", kCliUsage};
}

// What is left of a JobSource; empty when all is well.
std::optional<ArgumentsEnd> FinishSource(const Texts& texts,
                                         bool may_lack_file,
                                         JobSource* source) {
  for (const std::string& text : texts.settings) {
    auto setting = ParseSetting(text);
    if (!setting.ok()) {
      return Usage(setting.error().message());
    }
    source->settings.push_back(*std::move(setting));
  }
  if (texts.workers > 0) {
    source->workers = texts.workers;
  }
  if (source->file.empty() && !may_lack_file) {
    return Usage("FILE is required");
  }
  return std::nullopt;
}

// Reads --timeout, where it was given; empty when all is well.
std::optional<ArgumentsEnd> FinishTimeout(const std::string& text,
                                          std::optional<Duration>* timeout) {
  if (text.empty()) {
    return std::nullopt;
  }
  const auto parsed = ParseDuration(text);
  if (!parsed.ok() || *parsed == Duration::zero()) {
    return Usage("--timeout: " +
                 (parsed.ok() ? "0 found, expected more than 0 s" : parsed.error().message()));
  }
  *timeout = *parsed;
  return std::nullopt;
}

std::variant<Arguments, ArgumentsEnd> FinishRun(Texts texts) {
  RunArguments& run = texts.run;
  if (auto end = FinishSource(texts, !run.resume.empty(), &run.source)) {
    return *end;
  }
  if (!run.resume.empty() && !run.directory.empty()) {
    return Usage("--dir cannot be used with --resume, which already names the run directory");
  }
  if (run.verbose && run.quiet) {
    return Usage("--verbose cannot be used with --quiet");
  }
  for (const std::string& text : texts.chaos) {
    auto actions = ParseChaos(text);
    if (!actions.ok()) {
      return Usage(actions.error().ToString());
    }
    run.chaos.insert(run.chaos.end(), actions->begin(), actions->end());
  }
  if (auto end = FinishTimeout(texts.timeout, &run.timeout)) {
    return *end;
  }
  return Arguments(std::move(run));
}

std::variant<Arguments, ArgumentsEnd> FinishRender(Texts texts) {
  if (auto end = FinishSource(texts, false, &texts.render.source)) {
    return *end;
  }
  texts.render.as_json = texts.render_output == "json";
  return Arguments(std::move(texts.render));
}

std::variant<Arguments, ArgumentsEnd> FinishConvert(Texts texts) {
  if (texts.convert.files.empty()) {
    return Usage("FILE is required");
  }
  auto words = SplitShellWords(texts.convert_command);
  if (!words.ok()) {
    return Usage("--command: " + words.error().message());
  }
  texts.convert.command = *std::move(words);
  return Arguments(std::move(texts.convert));
}

std::variant<Arguments, ArgumentsEnd> FinishStop(Texts texts) {
  std::optional<Duration> timeout;
  if (auto end = FinishTimeout(texts.timeout, &timeout)) {
    return *end;
  }
  texts.stop.timeout = timeout.value_or(texts.stop.timeout);
  return Arguments(std::move(texts.stop));
}

std::variant<Arguments, ArgumentsEnd> FinishCompletion(const std::string& shell) {
  if (shell.empty()) {
    return Usage("SHELL is required: bash, zsh or fish");
  }
  return Arguments(CompletionArguments{shell == "zsh"    ? Shell::kZsh
                                       : shell == "fish" ? Shell::kFish
                                                         : Shell::kBash});
}

// What CLI11 found no place for: an option that is misspelled, or a word too many.
std::string DescribeExtras(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  const auto option = std::find_if(
      extras.begin(), extras.end(), [](const std::string& word) { return word.starts_with('-'); });
  if (option == extras.end()) {
    return extras.empty() ? "" : "unexpected argument \"" + extras.front() + "\"";
  }
  std::vector<std::string> names;
  for (const CLI::Option* known : command.get_options()) {
    for (const std::string& name : known->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  const std::string given = option->substr(0, option->find('='));
  const std::string_view nearest = NearestWord(given, {names.begin(), names.end()});
  return "unknown option \"" + given + "\"" +
         (nearest.empty() ? "" : "; did you mean " + std::string(nearest) + "?");
}

ArgumentsEnd DescribeParseEnd(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    std::ostringstream out;
    std::ostringstream ignored;
    app.exit(error, out, ignored);
    return ArgumentsEnd{out.str(), kCliSucceeded};
  }
  std::string extras = DescribeExtras(app);
  for (const CLI::App* command : app.get_subcommands()) {
    extras = extras.empty() ? DescribeExtras(*command) : extras;
  }
  return Usage(extras.empty() ? error.what() : extras);
}

// CLI11 says only that some command is missing. Empty when the first word is a command or an
// option.
std::string UnknownCommand(const std::vector<std::string>& argv) {
  const std::vector<std::string_view> commands = {"run",
                                                  "validate",
                                                  "render",
                                                  "convert",
                                                  "explain",
                                                  "ps",
                                                  "logs",
                                                  "stop",
                                                  "completion",
                                                  "version"};
  if (argv.size() < 2 || argv[1].starts_with('-') ||
      std::find(commands.begin(), commands.end(), argv[1]) != commands.end()) {
    return "";
  }
  const std::string_view nearest = NearestWord(argv[1], commands);
  return "unknown command \"" + argv[1] + "\"" +
         (nearest.empty() ? "; the commands are run, validate, render, convert, explain, ps, logs, "
                            "stop, completion and version"
                          : "; did you mean \"" + std::string(nearest) + "\"?");
}

std::variant<Arguments, ArgumentsEnd> FinishCommand(const std::string& command, Texts texts) {
  const std::string* needed = nullptr;
  if (command == "logs") {
    needed = &texts.logs.run;
  } else if (command == "stop") {
    needed = &texts.stop.run;
  }
  if (needed != nullptr && needed->empty()) {
    return Usage("RUN is required; lockstep ps lists the runs");
  }
  if (command == "run") {
    return FinishRun(std::move(texts));
  }
  if (command == "validate") {
    return texts.validate.files.empty()
               ? std::variant<Arguments, ArgumentsEnd>(Usage("FILE is required"))
               : Arguments(std::move(texts.validate));
  }
  if (command == "render") {
    return FinishRender(std::move(texts));
  }
  if (command == "convert") {
    return FinishConvert(std::move(texts));
  }
  if (command == "stop") {
    return FinishStop(std::move(texts));
  }
  if (command == "completion") {
    return FinishCompletion(texts.shell);
  }
  return command == "explain" ? Arguments(std::move(texts.explain))
         : command == "ps"    ? Arguments(std::move(texts.ps))
         : command == "logs"  ? Arguments(std::move(texts.logs))
                              : Arguments(VersionArguments{});
}

}  // namespace

CommandWords DescribeCommands() {
  Texts texts;
  CLI::App app(kAbout, "lockstep");
  AddAll(&app, &texts);
  return WordsOf(app);
}

std::string VersionText() {
  return "lockstep " LOCKSTEP_VERSION;
}

std::variant<Arguments, ArgumentsEnd> ParseArguments(const std::vector<std::string>& argv) {
  if (const std::string unknown = UnknownCommand(argv); !unknown.empty()) {
    return Usage(unknown);
  }
  Texts texts;
  CLI::App app(kAbout, "lockstep");
  AddAll(&app, &texts);

  // CLI11 takes the arguments last first, and reports by exception.
  std::vector<std::string> reversed(argv.rbegin(), argv.rend());
  if (!reversed.empty()) {
    reversed.pop_back();
  }
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return DescribeParseEnd(app, error);
  }
  return FinishCommand(app.get_subcommands().front()->get_name(), std::move(texts));
}

}  // namespace lockstep::control
