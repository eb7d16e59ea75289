#include "operator/replay/replay_arguments.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <sstream>

#include <CLI/CLI.hpp>

#include "common/base/dns_label.h"
#include "operator/replay/shapes.h"

namespace lockstep::control {
namespace {

// CLI11 takes -1 for the largest number there is, and "nan" for one within any range.
const CLI::Validator kWholeNumber(
    [](const std::string& text) {
      uint64_t number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      const bool is_whole = error == std::errc() && end == text.data() + text.size();
      return is_whole ? "" : "\"" + text + "\" found, expected a whole number from 0 to 2^64 - 1";
    },
    "");
const CLI::Validator kFinite(
    [](const std::string& text) {
      const bool is_number = text.find_first_not_of("+-.0123456789eE") == std::string::npos;
      return is_number ? "" : "\"" + text + "\" found, expected a number";
    },
    "");

constexpr const char* kFooter =
    R"(Prints one JSON object. /dev/stdin works as a file: zcat TRACE.csv.gz | lockstep-replay ...
Exit codes: 0 replayed, 1 the output could not be written, 2 bad usage or input,
3 the scheduler's answer is wrong, or differs from the log.)";

const std::map<std::string, PlacementPolicyKind> kPolicies = {
    {"worth", PlacementPolicyKind::kWorth},
    {"fgd", PlacementPolicyKind::kFgd},
    {"best-fit", PlacementPolicyKind::kBestFit}};

// In the place of CLI11's own words for it, which have the numbers behind the names.
const CLI::Validator kPolicyName(
    [](const std::string& text) {
      return kPolicies.contains(text) ? ""
                                      : "\"" + text + "\" found, expected worth, fgd or best-fit";
    },
    "");

// Of a PriorityClass that users make. Source: Kubernetes' HighestUserDefinablePriority.
constexpr int64_t kPriorityMin = std::numeric_limits<int32_t>::min();
constexpr int64_t kPriorityMax = 1'000'000'000;

// As CLI11 stores them, before they become types.
struct ReplayTexts {
  std::string estimates = "exact";
  std::vector<std::string> replicas;
  std::vector<std::string> nodes_like;
};

CLI::App* AddOpenb(CLI::App* app, OpenbArguments* openb) {
  CLI::App* command = app->add_subcommand(
      "openb", "Place pods one at a time, with parts of GPUs, until the cluster is full");
  command->add_option("--nodes", openb->nodes_file, "CSV: sn,cpu_milli,memory_mib,gpu,model")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--pods",
                   openb->pods_file,
                   "CSV: cpu_milli,memory_mib,num_gpu,gpu_milli and optionally gpu_spec")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--seeds", openb->seed_count, "number of random orders in which the pods arrive")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command
      ->add_option("--first-seed",
                   openb->first_seed,
                   "seed of the first random order; each further order uses the next seed")
      ->check(kWholeNumber)
      ->capture_default_str();
  command
      ->add_option("--tune",
                   openb->tune,
                   "all pods together request this many times the GPUs of the cluster")
      ->check(CLI::Range(0.01, 100.0))
      ->check(kFinite)
      ->capture_default_str();
  command
      ->add_option(
          "--policy", openb->policy, "Lockstep's policy, or one to compare it with [worth]")
      ->transform(CLI::Transformer(kPolicies).description(""))
      ->transform(kPolicyName)
      ->type_name("worth|fgd|best-fit");
  return command;
}

CLI::App* AddPhilly(CLI::App* app, PhillyArguments* philly, ReplayTexts* texts) {
  CLI::App* command =
      app->add_subcommand("philly", "Run a trace of jobs with reservations and backfill");
  command->add_option("--trace", philly->trace_file, "CSV: timestamp,duration,num_gpus")
      ->type_name("FILE")
      ->required();
  command->add_option("--gpus", philly->gpu_count, "GPUs of the cluster")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--gpus-per-node", philly->options.gpus_per_node, "GPUs of a node")
      ->check(CLI::Range(1, 1'024))
      ->capture_default_str();
  command
      ->add_option(
          "--estimates",
          texts->estimates,
          "how time limits of jobs are set: exact is the run time, U1-5 is the run time times a "
          "random factor from 1 to 5, none is no limit")
      ->type_name("exact|ULOW-HIGH|none")
      ->capture_default_str();
  command->add_option("--seed", philly->options.seed, "seed of the random factors")
      ->check(kWholeNumber)
      ->capture_default_str();
  return command;
}

CLI::App* AddShape(CLI::App* app, ShapeArguments* shape) {
  std::vector<std::string> names;
  std::string list;
  for (const Shape& one : Shapes()) {
    names.push_back(one.name);
    list += "\n  " + one.name + ": " + one.what;
  }
  CLI::App* command = app->add_subcommand(
      "shape", "Measure one decision on a cluster that other schedulers use as a benchmark");
  command->footer("Shapes:" + list);
  command->add_option("NAME", shape->name, "name of the shape")
      ->type_name("SHAPE")
      ->check(CLI::IsMember(names).description(""))
      ->required();
  command->add_option("--runs", shape->run_count, "number of runs; the median is printed")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  return command;
}

CLI::App* AddLog(CLI::App* app, LogArguments* log, ReplayTexts* texts) {
  CLI::App* command = app->add_subcommand(
      "log", "Repeat all scheduling rounds that an operator recorded with --round-log");
  command->add_option("FILE", log->file, "file with the recorded rounds")
      ->type_name("FILE")
      ->required();
  CLI::Option* const gang =
      command
          ->add_option("--what-if", log->gang, "print where and when this waiting job would start")
          ->type_name("NAMESPACE/JOB");
  command
      ->add_option(
          "--at-round", log->at_round, "answer --what-if for the state after this round [the last]")
      ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()))
      ->needs(gang);
  command
      ->add_option(
          "--replicas", texts->replicas, "for --what-if: assume that this role has this many pods")
      ->type_name("ROLE=COUNT")
      ->needs(gang);
  command->add_option("--queue", log->queue, "for --what-if: assume that the job is in this queue")
      ->needs(gang);
  command
      ->add_option(
          "--priority", log->priority, "for --what-if: assume that the job has this priority")
      ->check(CLI::Range(kPriorityMin, kPriorityMax))
      ->needs(gang);
  command->add_option("--drain", log->drained, "for --what-if: assume that this node is drained")
      ->type_name("NODE")
      ->needs(gang);
  command
      ->add_option("--nodes-like",
                   texts->nodes_like,
                   "for --what-if: assume this many more nodes like this node")
      ->type_name("NODE=COUNT")
      ->needs(gang);
  return command;
}

// What is wrong with the names; empty: nothing.
std::string CheckNames(const LogArguments& log) {
  const std::size_t slash = log.gang.find('/');
  const bool is_gang = slash != std::string::npos && slash > 0 && slash + 1 < log.gang.size() &&
                       log.gang.find('/', slash + 1) == std::string::npos;
  if (!log.gang.empty() && !is_gang) {
    return "--what-if: \"" + log.gang + "\" found, expected NAMESPACE/JOB";
  }
  if (log.queue.has_value() && !IsDnsLabel(*log.queue)) {
    return "--queue: \"" + *log.queue + "\" found, expected the name of a queue, " +
           std::string(kDnsLabelWords);
  }
  return "";
}

// "worker=4", each name once. Returns what is wrong; empty: nothing.
std::string ReadCounts(const std::string& option,
                       const std::vector<std::string>& texts,
                       std::map<std::string, int64_t>* counts) {
  constexpr int64_t kCountMax = 100'000;
  for (const std::string& text : texts) {
    const std::size_t sign = text.rfind('=');
    int64_t count = 0;
    const char* const end = text.data() + text.size();
    const bool is_read = sign != std::string::npos && sign > 0 &&
                         std::from_chars(text.data() + sign + 1, end, count).ptr == end &&
                         count >= 1 && count <= kCountMax;
    if (!is_read || !counts->emplace(text.substr(0, sign), count).second) {
      return option + ": \"" + text + "\" found, expected NAME=COUNT, a count from 1 to " +
             std::to_string(kCountMax) + ", and each name once";
    }
  }
  return "";
}

// Empty where the options make sense together.
std::string Finish(const ReplayTexts& texts, PhillyArguments* philly) {
  const auto estimates = EstimateErrors::Parse(texts.estimates);
  if (!estimates.ok()) {
    return "--estimates: " + estimates.error().message();
  }
  if (philly->gpu_count % philly->options.gpus_per_node != 0) {
    return "--gpus: " + std::to_string(philly->gpu_count) + " found, expected a multiple of " +
           std::to_string(philly->options.gpus_per_node) + ", which is --gpus-per-node";
  }
  philly->options.estimates = *estimates;
  philly->options.node_count = philly->gpu_count / philly->options.gpus_per_node;
  return "";
}

}  // namespace

ReplayArguments ParseReplayArguments(int argc, const char* const* argv) {
  OpenbArguments openb;
  PhillyArguments philly;
  ShapeArguments shape;
  LogArguments log;
  ReplayTexts texts;
  CLI::App app(
      "Runs the scheduler's own code on public traces, on benchmark clusters of other schedulers "
      "and "
      "on rounds that an operator recorded.",
      "lockstep-replay");
  app.footer(kFooter);
  app.set_version_flag("--version", "lockstep-replay " LOCKSTEP_VERSION);
  app.require_subcommand(1);
  const CLI::App* openb_command = AddOpenb(&app, &openb);
  AddPhilly(&app, &philly, &texts);
  const CLI::App* shape_command = AddShape(&app, &shape);
  const CLI::App* log_command = AddLog(&app, &log, &texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    const int code = app.exit(error, text, text);
    return ReplayHelp{text.str(), code == 0 ? 0 : 2};
  }
  if (openb_command->parsed()) {
    return openb;
  }
  if (shape_command->parsed()) {
    return shape;
  }
  if (log_command->parsed()) {
    std::string problem = CheckNames(log);
    problem = problem.empty() ? ReadCounts("--replicas", texts.replicas, &log.replicas) : problem;
    problem =
        problem.empty() ? ReadCounts("--nodes-like", texts.nodes_like, &log.nodes_like) : problem;
    return problem.empty() ? ReplayArguments(log) : ReplayHelp{problem + "\n", 2};
  }
  if (const std::string problem = Finish(texts, &philly); !problem.empty()) {
    return ReplayHelp{problem + "\n", 2};
  }
  return philly;
}

}  // namespace lockstep::control
