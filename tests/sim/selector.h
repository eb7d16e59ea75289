#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"

namespace lockstep::control::sim {

// One requirement on a text that may be absent: KEY, !KEY, KEY=VALUE, KEY!=VALUE, KEY in (A,B).
struct Requirement {
  std::string key;
  bool is_negated = false;
  bool is_presence = false;         // KEY or !KEY
  std::vector<std::string> values;  // any of them

  friend bool operator==(const Requirement&, const Requirement&) = default;
};

// A label or field selector, as the API server reads it: all requirements hold.
using Selector = std::vector<Requirement>;

// Errors: kInvalidArgument.
Result<Selector> ParseSelector(std::string_view text);

// Whether the object's labels fulfil the selector.
bool MatchesLabels(const Json& object, const Selector& selector);

// Whether the fields at dotted paths ("spec.nodeName") do; an absent field is an empty text.
bool MatchesFields(const Json& object, const Selector& selector);

// The text at a dotted path; empty when absent.
std::string TextAt(const Json& object, std::string_view path);

}  // namespace lockstep::control::sim
