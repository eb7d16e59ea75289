#include "operator/cli/schema/explain.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <utility>

#include "operator/api/job/training_job.h"
#include "operator/api/queue/training_queue.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kColumns = 80;  // choice: the narrowest usual terminal

// `text` in lines of at most kColumns, each behind `indent`.
std::string Wrapped(const std::string& text, const std::string& indent) {
  std::istringstream words(text);
  std::string word;
  std::string wrapped;
  std::string line;
  while (words >> word) {
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > kColumns) {
      wrapped += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? wrapped : wrapped + indent + line + "\n";
}

// A default or bound as people write it: 30, not 30.0; texts without quotes.
std::string ValueText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

std::string RangeText(const Json& schema, const char* least, const char* most) {
  const bool has_least = schema.contains(least);
  const bool has_most = schema.contains(most);
  if (has_least && has_most) {
    return ValueText(schema[least]) + " to " + ValueText(schema[most]);
  }
  return has_least  ? "at least " + ValueText(schema[least])
         : has_most ? "at most " + ValueText(schema[most])
                    : "";
}

// Lines such as "  one of:   Keep, Drop".
std::string FormatLimits(const Json& schema) {
  std::string text;
  const auto add = [&text](const std::string& label, const std::string& value) {
    std::string padded = label + ":";
    padded.resize(std::max<std::size_t>(padded.size() + 1, 10), ' ');
    text += value.empty() ? "" : padded + value + "\n";
  };
  if (schema.contains("enum")) {
    std::string words;
    for (const Json& word : schema["enum"]) {
      words += (words.empty() ? "" : ", ") + ValueText(word);
    }
    add("VALUES", words);
  }
  const bool is_open = schema.value("exclusiveMaximum", false);
  const std::string range = RangeText(schema, "minimum", "maximum");
  add("RANGE", is_open && !range.empty() ? range + ", the upper limit excluded" : range);
  add("ITEMS", RangeText(schema, "minItems", "maxItems"));
  if (schema.contains("default") && !schema["default"].is_structured()) {
    add("DEFAULT", ValueText(schema["default"]));
  }
  return text;
}

bool IsRequired(const Json& object, const std::string& name) {
  return object.contains("required") &&
         std::find(object["required"].begin(), object["required"].end(), name) !=
             object["required"].end();
}

std::string FormatFields(const Json& schema) {
  const Json* object = &schema;
  while (object->contains("items")) {
    object = &(*object)["items"];
  }
  if (!object->contains("properties")) {
    return "";
  }
  std::string text = "\nFIELDS:\n";
  for (const auto& [name, property] : (*object)["properties"].items()) {
    text += "  " + name + " <" + SchemaTypeText(property) + ">" +
            (IsRequired(*object, name) ? " required" : "") + "\n";
    text += Wrapped(property.value("description", ""), "    ");
  }
  return text;
}

// The description of the field, then of its elements where they have one of their own.
std::string FormatDescription(const Json& schema) {
  std::string text;
  for (const Json* at = &schema;; at = &(*at)["items"]) {
    text += Wrapped(at->value("description", ""), "  ");
    if (!at->contains("items")) {
      break;
    }
  }
  return text.empty() ? "" : "\nDESCRIPTION:\n" + text;
}

constexpr std::array<std::string_view, 4> kJobWords = {
    "trainingjobs", "trainingjob", kTrainingJobKind, "tj"};
constexpr std::array<std::string_view, 4> kQueueWords = {
    "trainingqueues", "trainingqueue", kTrainingQueueKind, "tq"};

// What follows one of the words in front; empty where none is there.
std::optional<std::string_view> Behind(const std::array<std::string_view, 4>& words,
                                       std::string_view field) {
  for (const std::string_view word : words) {
    if (field == word) {
      return "";
    }
    if (field.starts_with(word) && field[word.size()] == '.') {
      return field.substr(word.size() + 1);
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view KindOfField(std::string_view field) {
  return Behind(kQueueWords, field) ? kTrainingQueueKind : kTrainingJobKind;
}

Result<std::string> ExplainField(std::string_view field, const JobSchema& schema) {
  const bool is_of_job = schema.kind() == kTrainingJobKind;
  field = Behind(is_of_job ? kJobWords : kQueueWords, field).value_or(field);
  FieldPath path;
  if (!field.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(path, ParseFieldPath(field));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Json* found, schema.Find(&path));
  std::string text = schema.kind() + " (" + std::string(kApiVersion) + ")\n";
  if (!path.empty()) {
    text += "FIELD:    " + FormatFieldPath(path) + " <" + SchemaTypeText(*found) + ">\n";
  }
  text += FormatLimits(*found) + FormatDescription(*found) + FormatFields(*found);
  return text;
}

}  // namespace lockstep::control
