#include "operator/api/job/jobs_by_name.h"

namespace lockstep::control {

std::optional<int> JobsByName::Add(const TrainingJob& job, const Json& document, int line) {
  const Json metadata = document.is_object() ? document.value("metadata", Json()) : Json();
  const bool is_generated = !metadata.is_object() || !metadata.contains("name");
  if (is_generated || job.metadata.name.empty()) {
    return std::nullopt;
  }
  const auto [first, is_new] =
      first_lines_.try_emplace({job.metadata.namespace_name, job.metadata.name}, line);
  return is_new ? std::nullopt : std::optional(first->second);
}

}  // namespace lockstep::control
