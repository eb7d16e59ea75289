#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "operator/replay/philly_replay.h"

namespace lockstep::control {

enum class PlacementPolicyKind { kWorth, kFgd, kBestFit };

struct OpenbArguments {
  std::string nodes_file;
  std::string pods_file;
  int64_t seed_count = 10;
  uint64_t first_seed = 42;
  double tune = 1.3;
  PlacementPolicyKind policy = PlacementPolicyKind::kWorth;
};

struct PhillyArguments {
  std::string trace_file;
  int64_t gpu_count = 640;
  PhillyOptions options;
};

// One of Shapes() by its name.
struct ShapeArguments {
  std::string name;
  int64_t run_count = 5;
};

// A log that an operator has kept (--round-log).
struct LogArguments {
  std::string file;
  std::string gang;      // what is asked of it, after that round; empty: nothing is
  int64_t at_round = 0;  // 0: the last
  std::map<std::string, int64_t> replicas;
  std::optional<std::string> queue;
  std::optional<int64_t> priority;
  std::vector<std::string> drained;
  std::map<std::string, int64_t> nodes_like;  // so many more of each of these
};

// What is to be printed before the program ends at once.
struct ReplayHelp {
  std::string text;
  int exit_code = 0;
};

using ReplayArguments =
    std::variant<OpenbArguments, PhillyArguments, ShapeArguments, LogArguments, ReplayHelp>;

// Exit code of ReplayHelp: 0 where help was asked for, 2 where the arguments are wrong.
ReplayArguments ParseReplayArguments(int argc, const char* const* argv);

}  // namespace lockstep::control
