#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/time.h"
#include "operator/cli/run/chaos.h"
#include "operator/cli/schema/setting.h"
#include "operator/cli/terminal/completion.h"

namespace lockstep::control {

// The job that a command works on.
struct JobSource {
  std::string file;               // "-": standard input
  std::vector<Setting> settings;  // changes to the manifest, made in this order
  std::optional<int64_t> workers;
};

struct RunArguments {
  JobSource source;          // `file` may be empty where `resume` is not: the earlier run's job
  std::string directory;     // empty: runs/JOB-TIME below the working directory
  std::string resume;        // folder of an earlier run that is gone on with; empty: a new one
  std::string summary_file;  // empty: only the one in the run directory
  std::vector<ChaosAction> chaos;
  std::optional<Duration> timeout;
  std::string runtime;   // path of lockstep-runtime; empty: beside this program, else in PATH
  bool verbose = false;  // echo what the pods print, and the operator's own log
  bool quiet = false;    // warnings and the end only
  bool keep = false;     // leave sockets, keys and empty logs where they are
};

struct ValidateArguments {
  std::vector<std::string> files;  // "-": standard input
};

struct RenderArguments {
  JobSource source;
  bool as_json = false;
  bool local = false;  // loopback addresses as in `lockstep run` instead of a cluster's names
};

struct ConvertArguments {
  std::vector<std::string> files;    // "-": standard input
  std::string image;                 // of pods whose manifest names none
  std::vector<std::string> command;  // of pods whose manifest leaves it to the image
};

struct ExplainArguments {
  std::string field;  // "spec.training.optimizer"; empty: the whole job
};

struct PsArguments {
  std::string folder;  // that holds run directories; empty: runs below the working directory
};

struct LogsArguments {
  std::string run;
  std::string pod;      // empty: all
  bool follow = false;  // go on until the run ends
  int64_t tail = 0;     // only so many lines of what is there; 0: all
};

struct StopArguments {
  std::string run;
  bool kill = false;                           // do not wait for a checkpoint
  Duration timeout = std::chrono::minutes(2);  // choice: above the default grace, for the last save
};

struct CompletionArguments {
  Shell shell = Shell::kBash;
};

struct VersionArguments {};

using Arguments = std::variant<RunArguments,
                               ValidateArguments,
                               RenderArguments,
                               ConvertArguments,
                               ExplainArguments,
                               PsArguments,
                               LogsArguments,
                               StopArguments,
                               CompletionArguments,
                               VersionArguments>;

// What to do instead of a command: print `text` and end with `exit_code`.
struct ArgumentsEnd {
  std::string text;
  int exit_code = 0;  // 0: help or version was asked for; kCliUsage: a mistake
};

// Reads the command line (argv[0] included). Source: CLI11.
std::variant<Arguments, ArgumentsEnd> ParseArguments(const std::vector<std::string>& argv);

// What ParseArguments reads, for completion.
CommandWords DescribeCommands();

// "lockstep 0.1.0".
std::string VersionText();

}  // namespace lockstep::control
