#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/contract/status_document.h"
#include "common/contract/topology.h"
#include "operator/kube/objects.h"
#include "operator/scheduler/plan.h"

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

// What is at the name of the job's service.
enum class ServiceState {
  kNotNeeded,  // a cluster of one machine
  kMissing,    // not there, or changed by somebody
  kReady,      // there, ours, as we made it
  kForeign,    // somebody else's
};

// A gang that waits for room longer than this job does.
struct WaitingGang {
  std::string job;  // "namespace/name"
  Gang gang;
  // By node: what jobs that came after it hold, placed or planned. Everything else it has to wait
  // for in any case.
  std::map<std::string, kube::ResourceList> held_by_younger;

  friend bool operator==(const WaitingGang&, const WaitingGang&) = default;
};

// Everything a pass may know of the world outside the job itself. It may be out of date; it is
// never invented.
struct Observed {
  std::vector<kube::Pod> pods;  // at least all that carry the job's labels
  std::vector<kube::Node> nodes;
  std::map<std::string, kube::ResourceList> used_elsewhere;  // by node: what pods of others hold
  std::map<std::string, int64_t> pods_elsewhere;             // by node: how many those are
  std::map<std::string, RuntimeReport> reports;              // by pod name
  // Pods that the cluster refused to create, with its words: a quota, an admission rule.
  std::map<std::string, std::string> refused_pods;
  ServiceState service = ServiceState::kNotNeeded;
  std::vector<WaitingGang> ahead;  // oldest first
  PodSettings settings;
  bool is_one_machine = false;  // nobody else will make room: a gang that does not fit has failed

  friend bool operator==(const Observed&, const Observed&) = default;
};

}  // namespace lockstep::control
