#include "operator/kubeclient/kube/request.h"

#include <array>
#include <initializer_list>
#include <utility>

#include "common/base/check.h"
#include "common/json/enum_names.h"
#include "common/json/json.h"

namespace lockstep::control::kube {
namespace {

constexpr int kServerErrorMin = 500;

constexpr EnumNames<FaultKind, 8> kFaultNames = {{
    {FaultKind::kRefused, "refused"},
    {FaultKind::kDns, "dns"},
    {FaultKind::kTls, "tls"},
    {FaultKind::kTimeout, "timeout"},
    {FaultKind::kReset, "reset"},
    {FaultKind::kTruncated, "truncated"},
    {FaultKind::kCancelled, "cancelled"},
    {FaultKind::kNotLeader, "not_leader"},
}};

constexpr std::string_view kJsonType = "application/json";

// The part of a foreign answer that is kept when it is no Status: enough to recognise it.
constexpr std::size_t kForeignTextMax = 200;

// Everything but RFC 3986's unreserved characters as %XX: right in a path segment and in a query
// value alike.
std::string Escaped(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    const bool is_alphanumeric =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_alphanumeric || c == '-' || c == '.' || c == '_' || c == '~') {
      escaped += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    escaped += '%';
    escaped += kHex[byte >> 4];
    escaped += kHex[byte & 0xF];
  }
  return escaped;
}

// "/apis/GROUP/VERSION[/namespaces/NAMESPACE]/PLURAL"; an empty namespace means all of them.
std::string CollectionPath(const ResourceType& resource, std::string_view namespace_name) {
  std::string path = resource.group.empty() ? "/api/" : "/apis/" + Escaped(resource.group) + "/";
  path += Escaped(resource.version);
  if (resource.is_namespaced && !namespace_name.empty()) {
    path += "/namespaces/" + Escaped(namespace_name);
  }
  return path + "/" + Escaped(resource.plural);
}

std::string ObjectPath(const ResourceType& resource,
                       std::string_view namespace_name,
                       std::string_view name,
                       std::string_view subresource = "") {
  LOCKSTEP_CHECK(!name.empty(), "an object needs a name");
  LOCKSTEP_CHECK(resource.is_namespaced == !namespace_name.empty(),
                 "expected a namespace for a namespaced kind, and none for a cluster-scoped kind");
  std::string path = CollectionPath(resource, namespace_name) + "/" + Escaped(name);
  return subresource.empty() ? path : path + "/" + Escaped(subresource);
}

// "?a=b&c=d" of those parameters that have a value.
std::string Query(std::initializer_list<std::pair<std::string_view, std::string_view>> parameters) {
  std::string query;
  for (const auto& [name, value] : parameters) {
    if (!value.empty()) {
      query += query.empty() ? '?' : '&';
      query += std::string(name) + "=" + Escaped(value);
    }
  }
  return query;
}

Request Read(Verb verb, const ResourceType& resource, std::string target) {
  return {verb, resource, "GET", std::move(target), "", ""};
}

// The "message", "reason" of a Status object; the beginning of the text when it is none.
struct StatusText {
  std::string reason;
  std::string message;
};

StatusText ReadStatusText(const Reply& reply) {
  const Result<Json> json = ParseJson(reply.body);
  StatusText text;
  if (json.ok() && json->is_object()) {
    std::vector<Error> ignored;
    ObjectReader reader(*json, "", &ignored);
    text.reason = reader.String("reason").value_or("");
    text.message = reader.String("message").value_or("");
  }
  if (text.message.empty()) {
    text.message = "HTTP " + std::to_string(reply.status);
    if (!reply.body.empty()) {
      text.message += ": " + reply.body.substr(0, kForeignTextMax);
    }
  }
  return text;
}

ErrorCode CodeOf(int status, const StatusText& text) {
  switch (status) {
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return text.reason == "AlreadyExists" ? ErrorCode::kAlreadyExists : ErrorCode::kStale;
    case 410:
      return ErrorCode::kStale;
    case 403:
      // The server has no other sign for it: reason "Forbidden" stands for permissions too.
      return text.message.find("exceeded quota") != std::string::npos
                 ? ErrorCode::kResourceExhausted
                 : ErrorCode::kInvalidArgument;
    case 413:
      return ErrorCode::kResourceExhausted;
    case 408:
    case 429:
      return ErrorCode::kUnavailable;
    default:
      return status >= 400 && status < 500 ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable;
  }
}

Error ErrorOfFault(const Fault& fault) {
  const ErrorCode code =
      fault.kind == FaultKind::kTimeout ? ErrorCode::kTimeout : ErrorCode::kUnavailable;
  return {code, std::string(FaultKindName(fault.kind)) + ": " + fault.message};
}

}  // namespace

std::string_view FaultKindName(FaultKind kind) {
  return NameOf(kFaultNames, kind);
}

Request Get(const ResourceType& resource, std::string_view namespace_name, std::string_view name) {
  return Read(Verb::kGet, resource, ObjectPath(resource, namespace_name, name));
}

Request List(const Selection& selection, const ListOptions& options) {
  const std::string limit = options.limit > 0 ? std::to_string(options.limit) : "";
  // A continue token says where it goes on, and in which version: the server refuses a second
  // opinion.
  const std::string& version =
      options.continue_token.empty() ? options.resource_version : std::string();
  return Read(Verb::kList,
              selection.resource,
              CollectionPath(selection.resource, selection.namespace_name) +
                  Query({{"labelSelector", selection.label_selector},
                         {"fieldSelector", selection.field_selector},
                         {"resourceVersion", version},
                         {"limit", limit},
                         {"continue", options.continue_token}}));
}

Request Watch(const Selection& selection, const WatchOptions& options) {
  const bool is_list = options.sends_initial_events;
  return Read(Verb::kWatch,
              selection.resource,
              CollectionPath(selection.resource, selection.namespace_name) +
                  Query({{"watch", "1"},
                         {"allowWatchBookmarks", "true"},
                         {"sendInitialEvents", is_list ? "true" : ""},
                         {"resourceVersionMatch", is_list ? "NotOlderThan" : ""},
                         {"labelSelector", selection.label_selector},
                         {"fieldSelector", selection.field_selector},
                         {"resourceVersion", options.resource_version},
                         {"timeoutSeconds", std::to_string(options.timeout.count())}}));
}

Request Create(const ResourceType& resource, std::string_view namespace_name, std::string body) {
  LOCKSTEP_CHECK(resource.is_namespaced == !namespace_name.empty(),
                 "expected a namespace for a namespaced kind, and none for a cluster-scoped kind");
  return {Verb::kCreate,
          resource,
          "POST",
          CollectionPath(resource, namespace_name) + "?fieldValidation=Strict",
          std::string(kJsonType),
          std::move(body)};
}

Request DryRun(Request request) {
  request.target += (request.target.find('?') == std::string::npos ? "?" : "&");
  request.target += "dryRun=All";
  return request;
}

Request Apply(const ResourceType& resource,
              std::string_view namespace_name,
              std::string_view name,
              std::string body,
              const ApplyOptions& options) {
  return {
      Verb::kApply,
      resource,
      "PATCH",
      ObjectPath(resource, namespace_name, name, options.subresource) +
          Query({{"fieldManager", options.field_manager}, {"force", options.force ? "true" : ""}}),
      "application/apply-patch+yaml",
      std::move(body)};
}

Request Update(const ResourceType& resource,
               std::string_view namespace_name,
               std::string_view name,
               std::string body,
               std::string_view subresource) {
  return {Verb::kUpdate,
          resource,
          "PUT",
          ObjectPath(resource, namespace_name, name, subresource),
          std::string(kJsonType),
          std::move(body)};
}

Request MergePatch(const ResourceType& resource,
                   std::string_view namespace_name,
                   std::string_view name,
                   std::string body,
                   std::string_view subresource) {
  return {Verb::kPatch,
          resource,
          "PATCH",
          ObjectPath(resource, namespace_name, name, subresource),
          "application/merge-patch+json",
          std::move(body)};
}

Request Delete(const ResourceType& resource,
               std::string_view namespace_name,
               std::string_view name,
               const DeleteOptions& options) {
  Json body = {{"apiVersion", "v1"},
               {"kind", "DeleteOptions"},
               {"propagationPolicy", options.is_foreground ? "Foreground" : "Background"}};
  if (options.grace) {
    body["gracePeriodSeconds"] = options.grace->count();
  }
  if (!options.uid.empty()) {
    body["preconditions"]["uid"] = options.uid;
  }
  return {Verb::kDelete,
          resource,
          "DELETE",
          ObjectPath(resource, namespace_name, name),
          std::string(kJsonType),
          DumpJson(body)};
}

std::string FormatMicroTime(WallTime when) {
  std::string text = FormatRfc3339(when);
  LOCKSTEP_CHECK(text.ends_with('Z'), "times must be written in UTC");
  text.pop_back();
  return text + "000Z";
}

bool MayHaveHappened(const CallResult& result) {
  if (const auto* fault = std::get_if<Fault>(&result)) {
    return fault->request_sent;
  }
  return std::get<Reply>(result).status >= kServerErrorMin;
}

Error ToError(const CallResult& result) {
  if (const auto* fault = std::get_if<Fault>(&result)) {
    return ErrorOfFault(*fault);
  }
  const Reply& reply = std::get<Reply>(result);
  LOCKSTEP_CHECK(!reply.is_success(), "ToError was called for a call that succeeded");
  StatusText text = ReadStatusText(reply);
  return {CodeOf(reply.status, text), std::move(text.message)};
}

Result<Reply> RequireSuccess(CallResult result) {
  if (auto* reply = std::get_if<Reply>(&result); reply != nullptr && reply->is_success()) {
    return std::move(*reply);
  }
  return ToError(result);
}

}  // namespace lockstep::control::kube
