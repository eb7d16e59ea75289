#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/contract/status_document.h"
#include "common/contract/topology.h"
#include "operator/kube/objects.h"

namespace lockstep::control {

// The newest status document of one pod.
struct RuntimeReport {
  StatusDocument document;
  Duration age{};  // since it was received

  friend bool operator==(const RuntimeReport&, const RuntimeReport&) = default;
};

// What a cluster gives to every pod it starts: where things are inside a pod.
struct PodSettings {
  Addressing addressing = DnsAddressing{};
  std::string runtime_path = "lockstep-runtime";
  std::string job_directory;             // base of a relative checkpoint directory; empty: none
  std::string data_directory;            // base of relative data set paths; may be empty
  std::string job_key_file;              // may be empty
  std::string termination_message_file;  // empty: the cluster adds its own, or has none

  friend bool operator==(const PodSettings&, const PodSettings&) = default;
};

// Everything a pass may know of the world outside the job itself. It may be out of date; it is
// never invented.
struct Observed {
  std::vector<kube::Pod> pods;  // at least all that carry the job's labels
  std::vector<kube::Node> nodes;
  std::map<std::string, kube::ResourceList> used_elsewhere;  // by node: what pods of others hold
  std::map<std::string, RuntimeReport> reports;              // by pod name
  PodSettings settings;
  bool is_one_machine = false;  // nobody else will make room: a gang that does not fit has failed

  friend bool operator==(const Observed&, const Observed&) = default;
};

}  // namespace lockstep::control
