#include "common/contract/status/checkpoint_status.h"

#include "common/contract/text/text.h"

namespace lockstep {

Json EncodeCheckpointStatus(const CheckpointStatus& status, std::size_t error_bytes_max) {
  return {{"written", status.written},
          {"failed", status.failed},
          {"skipped", status.skipped},
          {"lastError", CutText(status.last_error, error_bytes_max)},
          {"restoredStep",
           status.restored_step.has_value() ? Json(status.restored_step->value()) : Json(nullptr)}};
}

CheckpointStatus DecodeCheckpointStatus(const Json& value,
                                        const std::string& path,
                                        std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  CheckpointStatus status;
  status.written = reader.RequireInt("written", 0);
  status.failed = reader.RequireInt("failed", 0);
  status.skipped = reader.RequireInt("skipped", 0);
  reader.Require("lastError", "a string");
  status.last_error = reader.String("lastError").value_or("");
  if (const std::optional<int64_t> step = reader.Int("restoredStep", 0)) {
    status.restored_step = Step(*step);
  }
  return status;
}

}  // namespace lockstep
