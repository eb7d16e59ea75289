// How soon rounds are decided, shape by shape, beside what others publish.

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <sys/resource.h>
#include <sys/wait.h>

#include "operator/replay/shapes.h"
#include "operator/scheduler/testing/brute_force.h"

namespace lockstep::control {
namespace {

constexpr int kRuns = 5;

struct Measured {
  double milliseconds = 0;
  double p99_milliseconds = 0;
  double wall_milliseconds = 0;
  double pods_per_second = 0;
  double resident_mib = 0;
  bool is_right = false;
};

// All runs of one shape in a process of its own, so that its memory is its own.
Measured MeasureAlone(const Shape& shape) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    return {};
  }
  const pid_t child = fork();
  if (child == 0) {
    const ShapeRun median = MedianRun(shape, kRuns);
    if (!median.wrong.empty()) {
      std::fprintf(stderr, "%s: %s\n", shape.name.c_str(), median.wrong.c_str());
    }
    Measured measured{median.milliseconds,
                      median.p99_milliseconds,
                      median.wall_milliseconds,
                      0,
                      0,
                      median.wrong.empty()};
    measured.pods_per_second = static_cast<double>(median.pods) * 1000.0 / median.milliseconds;
    const bool is_told = write(ends[1], &measured, sizeof(measured)) == sizeof(measured);
    _exit(is_told ? 0 : 1);
  }
  close(ends[1]);
  Measured measured;
  const bool is_told = read(ends[0], &measured, sizeof(measured)) == sizeof(measured);
  close(ends[0]);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  measured.is_right = measured.is_right && is_told && status == 0;
  measured.resident_mib = static_cast<double>(usage.ru_maxrss) / 1024.0;
  return measured;
}

// Prints a row; whether the answer is right and every bar is met.
bool Report(const Shape& shape) {
  const Measured measured = MeasureAlone(shape);
  const double slowest = std::max(measured.milliseconds, measured.p99_milliseconds);
  const bool is_met =
      measured.is_right && (shape.bar_milliseconds == 0 || slowest < shape.bar_milliseconds) &&
      measured.pods_per_second >= shape.bar_pods_per_second &&
      (shape.bar_resident_mib == 0 || measured.resident_mib < shape.bar_resident_mib);
  std::printf(
      "%-22s %9.3f %9.3f", shape.name.c_str(), measured.milliseconds, measured.wall_milliseconds);
  if (measured.p99_milliseconds > 0) {
    std::printf(" %9.3f", measured.p99_milliseconds);
  } else {
    std::printf(" %9s", "");
  }
  if (shape.bar_pods_per_second > 0) {
    std::printf(" %10.0f", measured.pods_per_second);
  } else {
    std::printf(" %10s", "");
  }
  std::printf(" %8.1f  %-6s %s | %s\n",
              measured.resident_mib,
              !measured.is_right ? "WRONG"
              : is_met           ? "met"
                                 : "MISSED",
              shape.what.c_str(),
              shape.anchor.c_str());
  std::fflush(stdout);
  return is_met;
}

int RunBruteForce(int64_t count, uint64_t first_seed) {
  BruteForceTally tally;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(i);
    const std::string wrong = WrongInCase(seed, &tally);
    if (!wrong.empty()) {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
      return 1;
    }
  }
  std::printf(
      "%lld clusters as by trying everything: %lld granted, %lld without room, %lld over quota, "
      "%lld out of turn, %lld evicted\n",
      static_cast<long long>(count),
      static_cast<long long>(tally.granted),
      static_cast<long long>(tally.refused),
      static_cast<long long>(tally.over_quota),
      static_cast<long long>(tally.out_of_turn),
      static_cast<long long>(tally.evicted));
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Rounds of the scheduler: median of 5, MiB at most resident");
  std::string only;
  int64_t brute_force = 0;
  uint64_t seed = 0;
  app.add_option("--shape", only, "this shape alone");
  app.add_option("--brute-force", brute_force, "so many random small clusters instead");
  app.add_option("--seed", seed, "of the first of them");
  CLI11_PARSE(app, argc, argv);
  if (brute_force > 0) {
    return RunBruteForce(brute_force, seed);
  }
  std::printf("%-22s %9s %9s %9s %10s %8s  %-6s %s\n",
              "shape",
              "CPU ms",
              "wall ms",
              "p99 ms",
              "pods/s",
              "MiB",
              "bar",
              "what | others");
  bool is_met = true;
  for (const Shape& shape : Shapes()) {
    if (only.empty() || only == shape.name) {
      is_met = Report(shape) && is_met;
    }
  }
  return is_met ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::control

int main(int argc, char** argv) {
  return lockstep::control::Main(argc, argv);
}
