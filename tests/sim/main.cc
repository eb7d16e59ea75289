#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "tests/sim/simulation.h"

namespace {

using lockstep::control::sim::Simulation;
using lockstep::control::sim::Tally;

struct Arguments {
  std::optional<uint64_t> seed;
  uint64_t count = 0;
  uint64_t first = 1;
  bool is_verbose = false;
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

bool RunSeed(uint64_t seed, bool is_verbose, Tally* tally) {
  const auto trace = [](const std::string& line) { std::puts(line.c_str()); };
  Simulation simulation(seed, is_verbose ? trace : std::function<void(const std::string&)>());
  const std::string problem = simulation.Run(tally);
  if (problem.empty()) {
    return true;
  }
  std::printf("seed %llu: %s\n  replay: lockstep-sim --seed %llu --verbose\n",
              static_cast<unsigned long long>(seed),
              problem.c_str(),
              static_cast<unsigned long long>(seed));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Arguments> arguments = Read(argc, argv);
  if (!arguments.has_value()) {
    std::fputs(
        "usage: lockstep-sim --seed N [--verbose]\n"
        "       lockstep-sim --seeds COUNT [--first N]\n"
        "Runs the operator against a simulated cluster that misbehaves by seed. Exit code 1 when "
        "a\n"
        "promise is broken.\n",
        stderr);
    return 2;
  }
  Tally tally;
  uint64_t failed = 0;
  if (arguments->seed.has_value()) {
    failed = RunSeed(*arguments->seed, arguments->is_verbose, &tally) ? 0 : 1;
  }
  for (uint64_t i = 0; i < arguments->count; ++i) {
    failed += RunSeed(arguments->first + i, false, &tally) ? 0 : 1;
  }
  std::printf(
      "%llu failed; jobs succeeded %lld, failed %lld; status writes %lld, restarts %lld, rollbacks "
      "%lld, operators died %lld\n",
      static_cast<unsigned long long>(failed),
      static_cast<long long>(tally.succeeded),
      static_cast<long long>(tally.failed),
      static_cast<long long>(tally.writes),
      static_cast<long long>(tally.restarts),
      static_cast<long long>(tally.rollbacks),
      static_cast<long long>(tally.operator_deaths));
  return failed == 0 ? 0 : 1;
}
