#include "operator/api/job/variable_references.h"

#include <optional>
#include <utility>

namespace lockstep::control {
namespace {

// Letters, and the reference behind them.
struct Part {
  std::string letters;
  std::optional<std::string> name;  // absent: the text ends
};

std::vector<Part> PartsOf(std::string_view text) {
  std::vector<Part> parts(1);
  while (!text.empty()) {
    const std::size_t dollar = text.find('$');
    parts.back().letters += text.substr(0, dollar);
    if (dollar == std::string_view::npos) {
      break;
    }
    text.remove_prefix(dollar + 1);
    const std::size_t close = text.starts_with('(') ? text.find(')') : std::string_view::npos;
    if (close == std::string_view::npos) {  // escaped, unfinished, or no reference at all
      parts.back().letters += '$';
      text.remove_prefix(text.starts_with('$') ? 1 : 0);
      continue;
    }
    parts.back().name = text.substr(1, close - 1);
    parts.emplace_back();
    text.remove_prefix(close + 1);
  }
  return parts;
}

}  // namespace

Result<std::string> ExpandReferences(std::string_view text,
                                     const std::map<std::string, std::string>& variables) {
  std::string expanded;
  for (const auto& [letters, name] : PartsOf(text)) {
    expanded += letters;
    if (name.has_value()) {
      const auto found = variables.find(*name);
      expanded += found == variables.end() ? "$(" + *name + ")" : found->second;
    }
    if (expanded.size() > kExpandedBytesMax) {
      return Error(ErrorCode::kResourceExhausted,
                   "longer than " + std::to_string(kExpandedBytesMax) +
                       " bytes, the limit, after each $(NAME) is replaced");
    }
  }
  return expanded;
}

InlinedText InlineReferences(std::string_view text,
                             const std::map<std::string, std::string>& known) {
  InlinedText inlined;
  for (const auto& [letters, name] : PartsOf(text)) {
    for (const char letter : letters) {
      inlined.text += letter == '$' ? "$$" : std::string(1, letter);
    }
    const auto found = name.has_value() ? known.find(*name) : known.end();
    if (found != known.end() && inlined.text.size() + found->second.size() <= kExpandedBytesMax) {
      inlined.text += found->second;
      inlined.has_changed = true;
    } else if (name.has_value()) {
      inlined.text += "$(" + *name + ")";
      inlined.unknown.push_back(*name);
    }
  }
  return inlined;
}

}  // namespace lockstep::control
