#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "common/base/log.h"
#include "operator/kubeclient/kube/lease.h"
#include "operator/kubeclient/transport/transport_options.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

enum class LogFormat { kText, kJson };

// What the command line of lockstep-operator says.
struct OperatorFlags {
  std::string kubeconfig;  // empty: look around, see FindApiAccess
  std::string context;
  std::vector<std::string> namespaces;  // whose jobs are served; empty: all
  bool leader_elect = true;
  std::string lease_name = "lockstep-operator";
  std::string lease_namespace;  // of the key too; empty: where this process lives
  std::string key_secret = "lockstep-operator-key";
  std::chrono::milliseconds lease_duration = kube::LeaseOptions{}.lease_duration;
  std::chrono::milliseconds renew_deadline = kube::LeaseOptions{}.renew_deadline;
  std::chrono::milliseconds retry_period = kube::LeaseOptions{}.retry_period;
  std::string runtime_image;
  std::string image_pull_policy;
  std::vector<std::string> image_pull_secrets;  // of the runtime image, in each job's namespace
  PodSecurityLevel pod_security = PodSecurityLevel::kBaseline;
  std::string cluster_domain;
  std::vector<std::string> topology_levels;  // labels of nodes, from wide to narrow
  bool follows_kueue = false;                // and its Workloads, for jobs with its label
  bool follows_provisioning = false;         // what jobs ask of autoscalers by requests
  bool makes_placeholders = false;           // what they ask by placeholder pods
  bool binds_natively = false;               // jobs may have kube-scheduler place their gangs
  std::string metrics_address = "0.0.0.0:8080";
  TransportKind transport = TransportKind::kBeast;
  int api_concurrency = 32;  // choice: hundreds of pods at once came no faster with 48
  std::chrono::milliseconds fair_share_half_life{0};  // 0: the past does not count
  bool learns_run_times = false;                      // rounds hear how long ended jobs ran
  std::string round_log;                              // file; empty: none is kept
  int round_log_mib = 256;                            // it ends there
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// What to print instead of running, and the exit code to end with.
struct PrintAndExit {
  std::string text;
  int exit_code = 0;
};

// Reads the command line; --help, --version and mistakes come back as text.
std::variant<OperatorFlags, PrintAndExit> ParseOperatorFlags(int argc, const char* const* argv);

}  // namespace lockstep::control
