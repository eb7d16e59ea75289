#include "operator/reconcile/build/expand_references.h"

#include <cstddef>

namespace lockstep::control {

Result<std::string> ExpandReferences(std::string_view text,
                                     const std::map<std::string, std::string>& variables) {
  std::string expanded;
  while (!text.empty()) {
    const std::size_t dollar = text.find('$');
    if (dollar == std::string_view::npos || dollar + 1 == text.size()) {
      break;
    }
    expanded += text.substr(0, dollar);
    const char next = text[dollar + 1];
    const std::size_t close = next == '(' ? text.find(')', dollar + 2) : std::string_view::npos;
    if (close == std::string_view::npos) {  // escaped, unfinished, or no reference at all
      expanded += next == '$' ? "$" : std::string{'$', next};
      text.remove_prefix(dollar + 2);
      continue;
    }
    const std::string name(text.substr(dollar + 2, close - dollar - 2));
    const auto found = variables.find(name);
    expanded += found == variables.end() ? "$(" + name + ")" : found->second;
    text.remove_prefix(close + 1);
    if (expanded.size() > kExpandedBytesMax) {
      break;
    }
  }
  expanded += text;
  if (expanded.size() > kExpandedBytesMax) {
    return Error(ErrorCode::kResourceExhausted,
                 "more than " + std::to_string(kExpandedBytesMax) +
                     " bytes after each $(NAME) is replaced, expected at most that many");
  }
  return expanded;
}

}  // namespace lockstep::control
