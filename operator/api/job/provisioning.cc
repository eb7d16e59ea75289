#include "operator/api/job/provisioning.h"

#include "common/base/rfc3339.h"
#include "operator/api/fields/fields.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {
namespace {

OpenAsk DecodeOpenAsk(ObjectReader& reader) {
  OpenAsk open;
  open.ask_class =
      RequireEnum(reader, "className", kProvisioningClassNames).value_or(open.ask_class);
  open.revision = reader.String("revision").value_or("");
  open.since = ReadTime(reader, "since").value_or(WallTime{});
  open.has_capacity = reader.Bool("hasCapacity").value_or(false);
  open.answered_at = ReadTime(reader, "answeredAt");
  return open;
}

}  // namespace

std::optional<CapacityAsk> DecodeCapacityAsk(const Json* value,
                                             const std::string& path,
                                             std::vector<Error>* errors) {
  if (value == nullptr) {
    return std::nullopt;
  }
  ObjectReader reader(*value, path, errors);
  CapacityAsk ask;
  ask.count = reader.Int("count", 0).value_or(0);
  if (const Json* const open = reader.Find("open")) {
    ObjectReader fields(*open, reader.PathOf("open"), errors);
    ask.open = DecodeOpenAsk(fields);
  }
  ask.failures = reader.Int("failures", 0).value_or(0);
  ask.retry_at = ReadTime(reader, "retryAt");
  ask.failure = reader.String("failure").value_or("");
  return ask;
}

void SetCapacityAsk(const std::optional<CapacityAsk>& ask, Json* status) {
  if (!ask.has_value()) {
    return;
  }
  Json& value = (*status)["provisioning"];
  value["count"] = ask->count;
  if (ask->open.has_value()) {
    value["open"] = {{"className", NameOf(kProvisioningClassNames, ask->open->ask_class)},
                     {"revision", ask->open->revision},
                     {"since", FormatRfc3339(ask->open->since)},
                     {"hasCapacity", ask->open->has_capacity}};
    if (ask->open->answered_at.has_value()) {
      value["open"]["answeredAt"] = FormatRfc3339(*ask->open->answered_at);
    }
  }
  if (ask->failures > 0) {
    value["failures"] = ask->failures;
  }
  if (ask->retry_at.has_value()) {
    value["retryAt"] = FormatRfc3339(*ask->retry_at);
  }
  if (!ask->failure.empty()) {
    value["failure"] = ask->failure;
  }
}

std::string CapacityRequestName(const Metadata& job, int64_t number) {
  return job.name + "-" + job.uid.substr(0, 8) + "-" + std::to_string(number);
}

}  // namespace lockstep::control
