#include "operator/reconcile/build/json_edit.h"

#include <utility>

namespace lockstep::control {

const Json* FindField(const Json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& ObjectOr(const Json& object, const char* key) {
  static const Json* const kNone = new Json(Json::object());
  const Json* const value = FindField(object, key);
  return value != nullptr && value->is_object() ? *value : *kNone;
}

Json CopyWithRoom(const Json& value, std::size_t keys) {
  if (!value.is_object()) {
    return value;
  }
  Json copy = Json::object();
  auto& fields = copy.get_ref<Json::object_t&>();
  fields.reserve(value.size() + keys);
  for (const auto& [key, field] : value.get_ref<const Json::object_t&>()) {
    fields.emplace_back(key, field);
  }
  return copy;
}

Json* ObjectAt(Json* parent, const char* key) {
  if (parent == nullptr) {
    return nullptr;
  }
  SetDefault(parent, key, Json::object());
  Json& value = (*parent)[key];
  return value.is_object() ? &value : nullptr;
}

Json* ListAt(Json* parent, const char* key) {
  if (parent == nullptr) {
    return nullptr;
  }
  SetDefault(parent, key, Json::array());
  Json& value = (*parent)[key];
  return value.is_array() ? &value : nullptr;
}

void SetDefault(Json* object, const char* key, Json value) {
  if (FindField(*object, key) == nullptr) {
    (*object)[key] = std::move(value);
  }
}

}  // namespace lockstep::control
