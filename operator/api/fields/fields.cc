#include "operator/api/fields/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/rfc3339.h"
#include "common/contract/environment/topology.h"

namespace lockstep::control {
namespace {

// What to say of `value` where text was expected.
std::string NotText(const Json& value) {
  std::string message = DescribeJson(value) + " found, expected a string";
  if (value.is_number() || value.is_boolean()) {
    message += "; put it in quotes: \"" + DumpJson(value) + "\"";
  }
  return message;
}

}  // namespace

std::string ReadText(ObjectReader& reader, std::string_view key) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return "";
  }
  if (!value->is_string()) {
    reader.Fail(key, NotText(*value));
    return "";
  }
  return value->get<std::string>();
}

std::vector<std::string> ReadWords(ObjectReader& reader,
                                   std::string_view key,
                                   std::size_t max,
                                   std::vector<Error>* errors) {
  std::vector<std::string> words;
  const Json* value = reader.Find(key);
  if (value != nullptr && value->is_string()) {
    reader.Fail(
        key,
        DescribeJson(*value) + " found, expected a list of words such as " + "[python3, train.py]");
    return words;
  }
  const std::vector<const Json*> items = ListUpTo(reader, key, max);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i]->is_string()) {
      words.push_back(items[i]->get<std::string>());
    } else {
      AddError(errors, reader.PathOf(key, i), NotText(*items[i]));
    }
  }
  return words;
}

std::map<std::string, std::string> ReadTextMap(ObjectReader& reader,
                                               std::string_view key,
                                               std::vector<Error>* errors) {
  std::map<std::string, std::string> texts;
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return texts;
  }
  if (!value->is_object()) {
    reader.Fail(key, DescribeJson(*value) + " found, expected an object of strings");
    return texts;
  }
  for (const auto& [name, text] : value->items()) {
    if (text.is_null()) {
      continue;  // the API server drops it
    }
    if (text.is_string()) {
      texts[name] = text.get<std::string>();
    } else {
      AddError(errors, reader.PathOf(key) + "." + name, NotText(text));
    }
  }
  return texts;
}

std::string TooMany(std::size_t count, std::string_view of_what, std::size_t max) {
  return std::to_string(count) + " " + std::string(of_what) + " found, expected at most " +
         std::to_string(max);
}

std::vector<const Json*> ListUpTo(ObjectReader& reader, std::string_view key, std::size_t max) {
  std::vector<const Json*> items = reader.List(key);
  if (items.size() > max) {
    reader.Fail(key, TooMany(items.size(), "entries", max));
    items.clear();
  }
  return items;
}

std::size_t CharacterCount(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;  // not inside a character of UTF-8
  }));
}

void CheckLength(ObjectReader& reader, std::string_view key, std::size_t max) {
  const Json* value = reader.Find(key);
  const auto* text = value == nullptr ? nullptr : value->get_ptr<const std::string*>();
  if (text != nullptr && CharacterCount(*text) > max) {
    reader.Fail(key, TooMany(CharacterCount(*text), "characters", max));
  }
}

void CheckCount(ObjectReader& reader, std::string_view key, std::size_t max) {
  const Json* value = reader.Find(key);
  if (value != nullptr && value->is_object() && value->size() > max) {
    reader.Fail(key, TooMany(value->size(), "entries", max));
  }
}

void PassThrough(ObjectReader& reader, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    reader.Find(key);
  }
}

std::optional<WallTime> ReadTime(ObjectReader& reader, std::string_view key) {
  const std::optional<std::string> text = reader.String(key);
  if (!text) {
    return std::nullopt;
  }
  const std::optional<WallTime> time = ParseRfc3339(*text);
  if (!time) {
    reader.Fail(key,
                DescribeJson(Json(*text)) + " found, expected a time such as 2026-11-21T10:22:03Z");
  }
  return time;
}

int64_t ReadCount(ObjectReader& reader, std::string_view key) {
  return reader.Int(key, 0).value_or(0);
}

void SetTime(Json* object, const char* key, const std::optional<WallTime>& time) {
  if (time) {
    (*object)[key] = FormatRfc3339(*time);
  }
}

void SetNumber(Json* object, const char* key, const std::optional<double>& number) {
  if (number.has_value() && std::isfinite(*number)) {
    (*object)[key] = *number;
  }
}

bool IsWithin(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) &&
         (inner.size() == outer.size() || inner[outer.size()] == '.' || inner[outer.size()] == '[');
}

void AddError(std::vector<Error>* errors, std::string field, std::string message) {
  errors->push_back(
      Error(ErrorCode::kInvalidArgument, std::move(message)).WithField(std::move(field)));
}

}  // namespace lockstep::control
