#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Jobs by their names: two of one name in one namespace would overwrite each other.
class JobsByName {
 public:
  // The line of the first job of the same name, as Add was told; null: `job` is the first, or the
  // API server makes its name. `document`: what it was decoded from.
  std::optional<int> Add(const TrainingJob& job, const Json& document, int line);

 private:
  std::map<std::pair<std::string, std::string>, int> first_lines_;  // by namespace and name
};

}  // namespace lockstep::control
