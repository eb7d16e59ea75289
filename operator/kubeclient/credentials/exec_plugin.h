#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::control {

// A program that hands out credentials, as kubeconfig files name it: client.authentication.k8s.io,
// v1 or v1beta1.
struct ExecPlugin {
  std::string api_version;
  std::string command;  // looked up in PATH unless it holds a slash
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::string install_hint;  // what to tell people who lack the program
  std::string cluster_json;  // spec.cluster of what the program is told; empty: it is not
};

// What such a program says. Secret.
struct ExecCredential {
  std::string token;
  std::string certificate_pem;
  std::string key_pem;
  std::optional<WallTime> expires;
};

// Runs the program without a shell, without a terminal and with nothing on its standard input, in a
// process group of its own that is killed when the deadline passes or `stop_fd` becomes readable
// (-1: never). What it writes to standard error goes to ours.
// Errors: kNotFound (no such program, with the hint), kTimeout, kAborted (stopped), kUnavailable
// (it failed), kCorrupt (its answer is not an ExecCredential of this version with a token or a
// certificate). No error holds a part of the answer.
Result<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, Deadline deadline, int stop_fd);

// Reads a program's answer. Errors: kCorrupt.
Result<ExecCredential> ParseExecCredential(const std::string& answer,
                                           const std::string& api_version);

}  // namespace lockstep::control
