#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/strong_id.h"
#include "common/json/json.h"

namespace lockstep {

// What became of the checkpoints since this process started. Counted by the rank that writes them;
// zero on all others. In the status document while the process lives, in the termination message
// after it.
struct CheckpointStatus {
  int64_t written = 0;
  int64_t failed = 0;                 // training went on without them
  int64_t skipped = 0;                // due while an earlier one was still being written
  std::string last_error;             // of the newest that failed; empty again when one is written
  std::optional<Step> restored_step;  // of the checkpoint that training started from

  friend bool operator==(const CheckpointStatus&, const CheckpointStatus&) = default;
};

// The object of both documents, its error cut to `error_bytes_max`, and back. Unknown
// fields are ignored, as in the documents; problems go to `errors`, with their path.
Json EncodeCheckpointStatus(const CheckpointStatus& status, std::size_t error_bytes_max);
CheckpointStatus DecodeCheckpointStatus(const Json& value,
                                        const std::string& path,
                                        std::vector<Error>* errors);

}  // namespace lockstep
