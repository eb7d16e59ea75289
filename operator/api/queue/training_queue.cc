#include "operator/api/queue/training_queue.h"

#include <cmath>
#include <string_view>

#include "common/base/dns_label.h"
#include "common/base/quantity.h"
#include "common/base/rfc3339.h"
#include "common/contract/text/problems.h"
#include "common/json/enum_names.h"
#include "operator/api/fields/bounds.h"
#include "operator/api/fields/fields.h"
#include "operator/api/fields/labels.h"
#include "operator/api/queue/queue_usage_text.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

constexpr EnumNames<QueueOrder, 3> kQueueOrderNames = {{
    {QueueOrder::kFifo, "FIFO"},
    {QueueOrder::kPriority, "Priority"},
    {QueueOrder::kFairShare, "FairShare"},
}};

// What the two fields of spec.preemption say.
constexpr EnumNames<bool, 2> kWithinQueueNames = {{{false, "Never"}, {true, "LowerPriority"}}};
constexpr EnumNames<bool, 2> kAcrossQueuesNames = {{{false, "Never"}, {true, "Borrowed"}}};

constexpr std::string_view kWholeWords = "a whole number, such as 2: a device cannot be divided";

// Whether the text could mean a part of something that is given out whole, which is all but cores
// and bytes. The definition asks it in the same way, of which it knows no better one.
bool MayBePart(const std::string& resource, const std::string& text) {
  return resource != kCpuResource && !IsCountedInBytes(resource) &&
         text.find_first_of(".-mun") != std::string::npos;
}

constexpr std::string_view kHugePages = "hugepages-";

// What quotas of Kubernetes put before the name of a resource with a domain; together with it a
// domain is as long as the rule for DNS names lets it be.
constexpr std::string_view kOfQuotas = "requests.";
constexpr std::size_t kDomainMax = kLabelPrefixMax - kOfQuotas.size();

constexpr std::string_view kResourceWords =
    "a resource that containers can request: cpu, memory, ephemeral-storage, hugepages-2Mi, or a "
    "name with a domain such as nvidia.com/gpu";

// Whether `text` is the size of pages as nodes write it: 2Mi.
bool IsPageSize(std::string_view text) {
  constexpr std::size_t kFiguresMax = 4;
  const std::size_t figures = text.find_first_not_of("0123456789");
  if (figures == 0 || figures > kFiguresMax || text.front() == '0') {
    return false;
  }
  const std::string_view unit = text.substr(figures);
  return unit == "Ki" || unit == "Mi" || unit == "Gi";
}

// Whether a container can ask for a resource of that name. A limit of what none can, as only quotas
// know it ("pods", "requests.nvidia.com/gpu") or nobody ("gpu"), would bind nobody.
// Source: Kubernetes' validateContainerResourceName and IsExtendedResourceName. Some schedulers
// have names of kubernetes.io, which it takes, too.
bool CanBeAskedFor(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) {
    return name == kCpuResource || name == kMemoryResource || name == kEphemeralStorageResource ||
           (name.starts_with(kHugePages) && IsPageSize(name.substr(kHugePages.size())));
  }
  return IsLabelKey(name) && slash <= kDomainMax && !name.starts_with(kOfQuotas);
}

// "nvidia.com/gpu" for "requests.nvidia.com/gpu"; empty where the rest is no better.
std::string SuggestionFor(std::string_view name) {
  const std::string rest(name.starts_with(kOfQuotas) ? name.substr(kOfQuotas.size()) : "");
  return CanBeAskedFor(rest) ? "; did you mean " + Quoted(rest) + "?" : "";
}

std::string ReadParent(ObjectReader& reader) {
  std::string parent = ReadText(reader, "parent");
  if (!parent.empty() && !IsDnsLabel(parent)) {
    reader.Fail(
        "parent",
        Quoted(parent) + " found, expected the name of a queue, " + std::string(kDnsLabelWords));
  }
  return parent;
}

std::set<std::string> ReadNamespaces(ObjectReader& reader, std::vector<Error>* errors) {
  std::set<std::string> namespaces;
  const std::vector<std::string> words = ReadWords(reader, "namespaces", kNamespacesMax, errors);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_name = IsHostLabel(words[i]);
    if (!is_name || !namespaces.insert(words[i]).second) {
      AddError(errors,
               reader.PathOf("namespaces", i),
               Quoted(words[i]) + " found, expected " +
                   (is_name ? "each namespace once"
                            : "the name of a namespace: lower-case letters, digits and '-', not "
                              "starting or ending with '-', at most 63 characters"));
    }
  }
  return namespaces;
}

// What may not go for another yet is not stopped either.
void ReadRunTimes(ObjectReader& reader, TrainingQueue* queue) {
  const int64_t least = reader.Int("minRuntimeSeconds", 0, kMinRuntimeMax).value_or(0);
  queue->min_runtime = std::chrono::seconds(least);
  const auto most = reader.Int("maxRuntimeSeconds", 1, kSecondsMax);
  if (most.has_value() && *most < least) {
    reader.Fail("maxRuntimeSeconds",
                std::to_string(*most) + " found, expected at least " + std::to_string(least) +
                    ", the queue's minRuntimeSeconds");
  } else if (most.has_value()) {
    queue->max_runtime = std::chrono::seconds(*most);
  }
}

// A whole number that is written as 1e3 is 1000, as kubectl sends it. Empty: it
// is a number that is not whole, which the server takes in quotes only.
std::string WrittenQuantity(const Json& value) {
  constexpr double kTooLarge = 0x1p63;
  if (value.is_number_float()) {
    const double number = value.get<double>();
    const bool is_whole = std::abs(number) < kTooLarge && std::trunc(number) == number;
    return is_whole ? std::to_string(static_cast<int64_t>(number)) : "";
  }
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

// Errors: what was expected.
Result<int64_t> ReadAmount(const std::string& resource, const std::string& text) {
  const QuantityUnit unit =
      resource == kCpuResource ? QuantityUnit::kThousandths : QuantityUnit::kOnes;
  Result<int64_t> amount = ReadQuantityText(text, unit);
  if (amount.ok() && MayBePart(resource, text)) {
    return Error(ErrorCode::kInvalidArgument, std::string(kWholeWords));
  }
  return amount;
}

QueueAmounts ReadQueueAmounts(ObjectReader& reader,
                              std::string_view key,
                              std::vector<Error>* errors) {
  QueueAmounts amounts;
  const Json* const object = reader.Find(key);
  if (object == nullptr) {
    return amounts;
  }
  if (!object->is_object()) {
    reader.Fail(key,
                DescribeJson(*object) +
                    " found, expected amounts by resource, such as {nvidia.com/gpu: 16}");
    return amounts;
  }
  if (object->size() > kResourceNamesMax) {
    reader.Fail(key, TooMany(object->size(), "entries", kResourceNamesMax));
    return amounts;
  }
  for (const auto& [name, value] : object->items()) {
    if (value.is_null()) {
      continue;  // the API server drops it
    }
    const std::string field = reader.PathOf(key) + (name.empty() ? "" : "." + name);
    if (!CanBeAskedFor(name)) {
      AddError(
          errors,
          field,
          Quoted(name) + " found, expected " + std::string(kResourceWords) + SuggestionFor(name));
      continue;
    }
    const std::string text = WrittenQuantity(value);
    if (text.empty() && value.is_number()) {
      AddError(errors,
               field,
               DumpJson(value) + " found, expected it in quotes: \"" + DumpJson(value) + "\"");
      continue;
    }
    const Result<int64_t> amount = ReadAmount(name, text);
    if (amount.ok()) {
      amounts[name] = *amount;
    } else {
      AddError(errors, field, Quoted(text) + " found, expected " + amount.error().message());
    }
  }
  return amounts;
}

}  // namespace

DecodedQueue DecodeTrainingQueue(const Json& document) {
  DecodedQueue decoded;
  TrainingQueue& queue = decoded.queue;
  std::vector<Error> ignored;
  ObjectReader object(document, "", &ignored);
  if (const Json* metadata = object.Find("metadata")) {
    ObjectReader reader(*metadata, "metadata", &ignored);
    queue.name = reader.String("name").value_or("");
  }
  const Json* const spec = object.Find("spec");
  if (spec == nullptr) {
    return decoded;
  }
  ObjectReader reader(*spec, "spec", &decoded.errors);
  queue.parent = ReadParent(reader);
  queue.nominal = ReadQueueAmounts(reader, "nominal", &decoded.errors);
  queue.borrowing_limit = ReadQueueAmounts(reader, "borrowingLimit", &decoded.errors);
  queue.lending_limit = ReadQueueAmounts(reader, "lendingLimit", &decoded.errors);
  queue.weight = reader.Int("weight", 1, kWeightMax).value_or(1);
  queue.order = ReadEnum(reader, "ordering", kQueueOrderNames).value_or(queue.order);
  if (const Json* preemption = reader.Find("preemption")) {
    ObjectReader fields(*preemption, "spec.preemption", &decoded.errors);
    queue.preempts_lower_priority =
        ReadEnum(fields, "withinQueue", kWithinQueueNames).value_or(false);
    queue.reclaims = ReadEnum(fields, "acrossQueues", kAcrossQueuesNames).value_or(false);
    fields.Finish();
  }
  ReadRunTimes(reader, &queue);
  queue.namespaces = ReadNamespaces(reader, &decoded.errors);
  reader.Finish();
  return decoded;
}

namespace {

Json EncodeAmounts(const QueueAmounts& amounts) {
  Json object = Json::object();
  for (const auto& [name, amount] : amounts) {
    object[name] = QuantityText({name, amount});
  }
  return object;
}

// Since when the condition is as it is now.
std::string SinceOf(const Json& before, std::string_view is_true, WallTime now) {
  std::vector<Error> ignored;
  ObjectReader reader(before, "", &ignored);
  for (const Json* const one : reader.List("conditions")) {
    ObjectReader condition(*one, "", &ignored);
    const std::string since = condition.String("lastTransitionTime").value_or("");
    if (condition.String("status").value_or("") == is_true && !since.empty()) {
      return since;
    }
  }
  return FormatRfc3339(now);
}

}  // namespace

Json EncodeQueueStatus(const QueueStatus& status, const Json& before, WallTime now) {
  const char* const is_true = status.is_ready ? "True" : "False";
  Json condition = {{"type", "Ready"},
                    {"status", is_true},
                    {"reason", status.reason},
                    {"message", status.message},
                    {"lastTransitionTime", SinceOf(before, is_true, now)}};
  return {{"conditions", Json::array({std::move(condition)})},
          {"nominal", EncodeAmounts(status.nominal)},
          {"used", EncodeAmounts(status.used)},
          {"borrowed", EncodeAmounts(status.borrowed)},
          {"claimed", EncodeAmounts(status.claimed)},
          {"waiting", status.waiting},
          {"usage", UsageText(status)}};
}

}  // namespace lockstep::control
