#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/dns_label.h"
#include "common/base/time.h"
#include "common/json/json.h"

namespace lockstep::control {

using Errors = std::vector<Error>;

// Field readers shared by the decoders of this folder, in the manner of ObjectReader's own.

// The text under `key`; empty when absent. A number or true/false there is a slip that YAML
// invites, so the message says how to quote it.
std::string ReadText(ObjectReader& reader, std::string_view key);

// A list of words such as a command line's; empty when absent, or when there are more than `max`
// (ListUpTo). A single string is answered with how to write it as a list.
std::vector<std::string> ReadWords(ObjectReader& reader,
                                   std::string_view key,
                                   std::size_t max,
                                   std::vector<Error>* errors);

// An object whose values are all text; empty when absent.
std::map<std::string, std::string> ReadTextMap(ObjectReader& reader,
                                               std::string_view key,
                                               std::vector<Error>* errors);

// As ObjectReader::List, but more than `max` elements are recorded, and none returned.
std::vector<const Json*> ListUpTo(ObjectReader& reader, std::string_view key, std::size_t max);

// How many characters the text has, by which schemas bound texts: the code points of its UTF-8.
std::size_t CharacterCount(std::string_view text);

// Records a text under `key` of more than `max` characters.
void CheckLength(ObjectReader& reader, std::string_view key, std::size_t max);

// Records an object under `key` of more than `max` members.
void CheckCount(ObjectReader& reader, std::string_view key, std::size_t max);

// "1001 entries found, expected at most 1000".
std::string TooMany(std::size_t count, std::string_view of_what, std::size_t max);

// Marks fields as known that are Kubernetes' own and pass through as written.
void PassThrough(ObjectReader& reader, std::initializer_list<std::string_view> keys);

// A moment such as 2026-11-21T10:22:03Z; null when absent, and what is none is recorded.
std::optional<WallTime> ReadTime(ObjectReader& reader, std::string_view key);

// A number of things: 0 when absent; a negative one is recorded.
int64_t ReadCount(ObjectReader& reader, std::string_view key);

// Leaves out what is null.
void SetTime(Json* object, const char* key, const std::optional<WallTime>& time);

// Sets a field of what is written. JSON has no infinities and no NaN, and the schema no null: such
// a number is left out.
void SetNumber(Json* object, const char* key, const std::optional<double>& number);

// Whether the field with the path `inner` is that of `outer`, or stands inside it.
bool IsWithin(std::string_view inner, std::string_view outer);

// Adds an error at a full field path.
void AddError(std::vector<Error>* errors, std::string field, std::string message);

}  // namespace lockstep::control
