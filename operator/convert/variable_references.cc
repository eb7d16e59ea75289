#include "operator/convert/variable_references.h"

#include <cstddef>

namespace lockstep::control {

InlinedValue InlineReferences(std::string_view value,
                              const std::map<std::string, std::string>& known) {
  InlinedValue inlined;
  while (!value.empty()) {
    const std::size_t dollar = value.find('$');
    inlined.text += value.substr(0, dollar);
    if (dollar == std::string_view::npos) {
      break;
    }
    value.remove_prefix(dollar + 1);
    const std::size_t close = value.starts_with('(') ? value.find(')') : std::string_view::npos;
    if (close == std::string_view::npos) {
      inlined.text += "$$";
      value.remove_prefix(value.starts_with('$') ? 1 : 0);
      continue;
    }
    const std::string name(value.substr(1, close - 1));
    const auto found = known.find(name);
    const bool has_room =
        found != known.end() && inlined.text.size() + found->second.size() <= kInlinedBytesMax;
    if (has_room) {
      inlined.text += found->second;
      inlined.has_changed = true;
    } else {
      inlined.unknown.push_back("$(" + name + ")");
      inlined.text += inlined.unknown.back();
    }
    value.remove_prefix(close + 1);
  }
  return inlined;
}

}  // namespace lockstep::control
