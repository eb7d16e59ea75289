#include "operator/cli/arguments.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <CLI/CLI.hpp>

#include "common/json/json.h"
#include "operator/cli/summary.h"

namespace lockstep::control {
namespace {

constexpr const char* kFooter =
    R"(Exit codes: 0 succeeded, 1 the job failed, 2 bad manifest or usage,
3 refused (the job does not fit this machine), 130 stopped by ^C.)";

constexpr const char* kRunFooter =
    R"(^C asks for a checkpoint and stops; a second ^C kills.

Failures on order, for --chaos:
  kill=worker-1@step=60           SIGKILL once step 60 is complete
  stop=worker-1@time=2.5s         SIGSTOP 2.5 s after all pods run
  exit=3:worker-1@step=60         the program ends with exit code 3
  kill=worker-0+worker-2@step=60  both at once
  kill=worker-0@phase=rendezvous  while the pod is in that phase
Several are separated by commas, or --chaos is repeated.

)";

// Strings as CLI11 stores them, before they become types.
struct Texts {
  RunArguments run;
  std::vector<std::string> chaos;
  double timeout_seconds = 0;
  ValidateArguments validate;
  RenderArguments render;
  std::string render_output = "text";
};

CLI::App* AddRun(CLI::App* app, Texts* texts) {
  CLI::App* run = app->add_subcommand("run", "Run a TrainingJob on this machine");
  run->add_option("FILE", texts->run.file, "manifest with one TrainingJob, YAML or JSON")
      ->required();
  run->add_option("--dir", texts->run.directory, "run directory [runs/JOB-TIME]");
  run->add_option("--summary", texts->run.summary_file, "also write the summary to FILE, as JSON")
      ->type_name("FILE");
  run->add_option("--chaos", texts->chaos, "break something on the way, see below")
      ->type_name("WHAT@WHEN")
      ->allow_extra_args(false);
  run->add_option("--timeout", texts->timeout_seconds, "stop the job as failed after this long")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  run->add_option("--runtime", texts->run.runtime, "path of lockstep-runtime")->type_name("PATH");
  run->add_flag("-v,--verbose", texts->run.verbose, "show what the pods print");
  run->add_flag("--keep", texts->run.keep, "keep the job's key file in the run directory");
  run->footer(std::string(kRunFooter) + kFooter);
  return run;
}

CLI::App* AddValidate(CLI::App* app, Texts* texts) {
  CLI::App* validate = app->add_subcommand("validate", "Check manifests, tell all mistakes");
  validate->add_option("FILE", texts->validate.files, "manifests")->required();
  validate->footer("Exit codes: 0 all are good, 2 some are not.");
  return validate;
}

CLI::App* AddRender(CLI::App* app, Texts* texts) {
  CLI::App* render = app->add_subcommand("render", "Show the pods of a job with their environment");
  render->add_option("FILE", texts->render.file, "manifest with one TrainingJob")->required();
  render->add_option("-o,--output", texts->render_output, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  render->add_flag("--local", texts->render.local, "addresses of a run on one machine");
  return render;
}

ArgumentsEnd Usage(const std::string& message) {
  return ArgumentsEnd{"lockstep: " + message + "\nTry: lockstep --help\n", kCliUsage};
}

std::variant<Arguments, ArgumentsEnd> FinishRun(Texts texts) {
  for (const std::string& text : texts.chaos) {
    auto actions = ParseChaos(text);
    if (!actions.ok()) {
      return Usage(actions.error().ToString());
    }
    texts.run.chaos.insert(texts.run.chaos.end(), actions->begin(), actions->end());
  }
  if (texts.timeout_seconds > 0) {
    texts.run.timeout =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(texts.timeout_seconds));
  }
  return Arguments(std::move(texts.run));
}

ArgumentsEnd DescribeParseEnd(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    std::ostringstream out;
    std::ostringstream ignored;
    app.exit(error, out, ignored);
    return ArgumentsEnd{out.str(), kCliSucceeded};
  }
  return Usage(error.what());
}

// CLI11 says only that some command is missing. Empty when the first word is a command or an
// option.
std::string UnknownCommand(const std::vector<std::string>& argv) {
  const std::vector<std::string_view> commands = {"run", "validate", "render", "version"};
  if (argv.size() < 2 || argv[1].starts_with('-') ||
      std::find(commands.begin(), commands.end(), argv[1]) != commands.end()) {
    return "";
  }
  const std::string_view nearest = NearestWord(argv[1], commands);
  return "no command \"" + argv[1] + "\"" +
         (nearest.empty() ? "; there are run, validate, render and version"
                          : "; did you mean \"" + std::string(nearest) + "\"?");
}

}  // namespace

std::string VersionText() {
  return "lockstep " LOCKSTEP_VERSION;
}

std::variant<Arguments, ArgumentsEnd> ParseArguments(const std::vector<std::string>& argv) {
  if (const std::string unknown = UnknownCommand(argv); !unknown.empty()) {
    return Usage(unknown);
  }
  Texts texts;
  CLI::App app("Synchronous training on many machines, or on this one", "lockstep");
  app.require_subcommand(1);
  app.set_version_flag("--version", VersionText());
  app.footer(kFooter);
  CLI::App* run = AddRun(&app, &texts);
  CLI::App* validate = AddValidate(&app, &texts);
  CLI::App* render = AddRender(&app, &texts);
  app.add_subcommand("version", "Print the version");

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
  if (run->parsed()) {
    return FinishRun(std::move(texts));
  }
  if (validate->parsed()) {
    return Arguments(std::move(texts.validate));
  }
  if (render->parsed()) {
    texts.render.as_json = texts.render_output == "json";
    return Arguments(std::move(texts.render));
  }
  return Arguments(VersionArguments{});
}

}  // namespace lockstep::control
