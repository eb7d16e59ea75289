#include "operator/api/pod_template.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "common/base/quantity.h"
#include "common/contract/problems.h"
#include "operator/api/fields.h"
#include "operator/api/job_names.h"
#include "operator/api/pod_fields.h"

namespace lockstep::control {
namespace {

using Errors = std::vector<Error>;

constexpr std::string_view kGpuResource = "nvidia.com/gpu";
constexpr int64_t kGraceSecondsMax = 24 * 3600;  // choice: a day is a mistake, not a grace period

// Bounds of lists and texts. Choices: above any honest pod, and small enough that the API server
// can afford the rules about them.
constexpr std::size_t kEnvironmentMax = 1000;
constexpr std::size_t kEnvironmentNameMax = 256;
constexpr std::size_t kTolerationsMax = 64;
constexpr std::size_t kTolerationValueMax = 63;  // of a taint; Kubernetes' rule
constexpr std::size_t kResourceNamesMax = 32;

// Kubernetes' rule for names of environment variables, in its strict form.
bool IsEnvironmentName(std::string_view name) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_word(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

void CheckEnvironmentName(ObjectReader& reader, const std::string& name) {
  CheckLength(reader, "name", kEnvironmentNameMax);
  if (!IsEnvironmentName(name)) {
    reader.Fail("name",
                Quoted(name) +
                    " found, expected letters, digits, '_', '-' and '.', not starting with a "
                    "digit");
    return;
  }
  const bool is_reserved =
      name.starts_with(kReservedPrefix) ||
      std::find(kReservedEnvironment.begin(), kReservedEnvironment.end(), name) !=
          kReservedEnvironment.end();
  if (is_reserved) {
    reader.Fail("name", Quoted(name) + " is set by the operator in every pod; remove it");
  }
}

std::map<std::string, std::string> ReadEnvironment(ObjectReader& container, Errors* errors) {
  std::map<std::string, std::string> environment;
  const std::vector<const Json*> items = ListUpTo(container, "env", kEnvironmentMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ObjectReader reader(*items[i], container.PathOf("env", i), errors);
    reader.Require("name", "the variable's name");
    const std::string name = ReadText(reader, "name");
    if (!name.empty() || (reader.Has("name") && reader.Find("name")->is_string())) {
      CheckEnvironmentName(reader, name);
    }
    const std::string value = ReadText(reader, "value");
    if (reader.Has("valueFrom")) {
      reader.Fail("valueFrom", "is not supported yet, expected a value");
    }
    if (!name.empty() && !environment.emplace(name, value).second) {
      reader.Fail("name", Quoted(name) + " is set twice in this container");
    }
    reader.Finish();
  }
  return environment;
}

// Names of Kubernetes' own resources; others hold a '/' (nvidia.com/gpu) or begin with hugepages-.
bool IsResourceName(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "ephemeral-storage" ||
         name.find('/') != std::string_view::npos || name.starts_with("hugepages-");
}

std::string SuggestResource(std::string_view name) {
  if (name == "gpu" || name == "gpus") {
    return ", expected the role's own field gpus";
  }
  const std::string_view nearest = NearestWord(name, {"cpu", "memory", "ephemeral-storage"});
  return nearest.empty() ? ", expected cpu, memory, ephemeral-storage or one with a domain such as "
                           "nvidia.com/gpu"
                         : "; did you mean \"" + std::string(nearest) + "\"?";
}

// "2G" for "2GB": the suggestion for a suffix that ends in a stray letter; empty if none helps.
std::string SuggestQuantity(std::string_view text) {
  while (!text.empty() && (text.back() == 'b' || text.back() == 'B' || text.back() == ' ')) {
    text.remove_suffix(1);
    if (ParseQuantity(text, QuantityUnit::kOnes).ok()) {
      return "; did you mean \"" + std::string(text) + "\"?";
    }
  }
  return "";
}

// One quantity, a string or a number; nullopt (recorded) if it is none.
std::optional<int64_t> ReadQuantity(const Json& value,
                                    const std::string& path,
                                    QuantityUnit unit,
                                    Errors* errors) {
  const std::string text = value.is_string() ? value.get<std::string>() : DumpJson(value);
  Result<int64_t> quantity = ParseQuantity(text, unit);
  const bool is_whole = value.is_number() && value.get<double>() == std::trunc(value.get<double>());
  if (quantity.ok() && (value.is_string() || is_whole)) {
    return *quantity;
  }
  if (quantity.ok() && value.is_number()) {  // the API server takes whole numbers and text only
    AddError(errors, path, text + " found, expected it in quotes: \"" + text + "\"");
    return std::nullopt;
  }
  const std::string expected =
      quantity.ok() ? "a quantity such as 2, 500m, 1.5 or 2Gi" : quantity.error().message();
  AddError(
      errors, path, DescribeJson(value) + " found, expected " + expected + SuggestQuantity(text));
  return std::nullopt;
}

using Amounts = std::map<std::string, int64_t>;

Amounts ReadAmounts(ObjectReader& resources, std::string_view key, Errors* errors) {
  Amounts amounts;
  const Json* value = resources.Find(key);
  if (value == nullptr) {
    return amounts;
  }
  if (!value->is_object()) {
    resources.Fail(key, DescribeJson(*value) + " found, expected an object of quantities");
    return amounts;
  }
  if (value->size() > kResourceNamesMax) {
    resources.Fail(key, TooMany(value->size(), "entries", kResourceNamesMax));
    return amounts;
  }
  for (const auto& [name, quantity] : value->items()) {
    const std::string path = resources.PathOf(key) + "." + name;
    if (!IsResourceName(name)) {
      AddError(errors, path, "unknown resource" + SuggestResource(name));
      continue;
    }
    const QuantityUnit unit = name == "cpu" ? QuantityUnit::kThousandths : QuantityUnit::kOnes;
    if (const std::optional<int64_t> amount = ReadQuantity(quantity, path, unit, errors)) {
      amounts[name] = *amount;
    }
  }
  return amounts;
}

ResourceAmounts ToResourceAmounts(const Amounts& amounts) {
  const auto amount_of = [&](std::string_view name) {
    const auto found = amounts.find(std::string(name));
    return found == amounts.end() ? 0 : found->second;
  };
  return {amount_of("cpu"), amount_of("memory"), amount_of(kGpuResource)};
}

void ReadResources(const Json& value, const std::string& path, PodTemplate* pod, Errors* errors) {
  ObjectReader reader(value, path, errors);
  Amounts requests = ReadAmounts(reader, "requests", errors);
  const Amounts limits = ReadAmounts(reader, "limits", errors);
  PassResourceFields(reader);
  for (const auto& [name, limit] : limits) {
    const auto [request, is_defaulted] = requests.emplace(name, limit);  // as Kubernetes defaults
    if (request->second > limit) {
      AddError(errors,
               path + ".requests." + name,
               "asks for more than limits." + name + ", expected at most " +
                   DescribeJson(value["limits"][name]));
    }
  }
  const std::string gpu(kGpuResource);
  if (requests.contains(gpu) && (!limits.contains(gpu) || requests[gpu] < limits.at(gpu))) {
    AddError(errors,
             path + ".requests." + gpu,
             "differs from limits." + gpu + ", expected the same number: GPUs are not shared");
  }
  reader.Finish();
  pod->requests = ToResourceAmounts(requests);
  pod->limits = ToResourceAmounts(limits);
}

void ReadCommand(ObjectReader& reader, PodTemplate* pod, Errors* errors) {
  pod->command = ReadWords(reader, "command", errors);
  pod->args = ReadWords(reader, "args", errors);
  if (!pod->command.empty() && pod->command.front().empty()) {
    reader.Fail("command", "starts with \"\", expected a program");
  }
  if (reader.Has("args") && !reader.Has("command")) {
    reader.Fail("command",
                "missing, expected a program: args alone rely on an entry point that the operator "
                "cannot see");
  }
}

void ReadContainer(const Json& value, const std::string& path, PodTemplate* pod, Errors* errors) {
  ObjectReader reader(value, path, errors);
  const std::string name = ReadText(reader, "name");
  const bool is_text = reader.Has("name") && reader.Find("name")->is_string();
  if (is_text && !IsDnsLabel(name)) {
    reader.Fail("name", Quoted(name) + " found, expected " + std::string(kDnsLabelWords));
  }
  pod->image = ReadText(reader, "image");
  ReadCommand(reader, pod, errors);
  pod->env = ReadEnvironment(reader, errors);
  pod->working_dir = ReadText(reader, "workingDir");
  if (const Json* resources = reader.Find("resources")) {
    ReadResources(*resources, reader.PathOf("resources"), pod, errors);
  }
  if (reader.Has("envFrom")) {
    reader.Fail("envFrom", "is not supported yet, expected env with values");
  }
  PassContainerFields(reader);
  reader.Finish();
}

void ReadContainers(ObjectReader& spec, PodTemplate* pod, Errors* errors) {
  if (spec.Require("containers", "a list of one container") == nullptr) {
    return;
  }
  const std::vector<const Json*> containers = spec.List("containers");
  if (spec.Find("containers")->is_array() && containers.size() != 1) {
    spec.Fail("containers",
              std::to_string(containers.size()) +
                  " containers found, expected exactly one: sidecars are not supported yet");
    return;
  }
  for (std::size_t i = 0; i < containers.size(); ++i) {
    ReadContainer(*containers[i], spec.PathOf("containers", i), pod, errors);
  }
}

// Fields of a pod that the operator writes itself, and what to use instead.
void RefuseOwnedFields(ObjectReader& spec) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOwned = {{
      {"restartPolicy", "is set by the operator; use the role's restartPolicy"},
      {"hostname", "is set by the operator: pods find each other by it; remove it"},
      {"subdomain", "is set by the operator: pods find each other by it; remove it"},
      {"nodeName", "is set by the operator when the gang is placed; use nodeSelector"},
      {"initContainers", "is not supported yet; remove it"},
      {"ephemeralContainers", "is not part of a template; remove it"},
  }};
  for (const auto& [key, message] : kOwned) {
    if (spec.Has(key)) {
      spec.Fail(key, std::string(message));
    }
  }
}

// What Kubernetes would refuse only once the first pod is created.
void CheckToleration(ObjectReader& reader, const Toleration& toleration) {
  const bool is_exists = toleration.op == TolerationOperator::kExists;
  if (toleration.key.empty() && !is_exists) {
    reader.Fail("key", "missing, expected a taint's key, or operator: Exists for all taints");
  }
  if (is_exists && !toleration.value.empty()) {
    reader.Fail("value", Quoted(toleration.value) + " found, but operator Exists compares none");
  }
  if (toleration.seconds && toleration.effect != TaintEffect::kNoExecute) {
    reader.Fail("tolerationSeconds", "found without effect: NoExecute, expected both");
  }
}

std::vector<Toleration> ReadTolerations(ObjectReader& spec, Errors* errors) {
  std::vector<Toleration> tolerations;
  const std::vector<const Json*> items = ListUpTo(spec, "tolerations", kTolerationsMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ObjectReader reader(*items[i], spec.PathOf("tolerations", i), errors);
    Toleration toleration;
    toleration.key = ReadText(reader, "key");
    toleration.op = ReadEnum(reader, "operator", kTolerationOperatorNames).value_or(toleration.op);
    toleration.value = ReadText(reader, "value");
    toleration.effect = ReadEnum(reader, "effect", kTaintEffectNames);
    if (const std::optional<int64_t> seconds = reader.Int("tolerationSeconds")) {
      toleration.seconds = std::chrono::seconds(*seconds);
    }
    CheckLength(reader, "key", kLabelKeyMax);
    CheckLength(reader, "value", kTolerationValueMax);
    CheckToleration(reader, toleration);
    reader.Finish();
    tolerations.push_back(std::move(toleration));
  }
  return tolerations;
}

void ReadPodSpec(const Json& value, const std::string& path, PodTemplate* pod, Errors* errors) {
  ObjectReader reader(value, path, errors);
  ReadContainers(reader, pod, errors);
  RefuseOwnedFields(reader);
  if (const auto seconds = reader.Int("terminationGracePeriodSeconds", 0, kGraceSecondsMax)) {
    pod->termination_grace = std::chrono::seconds(*seconds);
  }
  pod->node_selector = ReadTextMap(reader, "nodeSelector", errors);
  pod->tolerations = ReadTolerations(reader, errors);
  PassPodFields(reader);
  reader.Finish();
}

}  // namespace

PodTemplate DecodePodTemplate(const Json& value,
                              const std::string& path,
                              std::vector<Error>* errors) {
  PodTemplate pod;
  pod.raw = value;
  ObjectReader reader(value, path, errors);
  if (const Json* metadata = reader.Find("metadata")) {
    ObjectReader fields(*metadata, reader.PathOf("metadata"), errors);
    ReadTextMap(fields, "labels", errors);
    ReadTextMap(fields, "annotations", errors);
    fields.Finish();
  }
  if (const Json* spec = reader.Require("spec", "a pod spec with containers")) {
    ReadPodSpec(*spec, reader.PathOf("spec"), &pod, errors);
  }
  reader.Finish();
  return pod;
}

}  // namespace lockstep::control
