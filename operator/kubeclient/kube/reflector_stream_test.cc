#include <string>

#include <gtest/gtest.h>

#include "operator/kubeclient/kube/testing/fake_server.h"

namespace lockstep::control::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string InitialEvents() {
  return WatchEventText("ADDED", "b", 7) + WatchEventText("ADDED", "a", 3) +
         WatchEventText("ADDED", "b", 7);
}

// Checklist: WatchList happy path.
TEST(ReflectorStreamingList, CollectsUntilTheEndAndGoesOnInTheSameStream) {
  ReflectorDriver driver(true);
  EXPECT_EQ(driver.Ask(), "stream rv=");
  driver.Status(200);
  EXPECT_TRUE(driver.Bytes(InitialEvents()));
  EXPECT_FALSE(driver.reflector().has_synced());
  EXPECT_TRUE(driver.Bytes(BookmarkText(10, true)));
  EXPECT_TRUE(driver.reflector().has_synced());
  EXPECT_TRUE(driver.Bytes(WatchEventText("DELETED", "a", 12)));
  EXPECT_EQ(driver.End(), "replace a@3,b@7; delete a@12");
  EXPECT_EQ(driver.Ask(), "watch rv=12");
  EXPECT_EQ(driver.waited(), Duration::zero());
  EXPECT_EQ(driver.reflector().counts().lists, 1);
}

TEST(ReflectorStreamingList, WhatIsGoneBeforeTheEndIsNotInTheState) {
  ReflectorDriver driver(true);
  driver.Ask();
  EXPECT_EQ(
      driver.Answer(200,
                    InitialEvents() + BookmarkText(8, false) + WatchEventText("DELETED", "a", 9) +
                        WatchEventText("MODIFIED", "b", 10) + BookmarkText(10, true)),
      "replace b@10");
}

TEST(ReflectorStreamingList, EveryCutOfTheStreamGivesTheSame) {
  const std::string body =
      InitialEvents() + BookmarkText(10, true) + WatchEventText("ADDED", "c", 11) + "\r\n";
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    ReflectorDriver driver(true);
    driver.Ask();
    driver.Status(200);
    EXPECT_TRUE(driver.Bytes(std::string_view(body).substr(0, cut)));
    EXPECT_TRUE(driver.Bytes(std::string_view(body).substr(cut)));
    EXPECT_EQ(driver.End(), "replace a@3,b@7; put c@11") << cut;
  }
}

// Checklist: stream cut before the bookmark.
TEST(ReflectorStreamingList, CutBeforeItsEndItIsThrownAwayAndListedThisOnce) {
  const std::string body = InitialEvents() + BookmarkText(10, true);
  for (std::size_t cut = 0; cut < body.size(); ++cut) {
    ReflectorDriver driver(true);
    driver.Ask();
    EXPECT_EQ(driver.Answer(200, std::string_view(body).substr(0, cut), kReset), "") << cut;
    EXPECT_EQ(driver.Ask(), "list rv=0 limit=500");
    EXPECT_GE(driver.waited(), milliseconds(800));
    EXPECT_EQ(driver.Answer(200, ListText({ObjectText("z", 2)}, "11")), "replace z@2");
  }
  ReflectorDriver driver(true);
  driver.Ask();
  driver.Answer(200, InitialEvents(), kReset);
  driver.Ask();
  driver.Answer(200, ListText({}, "11"));
  driver.Ask();
  driver.Answer(200, BookmarkText(12, false) + ErrorText(410, "Expired"));
  EXPECT_EQ(driver.Ask(), "stream rv=12") << "the next state is streamed again";
}

// Checklist: server that ignores the parameter; end bookmark missing.
TEST(ReflectorStreamingList, AServerThatIgnoresItIsListedAndSoonNoLongerAsked) {
  ReflectorDriver driver(true);
  EXPECT_EQ(driver.Ask(), "stream rv=");
  driver.Pass(seconds(60));
  EXPECT_EQ(driver.Answer(200, InitialEvents()), "");
  EXPECT_EQ(driver.Ask(), "list rv=0 limit=500");
  EXPECT_EQ(driver.waited(), Duration::zero());
  driver.Answer(200, ListText({}, "11"));
  driver.Ask();
  driver.Answer(200, BookmarkText(12, false) + ErrorText(410, "Expired"));
  EXPECT_EQ(driver.Ask(), "stream rv=12");
  driver.Answer(200, BookmarkText(13, false));
  EXPECT_EQ(driver.Ask(), "list rv=12");
  driver.Answer(200, ListText({}, "14"));
  driver.Ask();
  driver.Answer(200, BookmarkText(15, false) + ErrorText(410, "Expired"));
  EXPECT_EQ(driver.Ask(), "list rv=15");
}

// Checklist: 422.
TEST(ReflectorStreamingList, AServerThatRefusesItIsListedFromThenOn) {
  for (const int code : {400, 422}) {
    ReflectorDriver driver(true);
    driver.Ask();
    driver.Answer(code, StatusText(code, "Invalid"));
    EXPECT_EQ(driver.Ask(), "list rv=0 limit=500");
    EXPECT_EQ(driver.waited(), Duration::zero());
    driver.Answer(200, ListText({}, "11"));
    driver.Ask();
    driver.Answer(200, BookmarkText(12, false) + ErrorText(410, "Expired"));
    EXPECT_EQ(driver.Ask(), "list rv=12");
  }
}

TEST(ReflectorStreamingList, ABusyServerIsAskedAgainForTheSame) {
  ReflectorDriver driver(true);
  driver.Ask();
  driver.Answer(429, StatusText(429, "TooManyRequests"));
  EXPECT_EQ(driver.Ask(), "stream rv=");
  EXPECT_GE(driver.waited(), milliseconds(800));
  driver.End(Fault{FaultKind::kRefused, false, ""});
  EXPECT_EQ(driver.Ask(), "stream rv=");
}

TEST(ReflectorStreamingList, AVersionThatIsNotThereIsGivenUp) {
  for (const bool is_expired : {false, true}) {
    ReflectorDriver driver(true);
    driver.Ask();
    driver.Answer(200, BookmarkText(10, true));
    driver.Ask();
    driver.Answer(200, BookmarkText(11, false) + ErrorText(410, "Expired"));
    EXPECT_EQ(driver.Ask(), "stream rv=11");
    if (is_expired) {
      driver.Answer(200, ErrorText(410, "Expired"));
    } else {
      driver.Answer(504, StatusText(504, "Timeout", true));
    }
    EXPECT_EQ(driver.Ask(), "stream rv=");
    EXPECT_EQ(driver.waited(), Duration::zero());
  }
}

}  // namespace
}  // namespace lockstep::control::kube
