#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/sim/round_logs.h"
#include "tests/sim/simulation.h"

namespace {

using lockstep::control::sim::RoundLogs;
using lockstep::control::sim::Simulation;
using lockstep::control::sim::Tally;

struct Arguments {
  std::optional<uint64_t> seed;
  uint64_t count = 0;
  uint64_t first = 1;
  bool is_verbose = false;
  std::optional<std::string> last_words;  // a problem with them is the last one that is looked for
  bool replays_rounds = false;
  bool lets_bad_users = false;
};

bool ReadNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<Arguments> Read(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--verbose") {
      arguments.is_verbose = true;
      continue;
    }
    if (name == "--until-broken") {
      arguments.last_words = "";
      continue;
    }
    if (name == "--until-says" && i + 1 < argc) {
      arguments.last_words = argv[++i];
      continue;
    }
    if (name == "--replay-rounds") {
      arguments.replays_rounds = true;
      continue;
    }
    if (name == "--bad-users") {
      arguments.lets_bad_users = true;
      continue;
    }
    uint64_t number = 0;
    if (i + 1 >= argc || !ReadNumber(argv[++i], &number)) {
      return std::nullopt;
    }
    if (name == "--seed") {
      arguments.seed = number;
    } else if (name == "--seeds") {
      arguments.count = number;
    } else if (name == "--first") {
      arguments.first = number;
    } else {
      return std::nullopt;
    }
  }
  const bool has_one = arguments.seed.has_value() != (arguments.count > 0);
  return has_one ? std::optional(arguments) : std::nullopt;
}

// The first promise that a seed broke; empty when it kept all.
std::string RunSeed(uint64_t seed, const Arguments& arguments, Tally* tally) {
  const auto trace = [](const std::string& line) { std::puts(line.c_str()); };
  const bool is_verbose = arguments.is_verbose && arguments.seed.has_value();
  RoundLogs logs;  // outlives the operators
  std::string problem;
  {
    Simulation simulation(seed,
                          arguments.lets_bad_users,
                          is_verbose ? trace : std::function<void(const std::string&)>());
    if (arguments.replays_rounds) {
      simulation.RecordRounds([&](const std::string& identity) {
        return logs.Begin(identity, simulation.context().Levels());
      });
    }
    problem = simulation.Run(tally);
  }
  return problem.empty() ? logs.Replay(tally) : problem;
}

// Seeds between two lines about how it stands: a minute or two.
constexpr uint64_t kSeedsPerReport = 500;

// Runs seeds from the first on, on all cores: one seed has nothing to do with another. Returns what
// those that failed have broken; where the first is enough, it is the lowest. Says on the way, to
// the standard error, how it stands.
std::map<uint64_t, std::string> RunSeeds(const Arguments& arguments, Tally* tally) {
  std::map<uint64_t, std::string> problems;
  uint64_t done = 0;
  std::mutex mutex;  // guards `problems`, `done` and `tally`
  std::atomic<uint64_t> next{0};
  std::atomic<bool> is_over{false};  // whatever has been begun is still run to its end
  const auto run = [&] {
    Tally own;
    while (!is_over) {
      const uint64_t i = next++;
      if (i >= arguments.count) {
        break;
      }
      const std::string problem = RunSeed(arguments.first + i, arguments, &own);
      const std::lock_guard lock(mutex);
      if (!problem.empty()) {
        is_over = is_over || (arguments.last_words.has_value() &&
                              problem.find(*arguments.last_words) != std::string::npos);
        problems[arguments.first + i] = problem;
        std::fprintf(stderr, "seed %ju failed\n", static_cast<uintmax_t>(arguments.first + i));
      }
      if (++done % kSeedsPerReport == 0) {
        std::fprintf(
            stderr, "%ju seeds, %zu failed\n", static_cast<uintmax_t>(done), problems.size());
      }
    }
    const std::lock_guard lock(mutex);
    *tally += own;
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back(run);
  }
  threads.clear();  // waits
  return problems;
}

// So many seeds make every move. Measured: the rarest is made four times in seeds 41 to 400.
constexpr uint64_t kSeedsForAllMoves = 360;

constexpr const char* kMovesWanted[] = {"a drain of a node with most ranks",
                                        "a worker 0 that exits 0 on SIGTERM",
                                        "an edited manifest, then a lost pod",
                                        "a webhook that denies a pod",
                                        "a webhook that answers 400",
                                        "a webhook that is slow",
                                        "a finalizer on a worker",
                                        "a pod that never ends on its node",
                                        "a node that always refuses",
                                        "a LimitRange that makes a pod larger",
                                        "a clone with our labels",
                                        "a status with fields from the future",
                                        "a job that never fits",
                                        "a job that waits no longer than it says",
                                        "a limit of a queue that is edited",
                                        "a job that its queue's limit ends",
                                        "a gang that goes for another",
                                        "a gang that passes an older one",
                                        "a job of a kind that is known",
                                        "a program that runs for longer than its kind",
                                        "a queue with a limit where run times are learnt",
                                        "a start that earlier runs tell",
                                        "a gang that asks for nodes",
                                        "a gang that asks for nodes when all is known",
                                        "a job that fits nothing but what an autoscaler adds",
                                        "an autoscaler that finds room",
                                        "an autoscaler that finds no room",
                                        "nodes that are added for a whole gang",
                                        "nodes that were ordered and never come",
                                        "an autoscaler that is slow",
                                        "an autoscaler that is silent",
                                        "an autoscaler that fails a request",
                                        "an autoscaler that crashes",
                                        "a booking that expires",
                                        "an unused node that is removed again",
                                        "a name of a request that somebody else takes",
                                        "a request or a template that somebody removes",
                                        "in peace: a node that always refuses",
                                        "in peace: a cordoned node",
                                        "in peace: a node that ends no pod",
                                        "in peace: a stuck pod's node is started anew",
                                        "in peace: a program that breaks again"};

// With --bad-users.
constexpr const char* kMovesOfBadUsers[] = {
    "a running job that is edited into what nobody reads",
    "a job with 256 ports of the node and a quantity of 18 digits",
    "a job with a quantity of 18 digits",
    "a job with ten thousand labels",
    "a hundred nodes that come and go",
    "a ResourceQuota that the server shows and enforces",
    "a node that loses the label of its rack under a gang",
    "a job that can never start at the head of a queue",
    "a turn between two queues that share evenly",
    "in peace: a training that only its limit of time ends",
    "in peace: a rank that is lost where a quota is full",
    "in peace: many jobs of two queues that share evenly",
    "in peace: an urgent job whose pods a quota refuses"};

// Says how often each move was made. Returns false where one was to be made and was not.
bool PrintMoves(const Tally& tally, bool lets_bad_users, bool are_all_wanted) {
  bool have_all_happened = true;
  std::vector<const char*> names(std::begin(kMovesWanted), std::end(kMovesWanted));
  if (lets_bad_users) {
    names.insert(names.end(), std::begin(kMovesOfBadUsers), std::end(kMovesOfBadUsers));
  }
  for (const char* const name : names) {
    const auto found = tally.moves.find(name);
    const long long count = found == tally.moves.end() ? 0 : found->second;
    std::printf("%8lld %s\n", count, name);
    have_all_happened = have_all_happened && count > 0;
  }
  if (are_all_wanted && !have_all_happened) {
    std::printf("a move was never made: the seeds prove nothing about it\n");
  }
  return have_all_happened || !are_all_wanted;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Arguments> arguments = Read(argc, argv);
  if (!arguments.has_value()) {
    std::fputs(
        "usage: lockstep-sim --seed N [--verbose] [--replay-rounds] [--bad-users]\n"
        "       lockstep-sim --seeds COUNT [--first N] [--until-broken | --until-says WORDS]\n"
        "                    [--replay-rounds] [--bad-users]\n"
        "Runs the operator against a simulated cluster that misbehaves by seed. Exit code 1 when\n"
        "a promise is broken; with --replay-rounds also when a scheduling round, repeated from\n"
        "its log, has another result. With --bad-users, users of every fifth seed write manifests\n"
        "badly; docs/contributing/simulation.md says what is known about these runs.\n",
        stderr);
    return 2;
  }
  Tally tally;
  std::map<uint64_t, std::string> problems;
  if (arguments->seed.has_value()) {
    problems[*arguments->seed] = RunSeed(*arguments->seed, *arguments, &tally);
    std::erase_if(problems, [](const auto& entry) { return entry.second.empty(); });
  } else {
    problems = RunSeeds(*arguments, &tally);
  }
  for (const auto& [seed, problem] : problems) {
    const std::string number = std::to_string(seed);
    std::printf("seed %s: %s\n  replay: lockstep-sim --seed %s --verbose%s\n",
                number.c_str(),
                problem.c_str(),
                number.c_str(),
                arguments->lets_bad_users ? " --bad-users" : "");
  }
  std::printf(
      "%zu failed; jobs succeeded %lld, failed %lld; status writes %lld, restarts %lld, rollbacks "
      "%lld, operators died %lld\n",
      problems.size(),
      static_cast<long long>(tally.succeeded),
      static_cast<long long>(tally.failed),
      static_cast<long long>(tally.writes),
      static_cast<long long>(tally.restarts),
      static_cast<long long>(tally.rollbacks),
      static_cast<long long>(tally.operator_deaths));
  std::printf("the largest step of an operator took %lld bytes\n",
              static_cast<long long>(tally.work_max));
  if (arguments->replays_rounds) {
    std::printf("%lld rounds decided again\n", static_cast<long long>(tally.replayed_rounds));
  }
  const bool have_all_happened =
      PrintMoves(tally, arguments->lets_bad_users, arguments->count >= kSeedsForAllMoves);
  return problems.empty() && have_all_happened ? 0 : 1;
}
