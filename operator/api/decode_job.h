#pragma once

#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

struct DecodedJob {
  TrainingJob job;                   // defaults applied; complete only if `errors` is empty
  std::vector<Error> errors;         // every problem of the manifest, each with its field's path
  std::vector<Error> status_errors;  // the same of the status, where there is one
  bool is_newer = false;             // a newer version may read the manifest (MayBeNewer)

  bool ok() const { return errors.empty(); }
};

// Reads `metadata` of one of our kinds strictly. Problems are added to `errors`.
Metadata DecodeMetadata(const Json& value, std::vector<Error>* errors);

// Reads one TrainingJob strictly: unknown fields, wrong types, missing values, ranges, and the
// rules between fields (rules.h). A status, where there is one, is read too, leniently (status.h).
DecodedJob DecodeTrainingJob(const Json& document);

}  // namespace lockstep::control
