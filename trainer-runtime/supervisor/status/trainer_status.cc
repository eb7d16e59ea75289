#include "trainer-runtime/supervisor/status/trainer_status.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>

#include "common/base/digest.h"
#include "common/json/json.h"
#include "trainer-runtime/supervisor/status/tf_config_endpoint.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kServerUrl = "KUBEFLOW_TRAINER_SERVER_URL";
constexpr const char* kServerToken = "KUBEFLOW_TRAINER_SERVER_TOKEN";
constexpr const char* kServerCa = "KUBEFLOW_TRAINER_SERVER_CA_CERT";

constexpr std::size_t kMetricTextMax = 64;  // Kubeflow's, of a name and of a value
constexpr int64_t kPercentMax = 100;
constexpr double kCountMax = 1e15;  // a double tells such counts apart
constexpr std::size_t kTokenBytes = 32;

// Of the steps by a trainer's epoch, which is told with two decimals. Choice.
constexpr double kEndError = 0.02;

// What a metric says, as Python writes numbers: "0.5", "nan", "1e-05".
std::optional<double> NumberOf(const std::string& text) {
  if (text.empty() || text.size() > kMetricTextMax || std::isspace(text.front()) != 0) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return *end == '\0' ? std::optional(number) : std::nullopt;
}

std::optional<double> MetricOf(const TrainerStatus& status, const std::string& name) {
  const auto found = status.metrics.find(name);
  return found == status.metrics.end() ? std::nullopt : std::optional(found->second);
}

// Of a metric that counts something.
std::optional<int64_t> CountOf(const TrainerStatus& status, const std::string& name) {
  const std::optional<double> count = MetricOf(status, name);
  return count.has_value() && *count >= 0 && *count <= kCountMax
             ? std::optional(static_cast<int64_t>(*count))
             : std::nullopt;
}

HttpServerResponse Refuse(int status, const std::string& reason, const std::string& message) {
  const Json answer = {{"kind", "Status"},
                       {"apiVersion", "v1"},
                       {"status", "Failure"},
                       {"reason", reason},
                       {"message", message},
                       {"code", status}};
  return {status, "application/json", DumpJson(answer)};
}

std::string PathOf(const WorkerEnvironment& environment) {
  return "/apis/trainer.kubeflow.org/v1alpha1/namespaces/" + environment.namespace_name +
         "/trainjobs/" + environment.job + "/status";
}

// Programs look at either spelling.
void AskNoProxy(const std::string& address, EnvironmentMap* variables) {
  for (const char* name : {"no_proxy", "NO_PROXY"}) {
    std::string& without = (*variables)[name];
    without += (without.empty() ? "" : ",") + address;
  }
}

bool HasProxy(const EnvironmentMap& variables) {
  for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) {
    if (variables.count(name) > 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<TrainerStatus> ParseTrainerStatus(std::string_view body) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json document, ParseJson(body));
  std::vector<Error> errors;
  TrainerStatus status;
  ObjectReader root(document, "", &errors);
  if (const Json* told = root.Require("trainerStatus", "an object")) {
    ObjectReader reader(*told, "trainerStatus", &errors);
    status.percentage = reader.Int("progressPercentage", 0, kPercentMax);
    const std::vector<const Json*> metrics = reader.List("metrics");
    if (metrics.size() > kTrainerMetricsMax) {
      reader.Fail("metrics",
                  std::to_string(metrics.size()) + " elements found, expected at most " +
                      std::to_string(kTrainerMetricsMax));
    }
    for (std::size_t i = 0; i < metrics.size() && errors.empty(); ++i) {
      ObjectReader metric(*metrics[i], reader.PathOf("metrics", i), &errors);
      const std::string name = metric.String("name").value_or("");
      const std::optional<double> value = NumberOf(metric.String("value").value_or(""));
      if (!name.empty() && name.size() <= kMetricTextMax && value.has_value()) {
        status.metrics[name] = *value;
      }
    }
  }
  if (!errors.empty()) {
    return errors.front();
  }
  return status;
}

void TrainerProgress::Take(const TrainerStatus& status) {
  const std::optional<int64_t> step = CountOf(status, "current_step");
  const std::optional<int64_t> steps_total = CountOf(status, "total_steps");
  counts_steps_ = counts_steps_ || step.has_value() || steps_total.has_value();
  steps_total_ = steps_total.has_value() ? steps_total : steps_total_;
  data_epoch_ = CountOf(status, "current_epoch").value_or(data_epoch_);
  for (const char* name : {"train_loss", "loss"}) {  // the newer one last
    if (const std::optional<double> loss = MetricOf(status, name)) {
      loss_ = std::isfinite(*loss) ? loss : std::nullopt;
    }
  }
  if (step.has_value()) {
    step_ = Step(*step);
    const double epoch = MetricOf(status, "current_epoch").value_or(0);
    steps_per_epoch_ = epoch > 0 ? static_cast<double>(*step) / epoch : steps_per_epoch_;
  } else if (!counts_steps_ && status.percentage.has_value()) {
    step_ = Step(*status.percentage);
    steps_total_ = kPercentMax;
  } else if (status.percentage == kPercentMax && steps_total_.has_value()) {
    const double end = MetricOf(status, "epoch").value_or(0) * steps_per_epoch_;
    const auto total = static_cast<double>(*steps_total_);
    step_ = std::abs(end - total) <= kEndError * total ? Step(*steps_total_) : step_;
  }
}

void TrainerProgress::ShowIn(StatusDocument* document) const {
  document->step = step_;
  document->steps_total = steps_total_;
  document->data_epoch = data_epoch_;
  document->loss = loss_;
}

Result<TrainerToken> TrainerToken::Make() {
  const std::string word = RandomHex(kTokenBytes);
  UniqueFd file(::memfd_create("lockstep-trainer-token", MFD_CLOEXEC));
  if (!file.is_open()) {
    return SystemError(errno, "create the file for a token");
  }
  if (::fchmod(file.get(), S_IRUSR) != 0 ||
      ::write(file.get(), word.data(), word.size()) != static_cast<ssize_t>(word.size())) {
    return SystemError(errno, "write a token");
  }
  return TrainerToken(word, std::move(file));
}

std::string TrainerToken::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_.get());
}

HttpRoutes MakeTrainerStatusRoutes(const WorkerEnvironment& environment,
                                   std::string word,
                                   std::function<void(const TrainerStatus&)> on_status) {
  HttpRoutes routes;
  routes[PathOf(environment)]["POST"] =
      [bearer = "Bearer " + std::move(word),
       on_status = std::move(on_status)](const HttpServerRequest& request) {
        if (!ConstantTimeEquals(request.Header("authorization"), bearer)) {
          return Refuse(403, "Forbidden", "the token does not belong to this pod");
        }
        const Result<TrainerStatus> status = ParseTrainerStatus(request.body);
        if (!status.ok()) {
          return Refuse(422, "Invalid", status.error().ToString());
        }
        on_status(*status);
        return HttpServerResponse{200, "application/json", request.body};
      };
  return routes;
}

void OfferTrainerStatus(const WorkerEnvironment& environment,
                        int port,
                        const std::string& token_path,
                        EnvironmentMap* variables) {
  if (variables->count(kServerUrl) > 0) {
    return;
  }
  const std::string address = LoopbackAddress(environment);
  (*variables)[kServerUrl] = "http://" + address + ":" + std::to_string(port) + PathOf(environment);
  (*variables)[kServerToken] = token_path;
  variables->erase(kServerCa);
  if (HasProxy(*variables)) {
    AskNoProxy(address, variables);
  }
}

}  // namespace lockstep::runtime
