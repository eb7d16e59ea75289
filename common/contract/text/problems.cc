#include "common/contract/text/problems.h"

#include <algorithm>
#include <cstddef>

#include "common/base/check.h"
#include "common/json/json.h"

namespace lockstep {

Error Problem(std::string field, std::string_view found, std::string_view expected) {
  return Error(ErrorCode::kInvalidArgument,
               std::string(found) + " found, expected " + std::string(expected))
      .WithField(std::move(field));
}

std::string Quoted(std::string_view text) {
  return DescribeJson(Json(std::string(text)));
}

bool MayBeNewer(const std::vector<Error>& problems) {
  bool has_unknown = false;
  for (const Error& problem : problems) {
    if (problem.code() != ErrorCode::kUnknownField && problem.code() != ErrorCode::kMissingField) {
      return false;
    }
    has_unknown = has_unknown || problem.code() == ErrorCode::kUnknownField;
  }
  return has_unknown;
}

Error CombineProblems(const std::vector<Error>& problems) {
  constexpr std::size_t kShownMax = 8;  // choice: a screenful; the rest is counted
  LOCKSTEP_CHECK(!problems.empty(), "there is no problem to report");
  std::string message = problems.front().message();
  for (std::size_t i = 1; i < std::min(problems.size(), kShownMax); ++i) {
    message += "; " + problems[i].ToString();
  }
  if (problems.size() > kShownMax) {
    message += "; and " + std::to_string(problems.size() - kShownMax) + " more";
  }
  const ErrorCode code = problems.front().code();
  const bool is_of_field = code == ErrorCode::kUnknownField || code == ErrorCode::kMissingField;
  return Error(is_of_field ? ErrorCode::kInvalidArgument : code, std::move(message))
      .WithField(problems.front().field());
}

}  // namespace lockstep
