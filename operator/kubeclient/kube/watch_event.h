#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace lockstep::control::kube {

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark, kError, kUnknown };

// One line of a watch.
struct WatchEvent {
  WatchEventType type = WatchEventType::kUnknown;
  std::string object;  // its bytes
};

// Errors: kCorrupt (not an event).
Result<WatchEvent> ParseWatchEvent(std::string_view line);

// What a bookmark says: how far the watch has come without a change.
struct Bookmark {
  std::string resource_version;
  bool ends_initial_events = false;  // of a streaming list: the state is whole now
};

// Errors: kCorrupt.
Result<Bookmark> DecodeBookmark(std::string_view object);

// The server's answer to a call that failed: an object of kind "Status".
struct ApiStatus {
  int code = 0;
  std::string reason;
  std::string message;
  std::optional<std::chrono::seconds> retry_after;
  bool is_version_too_large = false;  // the asked resource version is in the server's future
};

// Reads what there is; an object of another kind, or no JSON, gives an empty status.
ApiStatus DecodeApiStatus(std::string_view body);

}  // namespace lockstep::control::kube
