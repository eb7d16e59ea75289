#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "tests/sim/api_server.h"

// Watches of the simulated API server.
namespace lockstep::control::sim {
namespace {

std::string EventLine(std::string_view type, const std::string& object) {
  return R"({"type":")" + std::string(type) + R"(","object":)" + object + "}\n";
}

std::string BookmarkLine(const Collection& collection, int64_t version, bool ends_initial_events) {
  Json metadata = {{"resourceVersion", std::to_string(version)}};
  if (ends_initial_events) {
    metadata["annotations"]["k8s.io/initial-events-end"] = "true";
  }
  return EventLine("BOOKMARK", ObjectText(collection, {{"metadata", metadata}}));
}

}  // namespace

ApiServer::WatchStart ApiServer::OpenWatch(const kube::Request& request) {
  const std::optional<Route> route = RouteOf(request);
  if (!route.has_value()) {
    return {NoSuchResourceReply(), 0};
  }
  const Result<Selector> labels = ParseSelector(route->Parameter("labelSelector"));
  const Result<Selector> fields = ParseSelector(route->Parameter("fieldSelector"));
  if (!labels.ok() || !fields.ok()) {
    return {StatusReply(400, "BadRequest", "unable to parse requirement"), 0};
  }
  const bool is_streaming_list = route->Parameter("sendInitialEvents") == "true";
  if (is_streaming_list && !has_streaming_lists) {
    return {StatusReply(422,
                        "Invalid",
                        "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch"),
            0};
  }
  WatchState watch;
  watch.collection = route->collection;
  watch.namespace_name = route->key.namespace_name;
  watch.labels = *labels;
  watch.fields = *fields;
  watch.wants_bookmarks = route->Parameter("allowWatchBookmarks") == "true";
  const std::string& version = route->Parameter("resourceVersion");
  std::from_chars(version.data(), version.data() + version.size(), watch.version);
  if (watch.version > store_.version() && is_streaming_list) {
    Json body = ParseJson(StatusReply(504, "Timeout", "Too large resource version").body).value();
    body["details"]["causes"] = Json::array({{{"reason", "ResourceVersionTooLarge"}}});
    return {{504, DumpJson(body), std::nullopt}, 0};
  }
  if (is_streaming_list || version.empty() || version == "0") {
    for (const auto& [key, object] : route->collection->objects) {
      if ((watch.namespace_name.empty() || watch.namespace_name == key.namespace_name) &&
          MatchesLabels(*object, watch.labels) && MatchesFields(*object, watch.fields)) {
        watch.initial += EventLine("ADDED", ObjectText(*route->collection, *object));
      }
    }
    watch.version = store_.version();
    if (is_streaming_list) {
      watch.initial += BookmarkLine(*route->collection, watch.version, true);
    }
  }
  const int id = next_watch_++;
  watches_[id] = std::move(watch);
  return {{200, "", std::nullopt}, id};
}

std::string ApiServer::ReadWatch(int id, std::size_t changes_max) {
  WatchState& watch = watches_.at(id);
  std::string bytes = std::exchange(watch.initial, std::string());
  const Collection& collection = *watch.collection;
  if (watch.is_over) {
    return bytes;
  }
  if (watch.version < collection.forgotten) {
    watch.is_over = true;
    return bytes +
           EventLine(
               "ERROR",
               StatusReply(
                   410, "Expired", "too old resource version: " + std::to_string(watch.version))
                   .body);
  }
  const auto is_selected = [&watch](const kube::ObjectKey& key, const ObjectPtr& object) {
    return object != nullptr &&
           (watch.namespace_name.empty() || watch.namespace_name == key.namespace_name) &&
           MatchesLabels(*object, watch.labels) && MatchesFields(*object, watch.fields);
  };
  std::size_t changes = 0;
  auto change =
      std::upper_bound(collection.history.begin(),
                       collection.history.end(),
                       watch.version,
                       [](int64_t version, const Change& one) { return version < one.version; });
  for (; change != collection.history.end() && changes < changes_max; ++change) {
    watch.version = change->version;
    const bool was = is_selected(change->key, change->before);
    const bool is = is_selected(change->key, change->after);
    if (!was && !is) {
      continue;
    }
    ++changes;
    if (is) {
      bytes += EventLine(was ? "MODIFIED" : "ADDED", ObjectText(collection, *change->after));
    } else {
      // The last state that was selected, at the version of the change that ended it.
      Json last = *change->before;
      last["metadata"]["resourceVersion"] = std::to_string(change->version);
      bytes += EventLine("DELETED", ObjectText(collection, last));
    }
  }
  if (change == collection.history.end()) {
    watch.version = store_.version();  // told everything: no history is needed for what is past
  }
  return bytes;
}

std::string ApiServer::Bookmark(int id) {
  WatchState& watch = watches_.at(id);
  const bool is_behind =
      !watch.initial.empty() || (!watch.collection->history.empty() &&
                                 watch.collection->history.back().version > watch.version);
  if (is_behind || watch.is_over || !watch.wants_bookmarks ||
      watch.version < watch.collection->forgotten) {
    return "";
  }
  watch.version = store_.version();
  return BookmarkLine(*watch.collection, watch.version, false);
}

}  // namespace lockstep::control::sim
