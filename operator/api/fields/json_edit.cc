#include "operator/api/fields/json_edit.h"

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

void MakeRoom(Json* object, std::size_t keys) {
  if (!object->is_object()) {
    return;
  }
  auto& fields = object->get_ref<Json::object_t&>();
  Json::object_t with_room;
  with_room.reserve(fields.size() + keys);
  for (auto& [key, field] : fields) {
    with_room.emplace_back(key, std::move(field));
  }
  fields.swap(with_room);
}

Json CopyWithRoom(const Json& value, std::size_t keys) {
  Json copy = value;
  MakeRoom(&copy, keys);
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
