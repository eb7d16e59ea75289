#include "operator/cli/schema/field_path.h"

#include <utility>

namespace lockstep::control {
namespace {

Error WrongPath(std::string_view text, const std::string& what) {
  return Error(ErrorCode::kInvalidArgument,
               "\"" + std::string(text) + "\" is not the path of a field: " + what +
                   "; expected a path such as spec.roles[0].replicas");
}

// Takes the letters up to the next dot or bracket off `rest`.
std::string TakeName(std::string_view* rest) {
  std::string name;
  while (!rest->empty() && rest->front() != '.' && rest->front() != '[') {
    if (rest->front() == '\\' && rest->size() > 1) {
      rest->remove_prefix(1);
    }
    name += rest->front();
    rest->remove_prefix(1);
  }
  return name;
}

}  // namespace

Result<FieldPath> ParseFieldPath(std::string_view text) {
  FieldPath path;
  std::string_view rest = text;
  while (true) {
    std::string name = TakeName(&rest);
    if (name.empty()) {
      return WrongPath(text, path.empty() ? "the path is empty" : "the name of a field is missing");
    }
    path.push_back({FieldStep::Kind::kField, std::move(name)});
    while (rest.starts_with('[')) {
      const std::size_t end = rest.find(']');
      if (end == std::string_view::npos || end == 1) {
        return WrongPath(text, "a bracket is empty or not closed");
      }
      path.push_back({FieldStep::Kind::kElement, std::string(rest.substr(1, end - 1))});
      rest.remove_prefix(end + 1);
    }
    if (rest.empty()) {
      return path;
    }
    if (!rest.starts_with('.')) {
      return WrongPath(text, "a dot is missing after a bracket");
    }
    rest.remove_prefix(1);
  }
}

std::string FormatFieldPath(const FieldPath& path) {
  std::string text;
  for (const FieldStep& step : path) {
    if (step.kind == FieldStep::Kind::kElement) {
      text += "[" + step.name + "]";
    } else {
      text += (text.empty() ? "" : ".") + step.name;
    }
  }
  return text;
}

}  // namespace lockstep::control
