#include "tests/sim/api_server.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace lockstep::control::sim {
namespace {

std::string Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      int byte = 0;
      std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
      plain += static_cast<char>(byte);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::vector<std::string> PathParts(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::size_t slash = std::min(path.find('/'), path.size());
    parts.push_back(Unescaped(path.substr(0, slash)));
    path.remove_prefix(slash);
  }
  return parts;
}

std::map<std::string, std::string> QueryOf(std::string_view query) {
  std::map<std::string, std::string> parameters;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    parameters[Unescaped(pair.substr(0, equals))] =
        Unescaped(pair.substr(std::min(equals + 1, pair.size())));
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return parameters;
}

// "namespaces" in a path names the namespace that follows.
std::string TakeNamespace(std::vector<std::string>* parts) {
  if (parts->size() < 3 || parts->front() != "namespaces") {
    return "";
  }
  std::string name = (*parts)[1];
  parts->erase(parts->begin(), parts->begin() + 2);
  return name;
}

int64_t NumberOf(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

const std::string& Route::Parameter(const std::string& name) const {
  static const std::string kNone;
  const auto found = query.find(name);
  return found == query.end() ? kNone : found->second;
}

std::optional<Route> ApiServer::RouteOf(const kube::Request& request) {
  const std::string_view target = request.target;
  const std::size_t mark = std::min(target.find('?'), target.size());
  std::vector<std::string> parts = PathParts(target.substr(0, mark));
  const bool is_core = !parts.empty() && parts.front() == "api";
  const std::size_t head = is_core ? 2 : 3;  // api/VERSION or apis/GROUP/VERSION
  if (parts.size() <= head) {
    return std::nullopt;
  }
  const std::string group = is_core ? "" : parts[1];
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(head));
  Route route;
  route.key.namespace_name = TakeNamespace(&parts);
  route.collection = store_.Find(group, parts.front());
  if (route.collection == nullptr || parts.size() > 3) {
    return std::nullopt;
  }
  route.key.name = parts.size() > 1 ? parts[1] : "";
  route.subresource = parts.size() > 2 ? parts[2] : "";
  route.query = QueryOf(target.substr(std::min(mark + 1, target.size())));
  return route;
}

kube::Reply ApiServer::Handle(const kube::Request& request, WallTime now) {
  const std::optional<Route> route = RouteOf(request);
  if (!route.has_value()) {
    return NoSuchResourceReply();
  }
  if (request.method == "GET") {
    return route->key.name.empty() ? List(*route) : Read(*route);
  }
  const Result<Json> body = ParseJson(request.body.empty() ? "{}" : request.body);
  if (!body.ok() || !body->is_object()) {
    return StatusReply(400, "BadRequest", "the body is not an object");
  }
  if (request.method == "POST") {
    return Create(*route, *body, now);
  }
  if (request.method == "PUT") {
    return Update(*route, *body, now);
  }
  if (request.method == "DELETE") {
    return Delete(route->collection, route->key, *body, now);
  }
  return request.content_type == "application/apply-patch+yaml" ? Apply(*route, *body, now)
                                                                : Patch(*route, *body, now);
}

kube::Reply ApiServer::Read(const Route& route) const {
  const auto found = route.collection->objects.find(route.key);
  return found == route.collection->objects.end()
             ? NotFoundReply(*route.collection, route.key.name)
             : ObjectReply(200, *route.collection, *found->second);
}

// A token is the version of the list and the last key that was told: "VERSION/NAMESPACE/NAME".
kube::Reply ApiServer::List(const Route& route) const {
  const Collection& collection = *route.collection;
  const Result<Selector> labels = ParseSelector(route.Parameter("labelSelector"));
  const Result<Selector> fields = ParseSelector(route.Parameter("fieldSelector"));
  if (!labels.ok() || !fields.ok()) {
    return StatusReply(400, "BadRequest", "unable to parse requirement");
  }
  const std::string& asked = route.Parameter("resourceVersion");
  const std::string& token = route.Parameter("continue");
  int64_t version = store_.version();
  kube::ObjectKey after;
  if (!token.empty()) {
    const std::vector<std::string> parts = PathParts("/" + token);
    version = parts.size() == 3 ? NumberOf(parts[0]) : 0;
    if (parts.size() != 3 || version < collection.forgotten) {
      return StatusReply(410, "Expired", "The provided continue parameter is too old");
    }
    after = {parts[1], parts[2]};
  } else if (NumberOf(asked) > store_.version()) {
    kube::Reply reply = StatusReply(504, "Timeout", "Too large resource version: " + asked);
    Json body = ParseJson(reply.body).value();
    body["details"] = {{"causes", Json::array({{{"reason", "ResourceVersionTooLarge"}}})},
                       {"retryAfterSeconds", 1}};
    reply.body = DumpJson(body);
    return reply;
  }
  const bool is_from_cache = asked == "0" && !pages_everything;
  if (is_from_cache) {
    version = std::max(version - cache_lag, std::min(collection.forgotten, version));
  }
  const auto limit =
      static_cast<std::size_t>(is_from_cache ? 0 : NumberOf(route.Parameter("limit")));
  Json metadata = {{"resourceVersion", std::to_string(version)}};
  std::string items;
  std::size_t count = 0;
  for (const auto& [key, object] : store_.At(collection, version)) {
    const bool is_selected =
        (route.key.namespace_name.empty() || route.key.namespace_name == key.namespace_name) &&
        (token.empty() || after < key) && MatchesLabels(*object, *labels) &&
        MatchesFields(*object, *fields);
    if (!is_selected) {
      continue;
    }
    if (limit > 0 && count == limit) {
      metadata["continue"] =
          std::to_string(version) + "/" + after.namespace_name + "/" + after.name;
      break;
    }
    // Only custom objects say what they are inside a list.
    items += (items.empty() ? "" : ",") +
             (IsCustomKind(collection)             ? ObjectText(collection, *object)
              : collection.kind == "ResourceQuota" ? DumpJson(WithUse(*object))
                                                   : DumpJson(*object));
    after = key;
    ++count;
  }
  return {200,
          R"({"kind":")" + collection.kind + R"(List","apiVersion":")" + collection.api_version +
              R"(","metadata":)" + DumpJson(metadata) + R"(,"items":[)" + items + "]}",
          std::nullopt};
}

bool ApiServer::Edit(const kube::ResourceType& type,
                     const kube::ObjectKey& key,
                     const std::function<void(Json*)>& change) {
  const ObjectPtr before = store_.Get(type, key);
  if (before == nullptr) {
    return false;
  }
  Json after = *before;
  change(&after);
  if (after != *before) {
    store_.Put(&store_.Of(type), key, std::move(after));
  }
  return true;
}

bool IsCustomKind(const Collection& collection) {
  return collection.kind == "TrainingJob" || collection.kind == "ProvisioningRequest";
}

std::string ObjectText(const Collection& collection, const Json& object) {
  std::string text = DumpJson(object);
  return R"({"kind":")" + collection.kind + R"(","apiVersion":")" + collection.api_version +
         (object.empty() ? "\"}" : "\"," + text.substr(1));
}

kube::Reply ObjectReply(int code, const Collection& collection, const Json& object) {
  return {code, ObjectText(collection, object), std::nullopt};
}

kube::Reply StatusReply(int code, std::string_view reason, const std::string& message) {
  const bool is_success = code >= 200 && code < 300;
  Json body = {{"kind", "Status"},
               {"apiVersion", "v1"},
               {"metadata", Json::object()},
               {"status", is_success ? "Success" : "Failure"}};
  if (!is_success) {
    body["message"] = message;
    body["reason"] = reason;
    body["code"] = code;
  }
  return {code, DumpJson(body), std::nullopt};
}

std::string QualifiedName(const Collection& collection) {
  const std::string plural(collection.type.plural);
  return collection.type.group.empty() ? plural : plural + "." + std::string(collection.type.group);
}

std::string QualifiedKind(const Collection& collection) {
  return collection.type.group.empty() ? collection.kind
                                       : collection.kind + "." + std::string(collection.type.group);
}

kube::Reply NoSuchResourceReply() {
  return {404, "404 page not found\n", std::nullopt};
}

kube::Reply NotFoundReply(const Collection& collection, const std::string& name) {
  return StatusReply(404, "NotFound", QualifiedName(collection) + " \"" + name + "\" not found");
}

kube::Reply ForbiddenReply(const Collection& collection,
                           const std::string& name,
                           const std::string& why) {
  return StatusReply(
      403, "Forbidden", QualifiedName(collection) + " \"" + name + "\" is forbidden: " + why);
}

kube::Reply InvalidReply(const Collection& collection,
                         const std::string& name,
                         const std::string& why) {
  // Our own kind is refused by its plural.
  const std::string what =
      collection.kind == "TrainingJob" ? QualifiedName(collection) : QualifiedKind(collection);
  return StatusReply(422, "Invalid", what + " \"" + name + "\" is invalid: " + why);
}

kube::Reply AlreadyExistsReply(const Collection& collection, const Json& object) {
  return StatusReply(409,
                     "AlreadyExists",
                     (IsDeleting(object) ? "object is being deleted: " : "") +
                         QualifiedName(collection) + " \"" + TextAt(object, "metadata.name") +
                         "\" already exists");
}

kube::Reply ConflictReply(const std::string& qualified,
                          const std::string& name,
                          const std::string& why) {
  return StatusReply(409,
                     "Conflict",
                     "Operation cannot be fulfilled on " + qualified + " \"" + name + "\": " + why);
}

}  // namespace lockstep::control::sim
