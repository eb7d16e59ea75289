#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/time.h"
#include "operator/cli/chaos.h"

namespace lockstep::control {

struct RunArguments {
  std::string file;
  std::string directory;     // empty: runs/JOB-TIME below the working directory
  std::string summary_file;  // empty: only the one in the run directory
  std::vector<ChaosAction> chaos;
  std::optional<Duration> timeout;
  std::string runtime;   // path of lockstep-runtime; empty: beside this program, else in PATH
  bool verbose = false;  // echo what the pods print, and the operator's own log
  bool keep = false;     // leave sockets, keys and empty logs where they are
};

struct ValidateArguments {
  std::vector<std::string> files;
};

struct RenderArguments {
  std::string file;
  bool as_json = false;
  bool local = false;  // loopback addresses as in `lockstep run` instead of a cluster's names
};

struct VersionArguments {};

using Arguments = std::variant<RunArguments, ValidateArguments, RenderArguments, VersionArguments>;

// What to do instead of a command: print `text` and end with `exit_code`.
struct ArgumentsEnd {
  std::string text;
  int exit_code = 0;  // 0: help or version was asked for; kCliUsage: a mistake
};

// Reads the command line (argv[0] included). Source: CLI11.
std::variant<Arguments, ArgumentsEnd> ParseArguments(const std::vector<std::string>& argv);

// "lockstep 0.1.0".
std::string VersionText();

}  // namespace lockstep::control
