#include "operator/kubeclient/kube/watch_event.h"

#include <utility>

#include "common/json/enum_names.h"
#include "operator/kubeclient/kube/json_scan.h"

namespace lockstep::control::kube {
namespace {

using scan::Value;

constexpr EnumNames<WatchEventType, 5> kTypeNames = {{
    {WatchEventType::kAdded, "ADDED"},
    {WatchEventType::kModified, "MODIFIED"},
    {WatchEventType::kDeleted, "DELETED"},
    {WatchEventType::kBookmark, "BOOKMARK"},
    {WatchEventType::kError, "ERROR"},
}};

// Source: k8s.io/apimachinery, metav1.InitialEventsAnnotationKey.
constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";

// Source: k8s.io/apimachinery, metav1.CauseTypeResourceVersionTooLarge.
constexpr std::string_view kTooLarge = "ResourceVersionTooLarge";

void ReadDetails(Value details, ApiStatus* status) {
  scan::ForEachField(details, [&](std::string_view key, Value value) {
    if (key == "retryAfterSeconds") {
      const int64_t after_seconds = scan::Integer(value);
      if (after_seconds > 0) {
        status->retry_after = std::chrono::seconds(after_seconds);
      }
    } else if (key == "causes") {
      scan::ForEachElement(value, [&](Value cause) {
        scan::ForEachField(cause, [&](std::string_view name, Value text) {
          if (name == "reason" && scan::Text(text) == kTooLarge) {
            status->is_version_too_large = true;
          }
        });
      });
    }
  });
}

}  // namespace

Result<WatchEvent> ParseWatchEvent(std::string_view line) {
  WatchEvent event;
  bool has_object = false;
  const Status scanned = scan::ScanObject(line, [&](std::string_view key, Value value) {
    if (key == "type") {
      event.type = ValueOf(kTypeNames, scan::Text(value)).value_or(WatchEventType::kUnknown);
    } else if (key == "object") {
      event.object = std::string(scan::RawObject(value));
      has_object = true;
    }
  });
  if (!scanned.ok()) {
    return scanned.error();
  }
  if (!has_object) {
    return Error(ErrorCode::kCorrupt, "a watch event without an object");
  }
  return event;
}

Result<Bookmark> DecodeBookmark(std::string_view object) {
  Bookmark bookmark;
  LOCKSTEP_RETURN_IF_ERROR(scan::ScanObject(object, [&](std::string_view key, Value value) {
    if (key != "metadata") {
      return;
    }
    scan::ForEachField(value, [&](std::string_view name, Value field) {
      if (name == "resourceVersion") {
        bookmark.resource_version = std::string(scan::Text(field));
      } else if (name == "annotations") {
        const auto annotations = scan::TextMap(field, kInitialEventsEnd);
        const auto found = annotations.find(std::string(kInitialEventsEnd));
        bookmark.ends_initial_events = found != annotations.end() && found->second == "true";
      }
    });
  }));
  if (bookmark.resource_version.empty()) {
    return Error(ErrorCode::kCorrupt, "a bookmark without a resource version");
  }
  return bookmark;
}

ApiStatus DecodeApiStatus(std::string_view body) {
  ApiStatus status;
  const Status scanned = scan::ScanObject(body, [&](std::string_view key, Value value) {
    if (key == "code") {
      status.code = static_cast<int>(scan::Integer(value));
    } else if (key == "reason") {
      status.reason = std::string(scan::Text(value));
    } else if (key == "message") {
      status.message = std::string(scan::Text(value));
    } else if (key == "details") {
      ReadDetails(value, &status);
    }
  });
  return scanned.ok() ? status : ApiStatus();
}

}  // namespace lockstep::control::kube
