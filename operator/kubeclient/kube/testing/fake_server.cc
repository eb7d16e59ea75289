#include "operator/kubeclient/kube/testing/fake_server.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::control::kube {
namespace {

ReflectorOptions OptionsOf(bool wants_streaming_list) {
  ReflectorOptions options;
  options.selection.resource = kPods;
  options.wants_streaming_list = wants_streaming_list;
  return options;
}

std::map<std::string, std::string> QueryOf(const std::string& target) {
  std::map<std::string, std::string> query;
  std::size_t begin = target.find('?');
  while (begin != std::string::npos) {
    const std::size_t end = target.find('&', begin + 1);
    const std::string parameter = target.substr(begin + 1, end - begin - 1);
    const std::size_t equals = parameter.find('=');
    query[parameter.substr(0, equals)] = parameter.substr(equals + 1);
    begin = end;
  }
  return query;
}

std::string Describe(const ObjectUpdate<RawObject>& update) {
  if (const auto* upserted = std::get_if<Upserted<RawObject>>(&update)) {
    return "put " + upserted->item.key.name + "@" + upserted->item.resource_version;
  }
  if (const auto* deleted = std::get_if<Deleted<RawObject>>(&update)) {
    return "delete " + deleted->item.key.name + "@" + deleted->item.resource_version;
  }
  std::string text = "replace";
  for (const Item<RawObject>& item : std::get<Replaced<RawObject>>(update).items) {
    text += (text == "replace" ? " " : ",") + item.key.name + "@" + item.resource_version;
  }
  return text;
}

}  // namespace

std::string ObjectText(const std::string& name, int version) {
  return R"({"metadata":{"name":")" + name + R"(","namespace":"ns","uid":"u-)" + name +
         R"(","resourceVersion":")" + std::to_string(version) + R"("}})";
}

std::string WatchEventText(const std::string& type, const std::string& name, int version) {
  return R"({"type":")" + type + R"(","object":)" + ObjectText(name, version) + "}\n";
}

std::string BookmarkText(int version, bool ends_initial_events) {
  const std::string annotations =
      ends_initial_events ? R"("annotations":{"k8s.io/initial-events-end":"true"},)" : "";
  return R"({"type":"BOOKMARK","object":{"kind":"Pod","metadata":{)" + annotations +
         R"("resourceVersion":")" + std::to_string(version) + "\"}}}\n";
}

std::string ErrorText(int code, const std::string& reason) {
  return R"({"type":"ERROR","object":)" + StatusText(code, reason) + "}\n";
}

std::string ListText(const std::vector<std::string>& objects,
                     const std::string& version,
                     const std::string& token) {
  std::string items;
  for (const std::string& object : objects) {
    items += (items.empty() ? "" : ",") + object;
  }
  const std::string more = token.empty() ? "" : R"(,"continue":")" + token + "\"";
  return R"({"kind":"PodList","metadata":{"resourceVersion":")" + version + "\"" + more +
         R"(},"items":[)" + items + "]}";
}

std::string StatusText(int code, const std::string& reason, bool is_version_too_large) {
  const std::string details =
      is_version_too_large
          ? R"(,"details":{"retryAfterSeconds":1,"causes":[{"reason":"ResourceVersionTooLarge"}]})"
          : "";
  return R"({"kind":"Status","status":"Failure","message":"m","reason":")" + reason + "\"" +
         details + R"(,"code":)" + std::to_string(code) + "}";
}

ReflectorDriver::ReflectorDriver(bool wants_streaming_list, uint64_t seed)
    : reflector_(OptionsOf(wants_streaming_list), DecodeRaw, seed) {}

std::string ReflectorDriver::Ask() {
  const ReflectorCore::Next next = reflector_.NextRequest(now_);
  waited_ = std::max(Duration::zero(), next.not_before - now_);
  now_ += waited_;
  std::map<std::string, std::string> query = QueryOf(next.request.target);
  if (next.request.verb == Verb::kList) {
    std::string text = query.contains("continue") ? "list continue=" + query["continue"]
                                                  : "list rv=" + query["resourceVersion"];
    return text + (query.contains("limit") ? " limit=" + query["limit"] : "");
  }
  const bool is_stream = query["sendInitialEvents"] == "true";
  return (is_stream ? "stream rv=" : "watch rv=") + query["resourceVersion"];
}

std::string ReflectorDriver::Answer(int http_status,
                                    std::string_view body,
                                    const std::optional<Fault>& fault) {
  Status(http_status);
  Bytes(body);
  return End(fault);
}

std::string ReflectorDriver::End(const std::optional<Fault>& fault) {
  reflector_.OnEnd(fault, now_, &updates_);
  std::string text;
  for (const ObjectUpdate<RawObject>& update : std::exchange(updates_, {})) {
    text += (text.empty() ? "" : "; ") + Describe(update);
  }
  return text;
}

}  // namespace lockstep::control::kube
