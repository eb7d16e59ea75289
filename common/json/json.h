#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/result.h"

// One unit generates its code for all.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace lockstep {

// A JSON value; objects keep the order in which keys were written. Source: nlohmann/json.
// Access with at()/operator[] only where the shape is certain; bytes from outside go through
// ParseJson and ObjectReader, which never throw.
using Json = nlohmann::ordered_json;

// Nesting above this is refused: deeper documents are attacks, not manifests.
inline constexpr int kJsonDepthMax = 64;

// Keys in one object above this are refused: keeping their order makes reading quadratic in them.
// Choice: about a second of reading.
inline constexpr std::size_t kJsonKeysMax = 16384;

// Parses one JSON document. Errors: kInvalidArgument with line and column, also for duplicate keys,
// more than `keys_max` keys in one object, trailing bytes and nesting above kJsonDepthMax.
Result<Json> ParseJson(std::string_view text, std::size_t keys_max = kJsonKeysMax);

// Compact text; invalid UTF-8 is replaced, so this never fails.
std::string DumpJson(const Json& value);

// The same with two spaces of indentation.
std::string DumpJsonPretty(const Json& value);

// `number`; null where there is none, or where it is infinite or no number, as JSON writes neither.
Json FiniteOrNull(const std::optional<double>& number);

// "a string", "a list", "the number 3": how a value is named in messages, cut to one short line.
std::string DescribeJson(const Json& value);

// The candidate nearest to `word`, when it is near enough to be a slip of the pen; else empty.
// Case and '-'/'_' differences are nearest of all.
std::string_view NearestWord(std::string_view word,
                             const std::vector<std::string_view>& candidates);

// Reads one JSON object field by field, and records every problem with the field's path, the value
// found and what was expected, so that all errors of a document come at once.
//
// Each reader method marks its key as known. Finish() then reports the keys nobody asked for
// (strict) or stays silent (lenient, for foreign objects). Lives on the stack; `value` and `errors`
// outlive it.
class ObjectReader {
 public:
  // `path` is where `value` stands in the document: "spec.roles[0]"; empty for the root. If `value`
  // is not an object an error is recorded and every method answers as for an empty object,
  // silently.
  ObjectReader(const Json& value, std::string path, std::vector<Error>* errors);

  // Whether the key is present and not null. Marks the key as known.
  bool Has(std::string_view key);

  // The value under `key`; null pointer when absent or null. Marks the key as known.
  const Json* Find(std::string_view key);

  // As Find, but absence is recorded as an error that says what was expected. Code: kMissingField.
  const Json* Require(std::string_view key, std::string_view expected);

  // Typed optional fields: nullopt when absent, null or wrong (wrong is recorded).
  std::optional<std::string> String(std::string_view key);
  std::optional<bool> Bool(std::string_view key);
  std::optional<int64_t> Int(std::string_view key,
                             int64_t min = std::numeric_limits<int64_t>::min(),
                             int64_t max = std::numeric_limits<int64_t>::max());
  std::optional<double> Number(std::string_view key,
                               double min = std::numeric_limits<double>::lowest(),
                               double max = std::numeric_limits<double>::max());

  // As Int, but absence is recorded too; `min` in place of what is absent or wrong.
  int64_t RequireInt(std::string_view key,
                     int64_t min,
                     int64_t max = std::numeric_limits<int64_t>::max());

  // A string out of a closed list; the message lists the choices and suggests the nearest. Code of
  // another word: kUnknownField.
  std::optional<std::string> Choice(std::string_view key,
                                    const std::vector<std::string_view>& choices);

  // A list of strings; empty when absent. A wrong element is recorded with its index.
  std::vector<std::string> Strings(std::string_view key);

  // The elements under `key`; empty when absent; not a list is recorded.
  std::vector<const Json*> List(std::string_view key);

  // Records an error at `key` of this object: "PATH.key: <message>". Code: kInvalidArgument.
  void Fail(std::string_view key, std::string message);

  // Records "unknown field" (with a suggestion where one is near) for each key nobody asked for.
  // Code: kUnknownField. What stands in `elsewhere` is known, but not here: it is answered with its
  // text, as a value that is wrong.
  void Finish(const std::map<std::string_view, std::string>& elsewhere = {});

  // The members that nobody asked for, in place of Finish: for a reader that keeps what it does not
  // understand. An empty object when there are none.
  Json Unknown() const;

  // The path of `key` in this object, and of element `index` of the list under `key`.
  std::string PathOf(std::string_view key) const;
  std::string PathOf(std::string_view key, std::size_t index) const;

 private:
  void FailWith(ErrorCode code, std::string_view key, std::string message);
  void FailType(std::string_view key, const Json& found, std::string_view expected);

  const Json* object_;  // null when the value was not an object
  std::string path_;
  std::vector<Error>* errors_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace lockstep
