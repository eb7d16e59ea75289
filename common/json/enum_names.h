#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/json/json.h"

namespace lockstep {

// The words for the values of an enumeration, one entry each: the single place where a document's
// word and the value meet.
template <typename Enum, std::size_t N>
using EnumNames = std::array<std::pair<Enum, std::string_view>, N>;

// The word for `value`. Precondition (checked): the table lists it.
template <typename Enum, std::size_t N>
std::string_view NameOf(const EnumNames<Enum, N>& names, Enum value) {
  const auto* found = std::find_if(
      names.begin(), names.end(), [value](const auto& entry) { return entry.first == value; });
  LOCKSTEP_CHECK(found != names.end(), "this enumerator has no name");
  return found->second;
}

// All words, in the table's order.
template <typename Enum, std::size_t N>
std::vector<std::string_view> WordsOf(const EnumNames<Enum, N>& names) {
  std::vector<std::string_view> words;
  for (const auto& [value, word] : names) {
    words.push_back(word);
  }
  return words;
}

// The value of that word; nullopt for any other text.
template <typename Enum, std::size_t N>
std::optional<Enum> ValueOf(const EnumNames<Enum, N>& names, std::string_view word) {
  const auto* found = std::find_if(
      names.begin(), names.end(), [word](const auto& entry) { return entry.second == word; });
  return found == names.end() ? std::nullopt : std::optional<Enum>(found->first);
}

// The value of the word under `key`; nullopt when absent or wrong (wrong is recorded).
template <typename Enum, std::size_t N>
std::optional<Enum> ReadEnum(ObjectReader& reader,
                             std::string_view key,
                             const EnumNames<Enum, N>& names) {
  const std::optional<std::string> word = reader.Choice(key, WordsOf(names));
  return word ? ValueOf(names, *word) : std::nullopt;
}

// As ReadEnum, but absence is recorded too.
template <typename Enum, std::size_t N>
std::optional<Enum> RequireEnum(ObjectReader& reader,
                                std::string_view key,
                                const EnumNames<Enum, N>& names) {
  if (!reader.Has(key)) {
    std::string expected = "one of";
    for (const std::string_view word : WordsOf(names)) {
      expected += (expected == "one of" ? " " : ", ") + std::string(word);
    }
    reader.Require(key, expected);
    return std::nullopt;
  }
  return ReadEnum(reader, key, names);
}

}  // namespace lockstep
