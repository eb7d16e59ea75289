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

struct StatusDocument;

// How far one process is with a model that it trains for itself.
struct ModelStatus {
  int rank = 0;
  Incarnation incarnation;  // of the process: see IncarnationOfProcess
  Step first_step;          // of the state that it began with
  Step step;
  std::optional<Step> last_checkpoint_step;  // of those that it has written
  std::optional<int64_t> steps_total = {};   // that it is to come to; absent until known

  friend bool operator==(const ModelStatus&, const ModelStatus&) = default;
};

// Whether the process holds a state of the model: one that leaves or fails may do so before it has
// one; one that has come to its end stands at the last step.
bool HoldsState(const StatusDocument& document);

// Whether the process has a model of its own that stands at a step: one that waits for the others,
// or ends, has as well.
bool HoldsModel(const StatusDocument& document);

// Of the process that `document` is of, by its first meeting: later ones change nothing of a model
// of its own. Where that is forgotten it began with what it read back, as from peers comes nothing.
ModelStatus ModelStatusOf(const StatusDocument& document);

// A list of the status document, and back. Unknown fields are ignored; problems go to `errors`,
// with their path.
Json EncodeModelStatus(const ModelStatus& model);
ModelStatus DecodeModelStatus(const Json& value,
                              const std::string& path,
                              std::vector<Error>* errors);

}  // namespace lockstep
