#include "operator/kubeclient/kube/watch_event.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::control::kube {
namespace {

TEST(WatchEvent, ReadsTypeAndObjectInEitherOrder) {
  struct Row {
    const char* word;
    WatchEventType type;
  };

  const Row rows[] = {{"ADDED", WatchEventType::kAdded},
                      {"MODIFIED", WatchEventType::kModified},
                      {"DELETED", WatchEventType::kDeleted},
                      {"BOOKMARK", WatchEventType::kBookmark},
                      {"ERROR", WatchEventType::kError},
                      {"SOMETHING", WatchEventType::kUnknown}};
  const std::string object = R"({"a":"}\"","b":[1,{"object":2}]})";
  for (const Row& row : rows) {
    const std::string type = std::string(R"("type":")") + row.word + "\"";
    for (const std::string& line :
         {"{" + type + ",\"object\":" + object + "}", "{\"object\":" + object + "," + type + "}"}) {
      const Result<WatchEvent> event = ParseWatchEvent(line);
      ASSERT_TRUE(event.ok()) << line << event.error().ToString();
      EXPECT_EQ(event->type, row.type) << line;
      EXPECT_EQ(event->object, object) << line;
    }
  }
}

TEST(WatchEvent, WhatIsNoEventIsRefused) {
  for (const char* line : {"",
                           "x",
                           "{}",
                           "[]",
                           R"({"type":"ADDED"})",
                           R"({"type":"ADDED","object":7})",
                           R"({"type":7,"object":{}})",
                           R"({"type":"ADDED","object":{})",
                           R"({"type":"ADDED","object":{}} {})"}) {
    EXPECT_FALSE(ParseWatchEvent(line).ok()) << line;
  }
}

TEST(WatchEvent, BookmarksTellHowFarAndWhetherTheListIsWhole) {
  const Bookmark plain =
      DecodeBookmark(R"({"kind":"Pod","metadata":{"resourceVersion":"12"}})").value();
  EXPECT_EQ(plain.resource_version, "12");
  EXPECT_FALSE(plain.ends_initial_events);
  const Bookmark end =
      DecodeBookmark(R"({"metadata":{"annotations":{"k8s.io/initial-events-end":"true","x":"y"},)"
                     R"("resourceVersion":"13"}})")
          .value();
  EXPECT_EQ(end.resource_version, "13");
  EXPECT_TRUE(end.ends_initial_events);
  EXPECT_FALSE(DecodeBookmark(R"({"metadata":{}})").ok());
  EXPECT_FALSE(DecodeBookmark(R"({})").ok());
}

TEST(ApiStatus, ReadsWhatTheServerSays) {
  const ApiStatus expired = DecodeApiStatus(
      R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",)"
      R"j("message":"too old resource version: 1 (5)","reason":"Expired","code":410})j");
  EXPECT_EQ(expired.code, 410);
  EXPECT_EQ(expired.reason, "Expired");
  EXPECT_EQ(expired.message, "too old resource version: 1 (5)");
  EXPECT_FALSE(expired.is_version_too_large);
  const ApiStatus too_large = DecodeApiStatus(
      R"({"reason":"Timeout","code":504,"details":{"retryAfterSeconds":1,"causes":)"
      R"([{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}})");
  EXPECT_TRUE(too_large.is_version_too_large);
  EXPECT_EQ(too_large.retry_after, std::chrono::seconds(1));
  EXPECT_EQ(DecodeApiStatus("<html>").code, 0);
  EXPECT_EQ(DecodeApiStatus(R"({"code":"x"})").code, 0);
}

}  // namespace
}  // namespace lockstep::control::kube
