#include "operator/api/status/queue_position.h"

#include "common/base/rfc3339.h"
#include "operator/api/fields/fields.h"

namespace lockstep::control {

std::optional<QueuePosition> DecodeQueuePosition(const Json* value,
                                                 const std::string& path,
                                                 std::vector<Error>* errors) {
  if (value == nullptr) {
    return std::nullopt;
  }
  ObjectReader reader(*value, path, errors);
  QueuePosition queue;
  queue.name = reader.String("name").value_or("");
  queue.position = reader.Int("position", 1);
  queue.estimated_start = ReadTime(reader, "estimatedStart");
  return queue;
}

void SetQueuePosition(const std::optional<QueuePosition>& queue, Json* status) {
  if (!queue.has_value()) {
    return;
  }
  Json& value = (*status)["queue"];
  value["name"] = queue->name;
  if (queue->position.has_value()) {
    value["position"] = *queue->position;
  }
  if (queue->estimated_start.has_value()) {
    value["estimatedStart"] = FormatRfc3339(*queue->estimated_start);
  }
}

}  // namespace lockstep::control
