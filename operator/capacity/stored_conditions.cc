#include "operator/capacity/stored_conditions.h"

#include <algorithm>

#include "operator/api/fields/json_edit.h"

namespace lockstep::control {
namespace {

const Json* FindIn(const Json& conditions, std::string_view type) {
  if (!conditions.is_array()) {
    return nullptr;
  }
  const auto found = std::find_if(conditions.begin(), conditions.end(), [&](const Json& one) {
    const Json* const name = FindField(one, "type");
    return name != nullptr && name->is_string() && name->get_ref<const std::string&>() == type;
  });
  return found == conditions.end() ? nullptr : &*found;
}

}  // namespace

bool IsTrueIn(const Json& conditions, std::string_view type) {
  return TextIn(conditions, type, "status") == "True";
}

std::string TextIn(const Json& conditions, std::string_view type, const char* field) {
  const Json* const condition = FindIn(conditions, type);
  const Json* const text = condition == nullptr ? nullptr : FindField(*condition, field);
  return text != nullptr && text->is_string() ? text->get<std::string>() : std::string();
}

}  // namespace lockstep::control
