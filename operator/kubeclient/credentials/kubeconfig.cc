#include "operator/kubeclient/credentials/kubeconfig.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "common/base/io/file.h"
#include "common/json/json.h"
#include "operator/kubeclient/credentials/base64.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

// Choice: hundreds of clusters with their certificates.
constexpr std::size_t kKubeconfigBytesMax = 16 * 1024 * 1024;

struct File {
  std::string path;
  Json content;
};

// An entry of one of the lists, and where it stands.
struct Entry {
  const File* file = nullptr;
  const Json* value = nullptr;  // an object
  std::string field;            // "users[2].user"

  Error Invalid(const std::string& key, const std::string& message) const {
    return Error(ErrorCode::kInvalidArgument, message).WithField(file->path + ": " + field + key);
  }
};

const Json* Find(const Json& object, const std::string& key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return !object.is_object() || found == object.end() || found->is_null() ? nullptr : &*found;
}

// The text under a key; empty when there is none. Numbers and the like are errors, without their
// value: it may be a secret.
Result<std::string> Text(const Entry& entry, const std::string& key) {
  const Json* const value = Find(*entry.value, key);
  if (value == nullptr) {
    return std::string();
  }
  if (!value->is_string()) {
    return entry.Invalid("." + key, "must be a string; put the value in quotes");
  }
  return value->get<std::string>();
}

Result<bool> Flag(const Entry& entry, const std::string& key) {
  const Json* const value = Find(*entry.value, key);
  if (value == nullptr) {
    return false;
  }
  if (!value->is_boolean()) {
    return entry.Invalid("." + key, "must be true or false");
  }
  return value->get<bool>();
}

Result<std::vector<std::string>> Texts(const Entry& entry, const Json* list, std::string key) {
  std::vector<std::string> texts;
  if (list == nullptr) {
    return texts;
  }
  for (const Json& element : *list) {
    if (!list->is_array() || !element.is_string()) {
      return entry.Invalid("." + key, "must be a list of strings");
    }
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

// A path as the file means it; empty stays empty.
Result<std::string> Path(const Entry& entry, const std::string& key) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, Text(entry, key));
  if (path.empty() || path.front() == '/') {
    return path;
  }
  return (std::filesystem::path(entry.file->path).parent_path() / path).string();
}

Result<std::string> Data(const Entry& entry, const std::string& key) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, Text(entry, key));
  std::optional<std::string> bytes = DecodeBase64(text);
  if (!bytes) {
    return entry.Invalid("." + key, "is not base64");
  }
  return *std::move(bytes);
}

Result<File> ReadOne(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kKubeconfigBytesMax));
  YamlStream stream = ReadYaml(text);
  if (!stream.problems.empty()) {
    const TextProblem& problem = stream.problems.front();
    // Not the reader's own words: they may quote a secret.
    return Error(ErrorCode::kInvalidArgument,
                 path + " is not YAML: line " + std::to_string(problem.at.line) + ", column " +
                     std::to_string(problem.at.column));
  }
  File file;
  file.path = path;
  if (!stream.documents.empty()) {
    file.content = std::move(stream.documents.front().value);
  }
  return file;
}

Result<std::vector<File>> ReadAll(const std::vector<std::string>& paths) {
  std::vector<File> files;
  for (const std::string& path : paths) {
    auto file = ReadOne(path);
    if (file.ok()) {
      files.push_back(std::move(file).value());
    } else if (file.error().code() != ErrorCode::kNotFound || paths.size() == 1) {
      return std::move(file).error();
    }
  }
  if (files.empty()) {
    return Error(ErrorCode::kNotFound, "none of the kubeconfig files exists");
  }
  return files;
}

// The first entry of this name: files[].LIST[name == NAME].KIND.
Result<Entry> FindEntry(const std::vector<File>& files,
                        const std::string& list,
                        const std::string& kind,
                        const std::string& name) {
  for (const File& file : files) {
    const Json* const entries = Find(file.content, list);
    for (std::size_t i = 0; entries != nullptr && entries->is_array() && i < entries->size(); ++i) {
      const Json& one = (*entries)[i];
      const Json* const its_name = Find(one, "name");
      if (its_name == nullptr || *its_name != name) {
        continue;
      }
      const std::string field = list + "[" + std::to_string(i) + "]." + kind;
      const Json* const value = Find(one, kind);
      if (value == nullptr || !value->is_object()) {
        return Entry{&file, value, field}.Invalid("", "must be an object");
      }
      return Entry{&file, value, field};
    }
  }
  return Error(ErrorCode::kNotFound, "the kubeconfig has no " + kind + " \"" + name + "\"");
}

Result<std::string> CurrentContext(const std::vector<File>& files) {
  for (const File& file : files) {
    const Json* const current = Find(file.content, "current-context");
    if (current != nullptr && current->is_string() && *current != "") {
      return current->get<std::string>();
    }
  }
  return Error(ErrorCode::kNotFound, "the kubeconfig has no current-context; set --context");
}

Status ReadCluster(const Entry& cluster, ApiAccess* access) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string proxy, Text(cluster, "proxy-url"));
  if (!proxy.empty()) {
    return cluster.Invalid(".proxy-url", "proxies are not supported");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string server, Text(cluster, "server"));
  auto endpoint = ParseApiUrl(server);
  if (!endpoint.ok()) {
    return cluster.Invalid(".server", endpoint.error().message());
  }
  access->endpoint = std::move(endpoint).value();
  CredentialPlan& plan = access->credentials;
  LOCKSTEP_ASSIGN_OR_RETURN(plan.ca_pem, Data(cluster, "certificate-authority-data"));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.ca_file, Path(cluster, "certificate-authority"));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.server_name, Text(cluster, "tls-server-name"));
  LOCKSTEP_ASSIGN_OR_RETURN(const bool is_insecure, Flag(cluster, "insecure-skip-tls-verify"));
  if (is_insecure && !(plan.ca_pem.empty() && plan.ca_file.empty())) {
    return cluster.Invalid(".insecure-skip-tls-verify",
                           "cannot be true if a certificate authority is set");
  }
  plan.verifies_server = !is_insecure;
  return OkStatus();
}

// spec.cluster of what a plug-in is told. Source: client-go's ConfigToExecCluster.
std::string DescribeCluster(const Entry& cluster, const ApiAccess& access) {
  Json told = {{"server", access.endpoint.Url()}};
  for (const char* key : {"tls-server-name",
                          "insecure-skip-tls-verify",
                          "certificate-authority-data",
                          "proxy-url",
                          "disable-compression"}) {
    if (const Json* const value = Find(*cluster.value, key); value != nullptr) {
      told[key] = *value;
    }
  }
  if (const Json* const extensions = Find(*cluster.value, "extensions");
      extensions != nullptr && extensions->is_array()) {
    for (const Json& extension : *extensions) {
      const Json* const name = Find(extension, "name");
      const Json* const config = Find(extension, "extension");
      if (name != nullptr && *name == "client.authentication.k8s.io/exec" && config != nullptr) {
        told["config"] = *config;
      }
    }
  }
  return DumpJson(told);
}

Result<ExecPlugin> ReadExec(const Entry& exec, const Entry& cluster, const ApiAccess& access) {
  ExecPlugin plugin;
  LOCKSTEP_ASSIGN_OR_RETURN(plugin.api_version, Text(exec, "apiVersion"));
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    return exec.Invalid(".apiVersion", "must be client.authentication.k8s.io/v1 or v1beta1");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(plugin.command, Text(exec, "command"));
  if (plugin.command.empty()) {
    return exec.Invalid(".command", "is missing");
  }
  if (plugin.command.find('/') != std::string::npos) {
    LOCKSTEP_ASSIGN_OR_RETURN(plugin.command, Path(exec, "command"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(plugin.args, Texts(exec, Find(*exec.value, "args"), "args"));
  LOCKSTEP_ASSIGN_OR_RETURN(plugin.install_hint, Text(exec, "installHint"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string mode, Text(exec, "interactiveMode"));
  if (mode == "Always") {
    return exec.Invalid(".interactiveMode",
                        "the plug-in needs a terminal, but the operator has none");
  }
  if (const Json* const variables = Find(*exec.value, "env"); variables != nullptr) {
    for (const Json& variable : *variables) {
      const Json* const name = Find(variable, "name");
      const Json* const value = Find(variable, "value");
      if (name == nullptr || value == nullptr || !name->is_string() || !value->is_string()) {
        return exec.Invalid(".env", "must be a list of names and values");
      }
      plugin.environment.emplace_back(name->get<std::string>(), value->get<std::string>());
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const bool wants_cluster, Flag(exec, "provideClusterInfo"));
  if (wants_cluster) {
    plugin.cluster_json = DescribeCluster(cluster, access);
  }
  return plugin;
}

Status ReadImpersonation(const Entry& user, CredentialPlan* plan) {
  const auto add = [plan](const std::string& name, const std::string& value) {
    if (!value.empty()) {
      plan->impersonation.emplace_back("Impersonate-" + name, value);
    }
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string name, Text(user, "as"));
  add("User", name);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string uid, Text(user, "as-uid"));
  add("Uid", uid);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> groups,
                            Texts(user, Find(*user.value, "as-groups"), "as-groups"));
  for (const std::string& group : groups) {
    add("Group", group);
  }
  if (const Json* const extra = Find(*user.value, "as-user-extra");
      extra != nullptr && extra->is_object()) {
    for (const auto& [key, list] : extra->items()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> values,
                                Texts(user, &list, "as-user-extra"));
      for (const std::string& value : values) {
        add("Extra-" + key, value);
      }
    }
  }
  return OkStatus();
}

Status ReadUser(const Entry& user, const Entry& cluster, ApiAccess* access) {
  CredentialPlan& plan = access->credentials;
  if (Find(*user.value, "auth-provider") != nullptr) {
    return user.Invalid(".auth-provider", "is not supported; use an exec plug-in");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(plan.certificate_pem, Data(user, "client-certificate-data"));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.certificate_file, Path(user, "client-certificate"));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.key_pem, Data(user, "client-key-data"));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.key_file, Path(user, "client-key"));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.token, Text(user, "token"));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.token_file, Path(user, "tokenFile"));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.username, Text(user, "username"));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.password, Text(user, "password"));
  LOCKSTEP_RETURN_IF_ERROR(ReadImpersonation(user, &plan));
  if (const Json* const exec = Find(*user.value, "exec"); exec != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        plan.exec, ReadExec(Entry{user.file, exec, user.field + ".exec"}, cluster, *access));
  }
  return OkStatus();
}

}  // namespace

Result<ApiAccess> ReadKubeconfig(const std::vector<std::string>& paths,
                                 const std::string& context) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<File> files, ReadAll(paths));
  std::string name = context;
  if (name.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(name, CurrentContext(files));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Entry chosen, FindEntry(files, "contexts", "context", name));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string cluster_name, Text(chosen, "cluster"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string user_name, Text(chosen, "user"));
  LOCKSTEP_ASSIGN_OR_RETURN(const Entry cluster,
                            FindEntry(files, "clusters", "cluster", cluster_name));
  ApiAccess access;
  access.source = "context " + name + " of " + chosen.file->path;
  LOCKSTEP_ASSIGN_OR_RETURN(access.namespace_name, Text(chosen, "namespace"));
  LOCKSTEP_RETURN_IF_ERROR(ReadCluster(cluster, &access));
  if (!user_name.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Entry user, FindEntry(files, "users", "user", user_name));
    LOCKSTEP_RETURN_IF_ERROR(ReadUser(user, cluster, &access));
  }
  return access;
}

}  // namespace lockstep::control
