#include "operator/cmd/flags.h"

#include <map>
#include <sstream>

#include <CLI/CLI.hpp>

#include "common/contract/text/problems.h"
#include "operator/api/fields/labels.h"
#include "operator/kubeclient/kube/lease.h"

namespace lockstep::control {
namespace {

constexpr const char* kFooter =
    R"(Without --kubeconfig the operator uses the files in KUBECONFIG, else its pod's service
account, else ~/.kube/config.

POD_NAME and POD_NAMESPACE name this replica in the Lease and in Events. With POD_UID, a restarted
container takes the Lease over at once from the earlier process in the same pod.
On SIGTERM the operator finishes open calls and releases the Lease; a second SIGTERM ends it at
once.
Exit codes: 0 stopped, 1 could not start, or could not stop in time, 2 bad usage.)";

const std::map<std::string, int64_t> kDurationUnits = {{"ms", 1}, {"s", 1000}, {"m", 60'000}};

const std::map<std::string, int64_t> kLongUnits = {
    {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};

// Choices: rounds hear of it once a minute at least; what lies longer back nobody remembers.
constexpr int64_t kHalfLifeMsMin = 10 * 60'000;
constexpr int64_t kHalfLifeMsMax = int64_t{365} * 86'400'000;

const std::map<std::string, LogLevel> kLogLevels = {{"debug", LogLevel::kDebug},
                                                    {"info", LogLevel::kInfo},
                                                    {"warn", LogLevel::kWarn},
                                                    {"error", LogLevel::kError}};

const std::map<std::string, LogFormat> kLogFormats = {{"text", LogFormat::kText},
                                                      {"json", LogFormat::kJson}};

const std::map<std::string, TransportKind> kTransports = {{"beast", TransportKind::kBeast},
                                                          {"cpprest", TransportKind::kCpprest}};

const std::map<std::string, PodSecurityLevel> kPodSecurityLevels = {
    {"baseline", PodSecurityLevel::kBaseline}, {"restricted", PodSecurityLevel::kRestricted}};

// As CLI11 stores them, before they become types.
struct Numbers {
  int64_t lease_duration_ms = 0;
  int64_t renew_deadline_ms = 0;
  int64_t retry_period_ms = 0;
  int64_t half_life_ms = 0;
};

void AddDuration(CLI::App* app, const std::string& name, int64_t* value, const std::string& help) {
  app->add_option(name, *value, help)
      ->transform(CLI::AsNumberWithUnit(kDurationUnits, CLI::AsNumberWithUnit::UNIT_REQUIRED))
      ->type_name("TIME");
}

template <typename Value>
CLI::Option* AddChoice(CLI::App* app,
                       const std::string& name,
                       Value* value,
                       const std::map<std::string, Value>& choices,
                       const std::string& help) {
  std::string words;
  for (const auto& [word, meaning] : choices) {
    words += (words.empty() ? "" : "|") + word;
  }
  return app->add_option(name, *value, help)
      ->transform(CLI::Transformer(choices).description(""))
      ->type_name(words);
}

// Makes milliseconds of it. Returns what is wrong; empty: nothing.
std::string ReadHalfLife(std::string& text) {
  const std::string found = text;
  const CLI::AsNumberWithUnit number(kLongUnits, CLI::AsNumberWithUnit::UNIT_REQUIRED);
  if (std::string problem = number(text); !problem.empty()) {
    return problem;
  }
  const int64_t half_life = std::stoll(text);
  return half_life == 0 || (half_life >= kHalfLifeMsMin && half_life <= kHalfLifeMsMax)
             ? std::string()
             : found + " found, expected 0s, or 10m to 365d";
}

void AddPast(CLI::App* app, OperatorFlags* flags, int64_t* half_life_ms) {
  app->add_flag("--learn-run-times",
                flags->learns_run_times,
                "use earlier jobs of the same kind to estimate how long a job runs");
  app->add_option("--fair-share-half-life",
                  *half_life_ms,
                  "half-life of past usage in the queue order FairShare, 10m to 365d: usage of "
                  "this age counts half; with 0s, past usage does not count [0s]")
      ->transform(CLI::Validator(ReadHalfLife, ""))
      ->type_name("TIME");
}

void AddConnection(CLI::App* app, OperatorFlags* flags) {
  const char* const group = "Cluster";
  app->add_option("--kubeconfig", flags->kubeconfig, "kubeconfig file")
      ->type_name("FILE")
      ->group(group);
  app->add_option("--context", flags->context, "context in the kubeconfig [its current one]")
      ->group(group);
  app->add_option("--namespaces", flags->namespaces, "serve only jobs in these namespaces [all]")
      ->delimiter(',')
      ->group(group);
  app->add_option("--cluster-domain",
                  flags->cluster_domain,
                  "DNS domain of the cluster, such as cluster.local")
      ->group(group);
  app->add_option(
         "--topology-levels",
         flags->topology_levels,
         "node labels for scheduling.topology, one for each level of the network, from wide to "
         "narrow [none]")
      ->delimiter(',')
      ->type_name("LABELS")
      ->group(group);
  app->add_flag("--kueue",
                flags->follows_kueue,
                "let jobs with the label kueue.x-k8s.io/queue-name wait until Kueue admits them")
      ->group(group);
  app->add_flag(
         "--provisioning",
         flags->follows_provisioning,
         "for jobs with scheduling.provisioning: ProvisioningRequest, create ProvisioningRequests, "
         "so that cluster autoscalers add nodes")
      ->group(group);
  app->add_flag(
         "--placeholder-pods",
         flags->makes_placeholders,
         "for jobs with scheduling.provisioning: Pods, create placeholder pods, so that cluster "
         "autoscalers add nodes")
      ->group(group);
  app->add_flag("--native-binding",
                flags->binds_natively,
                "for jobs with scheduling.binding: Native, let kube-scheduler place the gang by a "
                "PodGroup of scheduling.k8s.io")
      ->group(group);
  app->add_option("--api-concurrency",
                  flags->api_concurrency,
                  "maximum number of calls to the API server at a time; watches are not counted")
      ->check(CLI::Range(1, 256))
      ->capture_default_str()
      ->group(group);
  AddChoice(app, "--transport", &flags->transport, kTransports, "HTTP library [beast]")
      ->group(group);
}

void AddElection(CLI::App* app, OperatorFlags* flags, Numbers* numbers) {
  app->add_flag("--leader-elect,!--no-leader-elect",
                flags->leader_elect,
                "let only the replica that holds the Lease act [on]");
  app->add_option("--lease-name", flags->lease_name, "name of the Lease")->capture_default_str();
  app->add_option(
      "--lease-namespace", flags->lease_namespace, "namespace of the Lease [the pod's own]");
  app->add_option("--key-secret",
                  flags->key_secret,
                  "name of the Secret with the operator's key, in the namespace of the Lease")
      ->capture_default_str();
  AddDuration(app,
              "--lease-duration",
              &numbers->lease_duration_ms,
              "time without a renewal after which another replica takes the Lease over [15s]");
  AddDuration(app,
              "--renew-deadline",
              &numbers->renew_deadline_ms,
              "time without a successful renewal after which the holder stops leading [10s]");
  AddDuration(app,
              "--retry-period",
              &numbers->retry_period_ms,
              "time between two attempts to renew or take the Lease [2s]");
}

void AddRest(CLI::App* app, OperatorFlags* flags) {
  app->add_option(
         "--runtime-image", flags->runtime_image, "image with lockstep-runtime, for pods of jobs")
      ->type_name("IMAGE");
  app->add_option(
         "--image-pull-policy", flags->image_pull_policy, "pull policy of the runtime image")
      ->check(CLI::IsMember({"Always", "IfNotPresent", "Never"}));
  app->add_option(
         "--image-pull-secrets",
         flags->image_pull_secrets,
         "image pull Secrets for the runtime image; they must exist in the namespace of each job")
      ->delimiter(',')
      ->type_name("NAMES");
  AddChoice(app,
            "--pod-security",
            &flags->pod_security,
            kPodSecurityLevels,
            "Pod Security level that pods meet if their namespace has no enforce label [baseline]");
  app->add_option("--metrics-address",
                  flags->metrics_address,
                  "address that serves /metrics, /healthz and /readyz; if empty, nothing is served")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  CLI::Option* const log =
      app->add_option(
             "--round-log",
             flags->round_log,
             "record every scheduling round in this file, for lockstep-replay log; an older "
             "file becomes FILE.1 [none]")
          ->type_name("FILE");
  app->add_option("--round-log-mib",
                  flags->round_log_mib,
                  "maximum size of the record in MiB; recording stops there")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str()
      ->needs(log);
  AddChoice(
      app, "--log-level", &flags->log_level, kLogLevels, "lowest level that is logged [info]");
  AddChoice(app, "--log-format", &flags->log_format, kLogFormats, "format of log lines [text]");
}

// By RFC 1123: other than for DNS labels elsewhere, a digit may come first.
bool IsNamespaceName(const std::string& text) {
  return IsDnsName(text) && text.find('.') == std::string::npos && text.size() <= kLabelNameMax;
}

// What is wrong with values that the words alone do not show; empty: nothing.
std::string ProblemOf(const OperatorFlags& flags, bool has_levels) {
  for (const std::string& name : flags.namespaces) {
    if (!IsNamespaceName(name)) {
      return "--namespaces: " + Quoted(name) +
             " found, expected names of namespaces: at most 63 lower-case letters, digits and '-', "
             "with no '-' at the beginning or end";
    }
  }
  for (const std::string& level : flags.topology_levels) {
    if (!IsLabelKey(level)) {
      return "--topology-levels: " + Quoted(level) +
             " found, expected keys of node labels, such as example.com/rack";
    }
  }
  if (has_levels && flags.topology_levels.empty()) {
    return "--topology-levels: empty, expected keys of node labels, such as example.com/rack; if "
           "the nodes have none, leave the flag out";
  }
  if (flags.leader_elect) {
    kube::LeaseOptions lease;
    lease.namespace_name = lease.name = lease.identity = "any";
    lease.lease_duration = flags.lease_duration;
    lease.renew_deadline = flags.renew_deadline;
    lease.retry_period = flags.retry_period;
    if (const Status checked = kube::CheckLeaseOptions(lease); !checked.ok()) {
      return "--lease-duration, --renew-deadline, --retry-period: " + checked.error().message();
    }
  }
  return "";
}

}  // namespace

std::variant<OperatorFlags, PrintAndExit> ParseOperatorFlags(int argc, const char* const* argv) {
  OperatorFlags flags;
  Numbers numbers{
      flags.lease_duration.count(), flags.renew_deadline.count(), flags.retry_period.count(), 0};
  CLI::App app("Runs TrainingJobs on a Kubernetes cluster.", "lockstep-operator");
  app.footer(kFooter);
  app.set_version_flag("--version", "lockstep-operator " LOCKSTEP_VERSION);
  AddConnection(&app, &flags);
  AddElection(&app, &flags, &numbers);
  AddPast(&app, &flags, &numbers.half_life_ms);
  AddRest(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    const int code = app.exit(error, text, text);
    return PrintAndExit{text.str(), code == 0 ? 0 : 2};
  }
  flags.lease_duration = std::chrono::milliseconds(numbers.lease_duration_ms);
  flags.renew_deadline = std::chrono::milliseconds(numbers.renew_deadline_ms);
  flags.retry_period = std::chrono::milliseconds(numbers.retry_period_ms);
  flags.fair_share_half_life = std::chrono::milliseconds(numbers.half_life_ms);
  const bool has_levels = app.count("--topology-levels") > 0;
  if (const std::string problem = ProblemOf(flags, has_levels); !problem.empty()) {
    return PrintAndExit{problem + "\n", 2};
  }
  return flags;
}

}  // namespace lockstep::control
