#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"
#include "common/json/json.h"

namespace lockstep::control {

// Field readers shared by the decoders of this folder, in the manner of ObjectReader's own.

// The text under `key`; empty when absent. A number or true/false there is a slip that YAML
// invites, so the message says how to quote it.
std::string ReadText(ObjectReader& reader, std::string_view key);

// A list of words such as a command line's; empty when absent. A single string is answered with how
// to write it as a list.
std::vector<std::string> ReadWords(ObjectReader& reader,
                                   std::string_view key,
                                   std::vector<Error>* errors);

// An object whose values are all text; empty when absent.
std::map<std::string, std::string> ReadTextMap(ObjectReader& reader,
                                               std::string_view key,
                                               std::vector<Error>* errors);

// A moment as Kubernetes writes it; null when absent or wrong (wrong is recorded).
std::optional<WallTime> ReadTime(ObjectReader& reader, std::string_view key);

// As ObjectReader::List, but more than `max` elements are recorded, and none returned.
std::vector<const Json*> ListUpTo(ObjectReader& reader, std::string_view key, std::size_t max);

// Records a text under `key` that is longer than `max` bytes.
void CheckLength(ObjectReader& reader, std::string_view key, std::size_t max);

// "1001 entries found, expected at most 1000".
std::string TooMany(std::size_t count, std::string_view of_what, std::size_t max);

// A label's key: a prefix that is a DNS name, '/', and a name. Source: Kubernetes' rule for labels.
inline constexpr std::size_t kLabelKeyMax = 253 + 1 + 63;

// Marks fields as known that are Kubernetes' own and pass through as written.
void PassThrough(ObjectReader& reader, std::initializer_list<std::string_view> keys);

// Whether `text` is a DNS label by RFC 1035: lower-case letters, digits and '-', a letter first, no
// '-' last, 1 to 63 characters.
bool IsDnsLabel(std::string_view text);

// What IsDnsLabel asks for, in words.
inline constexpr std::string_view kDnsLabelWords =
    "a DNS label: lower-case letters, digits and '-', a letter first, no '-' last, at most 63 "
    "characters";

// Adds an error at a full field path.
void AddError(std::vector<Error>* errors, std::string field, std::string message);

}  // namespace lockstep::control
