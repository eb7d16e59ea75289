#include "operator/api/job/pod_environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "common/base/io/exec_string.h"
#include "common/contract/environment/environment.h"
#include "common/contract/environment/topology.h"
#include "common/contract/text/problems.h"
#include "operator/api/fields/bounds.h"
#include "operator/api/fields/fields.h"
#include "operator/api/job/job_names.h"
#include "operator/api/job/pod_template.h"

namespace lockstep::control {
namespace {

// What a variable's value may come from, and all variables of an entry of envFrom.
// Source: core/v1 EnvVarSource and EnvFromSource, Kubernetes 1.36.
constexpr std::array<std::string_view, 5> kValueSources = {
    "configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"};
constexpr std::array<std::string_view, 2> kMapSources = {"configMapRef", "secretRef"};

// Kubernetes' rule for names of environment variables, in its strict form.
bool IsEnvironmentName(std::string_view name) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_word(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

void CheckEnvironmentName(ObjectReader& reader, const std::string& name) {
  CheckLength(reader, "name", kEnvironmentNameMax);
  if (!IsEnvironmentName(name)) {
    reader.Fail("name",
                Quoted(name) +
                    " found, expected letters, digits, '_', '-' and '.', not starting with a "
                    "digit");
    return;
  }
  if (IsReservedVariable(name)) {
    reader.Fail("name", Quoted(name) + " is set by the operator in every pod; remove it");
  }
}

// MASTER_PORT is the template's to choose, for jobs whose pods share a host. Below 1024 only root
// may listen, and the contract's own ports are in use.
void CheckMasterPort(ObjectReader& reader, const std::string& text) {
  constexpr int kFirst = 1024;
  constexpr int kLast = 65535;
  int port = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_number = problem == std::errc() && stop == text.data() + text.size();
  const bool is_ours = port >= kMeshPort && port < kProcessPortBase + kProcessesMax;
  if (!is_number || port < kFirst || port > kLast || is_ours) {
    reader.Fail("value",
                Quoted(text) + " found, expected a number from " + std::to_string(kFirst) + " to " +
                    std::to_string(kLast) + " other than " + std::to_string(kMeshPort) + " to " +
                    std::to_string(kProcessPortBase + kProcessesMax - 1) +
                    ", which Lockstep uses itself");
  }
}

// "configMapKeyRef, fieldRef or secretKeyRef".
template <std::size_t N>
std::string OneOf(const std::array<std::string_view, N>& names) {
  std::string text;
  for (std::size_t i = 0; i < N; ++i) {
    text += i == 0 ? "" : i + 1 == N ? " or " : ", ";
    text += names[i];
  }
  return text;
}

// A reference that only the cluster has to understand passes through.
bool IsPassedOn(std::string_view kind) {
  return kind == "fileKeyRef" || kind == "resourceFieldRef";
}

void ReadReference(const Json& value,
                   const std::string& path,
                   EnvironmentSource* source,
                   Errors* errors) {
  ObjectReader reader(value, path, errors);
  if (IsPassedOn(source->kind)) {
    return;
  }
  if (source->kind == "fieldRef") {
    reader.Require("fieldPath", "the field, such as metadata.name");
    source->field = ReadText(reader, "fieldPath");
    ReadText(reader, "apiVersion");
  } else {
    reader.Require("name", "the object's name");
    ReadText(reader, "name");
    source->is_optional = reader.Bool("optional").value_or(false);
    if (source->kind.ends_with("KeyRef")) {
      reader.Require("key", "the key in the object");
      ReadText(reader, "key");
    }
  }
  reader.Finish();
}

// The one reference of `kinds` that the object holds; other fields are left to the caller.
template <std::size_t N>
EnvironmentSource ReadSource(ObjectReader& reader,
                             const Json& value,
                             const std::string& path,
                             const std::array<std::string_view, N>& kinds,
                             Errors* errors) {
  EnvironmentSource source;
  source.path = path;
  int count = 0;
  for (const std::string_view kind : kinds) {
    if (const Json* const reference = reader.Find(kind)) {
      ++count;
      source.kind = std::string(kind);
      ReadReference(*reference, reader.PathOf(kind), &source, errors);
    }
  }
  if (count != 1 && value.is_object()) {
    AddError(errors,
             path,
             std::to_string(count) + " sources found, expected exactly one: " + OneOf(kinds));
  }
  return source;
}

void ReadVariable(const Json& value, const std::string& path, PodTemplate* pod, Errors* errors) {
  ObjectReader reader(value, path, errors);
  reader.Require("name", "the variable's name");
  const std::string name = ReadText(reader, "name");
  if (!name.empty() || (reader.Has("name") && reader.Find("name")->is_string())) {
    CheckEnvironmentName(reader, name);
  }
  const std::string text = ReadText(reader, "value");
  if (name.size() + 1 + text.size() > kExecStringBytesMax) {
    reader.Fail(
        "value",
        std::to_string(text.size()) + " bytes found, expected at most " +
            std::to_string(kExecStringBytesMax - std::min(name.size() + 1, kExecStringBytesMax)) +
            " after this name: Linux cannot start a program with a longer variable; put the value "
            "into a file");
  }
  const bool is_twice =
      pod->env.count(name) > 0 ||
      std::any_of(pod->env_sources.begin(),
                  pod->env_sources.end(),
                  [&](const EnvironmentSource& source) { return source.variable == name; });
  if (!name.empty() && is_twice) {
    reader.Fail("name", Quoted(name) + " is set twice in this container");
  }
  const bool is_master_port = name == env::kTorchMasterPort;
  if (is_master_port && reader.Has("valueFrom")) {
    reader.Fail("valueFrom",
                "cannot be used for MASTER_PORT, because the operator has to know the port; set "
                "the field \"value\" instead");
  } else if (is_master_port) {
    CheckMasterPort(reader, text);
  }
  if (const Json* const from = reader.Find("valueFrom")) {
    if (!text.empty()) {
      reader.Fail("valueFrom",
                  "cannot be used together with the field \"value\"; use only one of the two");
    }
    const std::string from_path = reader.PathOf("valueFrom");
    ObjectReader sources(*from, from_path, errors);
    pod->env_sources.push_back(ReadSource(sources, *from, from_path, kValueSources, errors));
    pod->env_sources.back().variable = name;
    sources.Finish();
  } else if (!name.empty()) {
    pod->env.emplace(name, text);
  }
  reader.Finish();
}

}  // namespace

void ReadEnvironment(ObjectReader& container, PodTemplate* pod, Errors* errors) {
  const std::vector<const Json*> variables = ListUpTo(container, "env", kEntriesMax);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    ReadVariable(*variables[i], container.PathOf("env", i), pod, errors);
  }
  const std::vector<const Json*> maps = ListUpTo(container, "envFrom", kEnvironmentSourcesMax);
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const std::string path = container.PathOf("envFrom", i);
    ObjectReader reader(*maps[i], path, errors);
    ReadText(reader, "prefix");
    pod->env_sources.push_back(ReadSource(reader, *maps[i], path, kMapSources, errors));
    reader.Finish();
  }
}

}  // namespace lockstep::control
