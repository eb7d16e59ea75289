#include "operator/cli/schema/setting.h"

#include <charconv>
#include <optional>
#include <utility>

#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

Error At(const FieldPath& path, ErrorCode code, std::string message) {
  return Error(code, std::move(message)).WithField(FormatFieldPath(path));
}

std::optional<std::size_t> ParseIndex(const std::string& text) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(index)
                                                                  : std::nullopt;
}

// The element's own name; empty if it has none.
std::string OwnName(const Json& element) {
  return element.is_object() && element.contains("name") && element["name"].is_string()
             ? element["name"].get<std::string>()
             : "";
}

std::string NamesIn(const Json& list) {
  std::string names;
  for (const Json& element : list) {
    const std::string name = OwnName(element);
    names += (names.empty() || name.empty() ? "" : ", ") + name;
  }
  return names;
}

// The index that an element's step means: its number, or the place of its name.
Result<std::size_t> IndexOf(const Json& list, const FieldPath& until, const FieldStep& step) {
  const std::string count = std::to_string(list.size());
  if (const auto index = ParseIndex(step.name)) {
    return *index <= list.size()
               ? Result<std::size_t>(*index)
               : At(until,
                    ErrorCode::kNotFound,
                    "no such element; the list has " + count + ", counted from 0");
  }
  for (std::size_t index = 0; index < list.size(); ++index) {
    if (OwnName(list[index]) == step.name) {
      return index;
    }
  }
  const std::string names = NamesIn(list);
  return At(until,
            ErrorCode::kNotFound,
            "no element of that name" + (names.empty() ? "" : "; the names are " + names));
}

// One step into `at`, which becomes an object or a list where it is nothing yet. `walked` gets the
// step, an element's by its index.
Result<Json*> Enter(const FieldStep& step, Json* at, FieldPath* walked) {
  const bool is_field = step.kind == FieldStep::Kind::kField;
  if (at->is_null()) {
    *at = is_field ? Json::object() : Json::array();
  }
  if (is_field ? !at->is_object() : !at->is_array()) {
    return At(*walked,
              ErrorCode::kInvalidArgument,
              DescribeJson(*at) + " found, expected " + (is_field ? "an object" : "a list"));
  }
  if (is_field) {
    walked->push_back(step);
    return &(*at)[step.name];
  }
  FieldPath until = *walked;
  until.push_back(step);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::size_t index, IndexOf(*at, until, step));
  walked->push_back({FieldStep::Kind::kElement, std::to_string(index)});
  if (index == at->size()) {
    at->push_back(nullptr);
  }
  return &(*at)[index];
}

// What the parser expected behind a bracket or a quote says nothing to whoever forgot its end.
std::string Explain(const TextProblem& problem, const std::string& text) {
  if (!problem.field.empty()) {
    return "in " + problem.field + ": " + problem.message;
  }
  if (text.find_first_of("[]{}'\"") == std::string::npos) {
    return problem.message;
  }
  return "not valid YAML: \"" + text + "\" found, expected one value, such as 5, [1, 2] or {a: 1}";
}

// Strings are taken as they are: a name such as "1e3" needs no quotes.
Result<Json> ReadValue(const std::string& text, const Json& schema) {
  if (!IsOpaqueSchema(schema) && schema.contains("type") && schema["type"] == "string") {
    return Json(text);
  }
  if (text.empty()) {
    return Json("");
  }
  YamlStream stream = ReadYaml(text);
  if (!stream.problems.empty()) {
    return Error(ErrorCode::kInvalidArgument, Explain(stream.problems.front(), text));
  }
  return stream.documents.size() == 1 ? Result<Json>(std::move(stream.documents[0].value))
                                      : Error(ErrorCode::kInvalidArgument, "expected one value");
}

void Remove(const FieldStep& step, Json* owner) {
  if (step.kind == FieldStep::Kind::kElement) {
    owner->erase(*ParseIndex(step.name));
  } else {
    owner->erase(step.name);
  }
}

}  // namespace

std::string ToText(const Setting& setting) {
  std::string text;
  for (const FieldStep& step : setting.path) {
    const bool is_element = step.kind == FieldStep::Kind::kElement;
    text += is_element ? "[" : text.empty() ? "" : ".";
    for (const char c : step.name) {
      text += std::string_view(".[]\\=").find(c) == std::string_view::npos ? std::string(1, c)
                                                                           : std::string("\\") + c;
    }
    text += is_element ? "]" : "";
  }
  return text + "=" + setting.value;
}

Result<Setting> ParseSetting(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return Error(
        ErrorCode::kInvalidArgument,
        "--set \"" + std::string(text) + "\": expected PATH=VALUE, such as spec.training.epochs=5");
  }
  auto path = ParseFieldPath(text.substr(0, equals));
  if (!path.ok()) {
    return Error(ErrorCode::kInvalidArgument,
                 "--set \"" + std::string(text) + "\": " + path.error().message());
  }
  return Setting{*std::move(path), std::string(text.substr(equals + 1))};
}

Result<std::string> ApplySetting(const Setting& setting, const JobSchema& schema, Json* document) {
  FieldPath path = setting.path;
  LOCKSTEP_ASSIGN_OR_RETURN(const Json* field, schema.Find(&path));
  if (path.front().name == "status") {
    return Error(ErrorCode::kInvalidArgument,
                 "the operator writes the status, expected spec or metadata")
        .WithField(FormatFieldPath(path));
  }
  FieldPath walked;
  const Json before = *document;
  Json* owner = nullptr;
  Json* at = document;
  for (const FieldStep& step : path) {
    owner = at;
    LOCKSTEP_ASSIGN_OR_RETURN(at, Enter(step, at, &walked));
  }
  if (setting.value == "null" && at->is_null()) {
    *document = before;  // nothing to remove: what was made on the way goes again
    return FormatFieldPath(walked);
  }
  if (setting.value == "null") {
    Remove(walked.back(), owner);
    return FormatFieldPath(walked);
  }
  auto value = ReadValue(setting.value, *field);
  if (!value.ok()) {
    return std::move(value).error().WithField(FormatFieldPath(walked));
  }
  *at = *std::move(value);
  return FormatFieldPath(walked);
}

Result<std::string> ApplyWorkers(int64_t workers, Json* document) {
  const Json* const spec =
      document->is_object() && document->contains("spec") ? &(*document)["spec"] : nullptr;
  const bool has_roles = spec != nullptr && spec->is_object() && spec->contains("roles") &&
                         (*spec)["roles"].is_array();
  for (std::size_t i = 0; has_roles && i < (*spec)["roles"].size(); ++i) {
    Json& role = (*document)["spec"]["roles"][i];
    if (OwnName(role) != "worker") {
      continue;
    }
    role["replicas"] = workers;
    // The scale of the whole job, where it is set, wins over the role's own number.
    if (spec->contains("replicas")) {
      (*document)["spec"]["replicas"] = workers;
    }
    return "spec.roles[" + std::to_string(i) + "].replicas";
  }
  return Error(ErrorCode::kNotFound, "no role worker found, expected one with this name")
      .WithField("spec.roles");
}

}  // namespace lockstep::control
