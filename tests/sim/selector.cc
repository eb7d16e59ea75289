#include "tests/sim/selector.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::control::sim {
namespace {

std::string Trimmed(std::string_view text) {
  while (text.starts_with(' ')) {
    text.remove_prefix(1);
  }
  while (text.ends_with(' ')) {
    text.remove_suffix(1);
  }
  return std::string(text);
}

// Commas inside brackets do not separate.
std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : (c == ')' ? -1 : 0);
    if (c == ',' && depth == 0) {
      parts.push_back(Trimmed(std::exchange(part, "")));
    } else {
      part += c;
    }
  }
  parts.push_back(Trimmed(part));
  return parts;
}

Result<Requirement> ParseRequirement(const std::string& text) {
  Requirement requirement;
  if (const std::size_t open = text.find('('); open != std::string::npos) {
    std::string head = Trimmed(std::string_view(text).substr(0, open));
    for (const char* word : {" notin", " in"}) {
      if (head.ends_with(word) && text.ends_with(')')) {
        requirement.is_negated = std::string_view(word) == " notin";
        head.resize(head.size() - std::string_view(word).size());
        requirement.key = Trimmed(head);
        requirement.values =
            SplitAtCommas(std::string_view(text).substr(open + 1, text.size() - open - 2));
        return requirement;
      }
    }
    return Error(ErrorCode::kInvalidArgument, "unable to parse requirement: " + text);
  }
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    requirement.is_presence = true;
    requirement.is_negated = text.starts_with('!');
    requirement.key = Trimmed(std::string_view(text).substr(requirement.is_negated ? 1 : 0));
    return requirement;
  }
  requirement.is_negated = equals > 0 && text[equals - 1] == '!';
  requirement.key =
      Trimmed(std::string_view(text).substr(0, requirement.is_negated ? equals - 1 : equals));
  const bool is_double = text.substr(equals).starts_with("==");
  requirement.values = {Trimmed(std::string_view(text).substr(equals + (is_double ? 2 : 1)))};
  return requirement;
}

bool Fulfils(const std::optional<std::string>& value, const Requirement& requirement) {
  const bool holds = requirement.is_presence
                         ? value.has_value()
                         : value.has_value() && std::find(requirement.values.begin(),
                                                          requirement.values.end(),
                                                          *value) != requirement.values.end();
  return holds != requirement.is_negated;
}

}  // namespace

Result<Selector> ParseSelector(std::string_view text) {
  Selector selector;
  if (Trimmed(text).empty()) {
    return selector;
  }
  for (const std::string& part : SplitAtCommas(text)) {
    LOCKSTEP_ASSIGN_OR_RETURN(Requirement requirement, ParseRequirement(part));
    if (requirement.key.empty()) {
      return Error(ErrorCode::kInvalidArgument, "unable to parse requirement: " + part);
    }
    selector.push_back(std::move(requirement));
  }
  return selector;
}

bool MatchesLabels(const Json& object, const Selector& selector) {
  const auto metadata = object.find("metadata");
  const Json none = Json::object();
  const Json* labels = &none;
  if (metadata != object.end()) {
    if (const auto found = metadata->find("labels");
        found != metadata->end() && found->is_object()) {
      labels = &*found;
    }
  }
  return std::all_of(selector.begin(), selector.end(), [&](const Requirement& requirement) {
    const auto label = labels->find(requirement.key);
    std::optional<std::string> value;
    if (label != labels->end() && label->is_string()) {
      value = label->get<std::string>();
    }
    return Fulfils(value, requirement);
  });
}

bool MatchesFields(const Json& object, const Selector& selector) {
  return std::all_of(selector.begin(), selector.end(), [&](const Requirement& requirement) {
    return Fulfils(TextAt(object, requirement.key), requirement);
  });
}

std::string TextAt(const Json& object, std::string_view path) {
  const Json* at = &object;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    if (!at->is_object()) {
      return "";
    }
    const auto found = at->find(key);
    if (found == at->end()) {
      return "";
    }
    at = &*found;
  }
  return at->is_string() ? at->get<std::string>() : "";
}

}  // namespace lockstep::control::sim
