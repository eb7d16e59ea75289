#include "operator/kubeclient/kube/reflector.h"

#include <string>

#include <gtest/gtest.h>

#include "operator/kubeclient/kube/testing/fake_server.h"

namespace lockstep::control::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const Fault kRefused{FaultKind::kRefused, false, "nobody listens"};

// A reflector that has listed at version 10 and asks for a watch next.
ReflectorDriver Listed() {
  ReflectorDriver driver(false);
  EXPECT_EQ(driver.Ask(), "list rv=0 limit=500");
  EXPECT_EQ(driver.Answer(200, ListText({ObjectText("a", 3), ObjectText("b", 7)}, "10")),
            "replace a@3,b@7");
  return driver;
}

// Checklist: RV=0 list.
TEST(ReflectorList, BeginsWithWhateverTheServerHasAndWatchesFromThere) {
  ReflectorDriver driver = Listed();
  EXPECT_TRUE(driver.reflector().has_synced());
  EXPECT_EQ(driver.Ask(), "watch rv=10");
  EXPECT_EQ(driver.waited(), Duration::zero());
  driver.Pass(seconds(5));
  EXPECT_EQ(driver.Answer(200,
                          WatchEventText("ADDED", "c", 12) + WatchEventText("MODIFIED", "a", 13) +
                              WatchEventText("DELETED", "b", 15)),
            "put c@12; put a@13; delete b@15");
  EXPECT_EQ(driver.Ask(), "watch rv=15");
  EXPECT_EQ(driver.waited(), Duration::zero());
}

// Checklist: paging.
TEST(ReflectorList, PagesMakeOneStateAndLaterListsArePagedToo) {
  ReflectorDriver driver(false);
  EXPECT_EQ(driver.Ask(), "list rv=0 limit=500");
  EXPECT_EQ(driver.Answer(200, ListText({ObjectText("a", 3)}, "10", "t1")), "");
  EXPECT_FALSE(driver.reflector().has_synced());
  EXPECT_EQ(driver.Ask(), "list continue=t1 limit=500");
  EXPECT_EQ(driver.waited(), Duration::zero());
  EXPECT_EQ(driver.Answer(200, ListText({ObjectText("b", 4)}, "10")), "replace a@3,b@4");
  EXPECT_EQ(driver.Ask(), "watch rv=10");
  driver.Pass(seconds(5));
  driver.Answer(200, BookmarkText(20, false) + ErrorText(410, "Expired"));
  EXPECT_EQ(driver.Ask(), "list rv=20 limit=500");
}

// Checklist: continue-token 410.
TEST(ReflectorList, AnExpiredPageRestartsAsOneWholeList) {
  ReflectorDriver driver(false);
  driver.Ask();
  driver.Answer(200, ListText({ObjectText("a", 3)}, "10", "t1"));
  EXPECT_EQ(driver.Ask(), "list continue=t1 limit=500");
  EXPECT_EQ(driver.Answer(410, StatusText(410, "Expired")), "");
  EXPECT_EQ(driver.Ask(), "list rv=0");
  EXPECT_EQ(driver.waited(), Duration::zero());
  EXPECT_EQ(driver.Answer(200, ListText({ObjectText("b", 4)}, "11")), "replace b@4");
}

TEST(ReflectorList, AServerThatPagesForEverAndForgetsIsNotHammered) {
  ReflectorDriver driver(false);
  Duration waited{};
  for (int i = 0; i < 8; ++i) {
    driver.Ask();
    waited += driver.waited();
    driver.Answer(200, ListText({}, "10", "t"));
    driver.Ask();
    waited += driver.waited();
    driver.Answer(410, StatusText(410, "Expired"));
  }
  EXPECT_GT(waited, seconds(20));
}

// Checklist: 410 in stream, relist at lastRV.
TEST(ReflectorWatch, TooOldIsFollowedByAListThatIsAtLeastAsNew) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  driver.Status(200);
  EXPECT_TRUE(driver.Bytes(WatchEventText("MODIFIED", "a", 13)));
  EXPECT_FALSE(driver.Bytes(ErrorText(410, "Expired") + WatchEventText("MODIFIED", "a", 14)));
  EXPECT_EQ(driver.End(Fault{FaultKind::kCancelled, true, ""}), "put a@13");
  EXPECT_EQ(driver.Ask(), "list rv=13");
  EXPECT_EQ(driver.waited(), Duration::zero());
  // Checklist: missed delete found by Replace.
  EXPECT_EQ(driver.Answer(200, ListText({ObjectText("a", 14)}, "20")), "replace a@14");
  EXPECT_EQ(driver.Ask(), "watch rv=20");
  EXPECT_EQ(driver.reflector().counts().relists, 1);
}

// Checklist: HTTP 410.
TEST(ReflectorWatch, TooOldByStatusIsTheSame) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  driver.Answer(200, WatchEventText("MODIFIED", "a", 13), kReset);
  driver.Ask();
  EXPECT_EQ(driver.Answer(410, StatusText(410, "Expired")), "");
  EXPECT_EQ(driver.Ask(), "list rv=13");
}

TEST(ReflectorList, AnExpiredListAsksForTheNewestAtOnce) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  driver.Answer(200, BookmarkText(11, false) + ErrorText(410, "Expired"));
  EXPECT_EQ(driver.Ask(), "list rv=11");
  driver.Answer(410, StatusText(410, "Expired"));
  EXPECT_EQ(driver.Ask(), "list rv= limit=500");
  EXPECT_EQ(driver.waited(), Duration::zero());
  driver.Answer(410, StatusText(410, "Expired"));
  EXPECT_EQ(driver.Ask(), "list rv= limit=500");
  EXPECT_GE(driver.waited(), milliseconds(800));
}

// Checklist: 504 TooLarge. Its Retry-After binds nobody who asks for something else.
TEST(ReflectorList, AVersionFromTheFutureIsGivenUp) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  driver.Answer(200, BookmarkText(11, false) + ErrorText(410, "Expired"));
  EXPECT_EQ(driver.Ask(), "list rv=11");
  driver.Answer(504, StatusText(504, "Timeout", true));
  EXPECT_EQ(driver.Ask(), "list rv= limit=500");
  EXPECT_EQ(driver.waited(), Duration::zero());
  driver.Answer(200, ListText({}, "5"));
  EXPECT_EQ(driver.Ask(), "watch rv=5") << "an older world is the server's word all the same";
}

TEST(ReflectorWatch, AVersionFromTheFutureIsGivenUp) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  driver.Answer(504, StatusText(504, "Timeout", true));
  EXPECT_EQ(driver.Ask(), "list rv= limit=500");
  EXPECT_GE(driver.waited(), seconds(1)) << "the server asked for it, and the list was just read";
}

// Checklist: bookmark-only progress then reconnect: no relist, no duplicate.
TEST(ReflectorWatch, BookmarksMoveTheVersionAndNothingElse) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  EXPECT_EQ(driver.Answer(200, BookmarkText(30, false) + BookmarkText(40, false), kReset), "");
  EXPECT_EQ(driver.Ask(), "watch rv=40");
  EXPECT_EQ(driver.reflector().counts().relists, 0);
  EXPECT_EQ(driver.reflector().counts().lists, 1);
}

// Checklist: ADDED out of RV order.
TEST(ReflectorWatch, FromNoVersionTheFirstEventsDoNotMoveIt) {
  ReflectorDriver driver(false);
  driver.Ask();
  driver.Answer(200, ListText({}, "0"));
  EXPECT_EQ(driver.Ask(), "watch rv=0");
  EXPECT_EQ(
      driver.Answer(200, WatchEventText("ADDED", "b", 9) + WatchEventText("ADDED", "a", 4), kReset),
      "put b@9; put a@4");
  EXPECT_EQ(driver.Ask(), "watch rv=0");
  driver.Answer(200,
                WatchEventText("ADDED", "b", 9) + WatchEventText("MODIFIED", "b", 11) +
                    WatchEventText("ADDED", "c", 12),
                kReset);
  EXPECT_EQ(driver.Ask(), "watch rv=12");
}

// Checklist: half line at EOF.
TEST(ReflectorWatch, HalfALineIsDroppedAndReadAgain) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  const std::string body =
      WatchEventText("MODIFIED", "a", 13) + WatchEventText("MODIFIED", "a", 14);
  EXPECT_EQ(driver.Answer(200,
                          std::string_view(body).substr(0, body.size() - 1),
                          Fault{FaultKind::kTruncated, true, ""}),
            "put a@13");
  EXPECT_EQ(driver.Ask(), "watch rv=13");
}

TEST(ReflectorWatch, EveryCutOfAStreamGivesEachChangeOnce) {
  const std::string body = WatchEventText("ADDED", "c\\\"€", 12) + BookmarkText(13, false) +
                           WatchEventText("DELETED", "b", 15) + WatchEventText("MODIFIED", "a", 16);
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    ReflectorDriver driver = Listed();
    driver.Ask();
    driver.Status(200);
    EXPECT_TRUE(driver.Bytes(std::string_view(body).substr(0, cut)));
    EXPECT_TRUE(driver.Bytes(std::string_view(body).substr(cut)));
    EXPECT_EQ(driver.End(), "put c\"€@12; delete b@15; put a@16") << cut;
    EXPECT_EQ(driver.Ask(), "watch rv=16") << cut;
  }
}

// Checklist: server restart, connection refused.
TEST(ReflectorWatch, BrokenConnectionsBackOffAndGoOnWithoutAList) {
  ReflectorDriver driver = Listed();
  Duration longest{};
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(driver.Ask(), "watch rv=10");
    longest = std::max(longest, driver.waited());
    driver.End(i % 2 == 0 ? kRefused : kReset);
  }
  EXPECT_EQ(driver.reflector().counts().lists, 1);
  EXPECT_EQ(driver.reflector().counts().failures, 12);
  EXPECT_GE(longest, seconds(5));
  EXPECT_LE(longest, seconds(10));
  driver.Pass(minutes(3));
  driver.Ask();
  driver.End(kReset);
  driver.Ask();
  EXPECT_LE(driver.waited(), milliseconds(1600)) << "forgotten after two quiet minutes";
  EXPECT_GE(driver.waited(), milliseconds(800));
}

TEST(ReflectorWatch, AnEmptyWatchThatEndsAtOnceIsAFailure) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  driver.Answer(200, "");
  driver.Ask();
  EXPECT_GE(driver.waited(), milliseconds(800));
  driver.Pass(seconds(2));
  driver.Answer(200, "");
  driver.Ask();
  EXPECT_EQ(driver.waited(), Duration::zero()) << "it lasted";
  driver.Answer(200, BookmarkText(11, false));
  driver.Ask();
  EXPECT_EQ(driver.waited(), Duration::zero()) << "it brought something";
}

struct RefusalRow {
  int code;
  const char* next;
};

TEST(ReflectorWatch, RefusalsAreFollowedByWhatHelps) {
  const RefusalRow rows[] = {{429, "watch rv=10"},
                             {500, "watch rv=10"},
                             {503, "watch rv=10"},
                             {400, "list rv=10"},
                             {401, "list rv=10"},
                             {403, "list rv=10"},
                             {404, "list rv=10"},
                             {422, "list rv=10"}};
  for (const RefusalRow& row : rows) {
    for (const bool is_in_stream : {false, true}) {
      ReflectorDriver driver = Listed();
      driver.Ask();
      if (is_in_stream) {
        driver.Answer(200, ErrorText(row.code, "R"));
      } else {
        driver.Answer(row.code, StatusText(row.code, "R"));
      }
      EXPECT_EQ(driver.Ask(), row.next) << row.code;
      EXPECT_GE(driver.waited(), milliseconds(800)) << row.code;
      EXPECT_NE(driver.reflector().last_failure(), "");
    }
  }
}

// Checklist: 429 with Retry-After.
TEST(ReflectorWatch, KindThatTheServerDoesNotKnowAnyMoreIsARefusalUntilItIsListedAgain) {
  ReflectorDriver driver = Listed();
  EXPECT_EQ(driver.reflector().refusal(), "");
  driver.Ask();
  driver.Answer(404, StatusText(404, "NotFound"));
  EXPECT_EQ(driver.reflector().refusal().find("404 NotFound"), 0U);
  driver.Ask();
  driver.Answer(503, StatusText(503, "ServiceUnavailable"));
  EXPECT_NE(driver.reflector().refusal(), "") << "nobody has taken it back";
  driver.Ask();
  driver.Answer(200, ListText({}, "20"));
  EXPECT_EQ(driver.reflector().refusal(), "");
}

// Where it is forbidden to look there may be some.
TEST(ReflectorList, OnlyAKindThatTheServerDoesNotKnowHasNoObjects) {
  ReflectorDriver driver(false);
  driver.Ask();
  driver.Answer(404, StatusText(404, "NotFound"));
  EXPECT_TRUE(driver.reflector().is_kind_unknown());
  driver.Ask();
  driver.Answer(403, StatusText(403, "Forbidden"));
  EXPECT_NE(driver.reflector().refusal(), "");
  EXPECT_FALSE(driver.reflector().is_kind_unknown()) << "its definition has come since";
  driver.Ask();
  driver.Answer(404, StatusText(404, "NotFound"));
  driver.Ask();
  driver.Answer(200, ListText({}, "20"));
  EXPECT_FALSE(driver.reflector().is_kind_unknown());
}

TEST(ReflectorWatch, RetryAfterIsHonoured) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  driver.Answer(429,
                R"({"code":429,"reason":"TooManyRequests","details":{"retryAfterSeconds":25}})");
  EXPECT_EQ(driver.Ask(), "watch rv=10");
  EXPECT_EQ(driver.waited(), seconds(25));
}

TEST(ReflectorWatch, AListAndAWatchThatDisagreeDoNotChaseEachOther) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  driver.Answer(200, ErrorText(410, "Expired"));
  EXPECT_EQ(driver.Ask(), "list rv=10");
  EXPECT_GE(driver.waited(), milliseconds(800));
}

TEST(ReflectorList, FailuresBackOffAndInTheEndDoubtTheVersion) {
  ReflectorDriver driver(false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(driver.Ask(), "list rv=0 limit=500");
    EXPECT_EQ(driver.waited() >= milliseconds(800), i > 0);
    EXPECT_EQ(driver.Answer(500, "<html>"), "");
  }
  EXPECT_EQ(driver.Ask(), "list rv= limit=500");
  // Half a list is no list.
  const std::string body = ListText({ObjectText("a", 3)}, "10");
  EXPECT_EQ(driver.Answer(200, std::string_view(body).substr(0, body.size() - 1)), "");
  EXPECT_FALSE(driver.reflector().has_synced());
  EXPECT_EQ(driver.Ask(), "list rv= limit=500");
  EXPECT_EQ(driver.Answer(200, body), "replace a@3");
}

TEST(Reflector, AnObjectThatCannotBeReadIsSkippedAndCounted) {
  ReflectorDriver driver(false);
  driver.Ask();
  EXPECT_EQ(driver.Answer(200, ListText({"{}", ObjectText("a", 3)}, "10")), "replace a@3");
  driver.Ask();
  EXPECT_EQ(driver.Answer(200,
                          "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{}}}\n" +
                              WatchEventText("MODIFIED", "a", 11)),
            "put a@11");
  EXPECT_EQ(driver.reflector().counts().skipped, 2);
}

TEST(Reflector, BytesThatAreNoEventsLeadToANewList) {
  ReflectorDriver driver = Listed();
  driver.Ask();
  driver.Status(200);
  EXPECT_FALSE(driver.Bytes(WatchEventText("MODIFIED", "a", 11) + "<html>\n"));
  EXPECT_FALSE(driver.Bytes(WatchEventText("MODIFIED", "a", 12)));
  EXPECT_EQ(driver.End(), "put a@11");
  EXPECT_EQ(driver.Ask(), "list rv=11");
  EXPECT_GE(driver.waited(), milliseconds(800));
}

}  // namespace
}  // namespace lockstep::control::kube
