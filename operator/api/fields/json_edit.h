#pragma once

#include <cstddef>

#include "common/json/json.h"

namespace lockstep::control {

// Reading and changing a user's template, of which nobody has checked the types: a value of a wrong
// type is neither believed nor overwritten, so that the API server can say what is wrong with it.
// Adding a key to an object may move all that is in it, value by value and copied whole: pointers
// into it are over then, and what gets many keys is made with room for them.

// The value of `key`; null when absent, null, or when `object` is no object.
const Json* FindField(const Json& object, const char* key);

// The object at `key`, as long as `object` stays as it is; an empty one when there is none.
const Json& ObjectOr(const Json& object, const char* key);

// Makes room for so many keys more in an object; what is in it is moved, not copied.
void MakeRoom(Json* object, std::size_t keys);

// The same value; an object has room for so many keys more.
Json CopyWithRoom(const Json& value, std::size_t keys);

// The object at `key`, made when absent or null; null when something else is there, or when
// `parent` is null.
Json* ObjectAt(Json* parent, const char* key);

// The same for a list.
Json* ListAt(Json* parent, const char* key);

// Sets `key` unless it is there with a value.
void SetDefault(Json* object, const char* key, Json value);

}  // namespace lockstep::control
