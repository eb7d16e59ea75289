#include "operator/kubeclient/kube/json_stream.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::control::kube {
namespace {

// Everything that could be taken for structure inside a text.
constexpr std::string_view kTricky = R"({"t":"}]{[\",:\\","u":"\u20ac € é","n":{"metadata":{}}})";

std::string TrickyList() {
  return R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"17",)"
         R"("continue":"a}b","x":[{}]},"items":[)" +
         std::string(kTricky) + ",\n  {} , {\"a\":[[1,{\"items\":[{}]}]]}\n]}\n";
}

struct Outcome {
  std::vector<std::string> items;
  Status status;
  Result<ListHead> head = ListHead{};
};

Outcome Split(const std::vector<std::string_view>& chunks) {
  Outcome outcome;
  ListSplitter splitter;
  for (const std::string_view chunk : chunks) {
    outcome.status =
        splitter.Feed(chunk, [&](std::string_view item) { outcome.items.emplace_back(item); });
    if (!outcome.status.ok()) {
      return outcome;
    }
  }
  outcome.head = splitter.Finish();
  return outcome;
}

std::vector<std::string_view> Bytes(std::string_view text) {
  std::vector<std::string_view> chunks;
  for (std::size_t i = 0; i < text.size(); ++i) {
    chunks.push_back(text.substr(i, 1));
  }
  return chunks;
}

void ExpectTrickyList(const Outcome& outcome) {
  ASSERT_TRUE(outcome.status.ok());
  ASSERT_EQ(outcome.items.size(), 3U);
  EXPECT_EQ(outcome.items[0], kTricky);
  EXPECT_EQ(outcome.items[1], "{}");
  EXPECT_EQ(outcome.items[2], R"({"a":[[1,{"items":[{}]}]]})");
  ASSERT_TRUE(outcome.head.ok()) << outcome.head.error().ToString();
  EXPECT_EQ(outcome.head->resource_version, "17");
  EXPECT_EQ(outcome.head->continue_token, "a}b");
}

// Checklist: UTF-8 and escaped quotes across chunks.
TEST(ListSplitter, FindsTheSameItemsWhereverTheBytesAreCut) {
  const std::string text = TrickyList();
  ExpectTrickyList(Split({text}));
  for (std::size_t a = 0; a <= text.size(); ++a) {
    for (std::size_t b = a; b <= text.size(); b += 7) {
      ExpectTrickyList(Split({std::string_view(text).substr(0, a),
                              std::string_view(text).substr(a, b - a),
                              std::string_view(text).substr(b)}));
    }
  }
}

// Checklist: 1-byte chunks.
TEST(ListSplitter, TakesOneByteAtATime) {
  const std::string text = TrickyList();
  ExpectTrickyList(Split(Bytes(text)));
}

TEST(ListSplitter, MetadataMayFollowTheItemsAndItemsMayBeNull) {
  const Outcome after = Split({R"({"items":[{"a":1}],"metadata":{"resourceVersion":"3"}})"});
  EXPECT_EQ(after.items.size(), 1U);
  EXPECT_EQ(after.head.value().resource_version, "3");
  for (const char* text : {R"({"metadata":{"resourceVersion":"3"},"items":null})",
                           R"({"metadata":{"resourceVersion":"3","continue":null},"items":[]})"}) {
    const Outcome empty = Split({text});
    EXPECT_TRUE(empty.status.ok() && empty.items.empty()) << text;
    EXPECT_EQ(empty.head.value().resource_version, "3");
  }
}

TEST(ListSplitter, AnUnfinishedListIsRefusedAtEveryLength) {
  const std::string text = TrickyList();
  for (std::size_t size = 0; size + 2 < text.size(); ++size) {
    const Outcome outcome = Split({std::string_view(text).substr(0, size)});
    EXPECT_FALSE(outcome.status.ok() && outcome.head.ok()) << size;
  }
}

TEST(ListSplitter, WhatIsNoListIsRefused) {
  for (const char* text : {"",
                           "<html>",
                           "[]",
                           "{}",
                           "null",
                           R"({"items":[{}]})",
                           R"({"metadata":{}})",
                           R"({"metadata":[],"items":[]})",
                           R"({"metadata":{"resourceVersion":7},"items":[]})",
                           R"({"metadata":{},"items":{}})",
                           R"({"metadata":{},"items":"[]"})",
                           R"({"metadata":{},"items":7})",
                           R"({"metadata":{},"items":[1]})",
                           R"({"metadata":{},"items":["a"]})",
                           R"({"metadata":{},"items":[null]})",
                           R"({"metadata":{},"items":[[]]})",
                           R"({"metadata":{},"items":[],"items":[]})",
                           R"({"metadata":{},"items":[]}{})",
                           R"({"metadata":{},"items":[]} x)",
                           R"({"metadata":{},"items":[]}})"}) {
    const Outcome outcome = Split({text});
    EXPECT_FALSE(outcome.status.ok() && outcome.head.ok()) << text;
  }
}

// Checklist: 2 MB object in one chunk.
TEST(ListSplitter, TakesLargeItemsUpToTheLimit) {
  const std::string large = R"({"a":")" + std::string(2 << 20, 'x') + R"("})";
  const std::string list = R"({"metadata":{"resourceVersion":"1"},"items":[)" + large + "]}";
  EXPECT_EQ(Split({list}).items.front(), large);
  const std::string_view view = list;
  EXPECT_EQ(Split({view.substr(0, 1000), view.substr(1000)}).items.front(), large);
  ListSplitter splitter;
  const auto ignore = [](std::string_view) {};
  ASSERT_TRUE(splitter.Feed(R"({"metadata":{},"items":[{"a":")", ignore).ok());
  Status status;
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 9 && status.ok(); ++i) {
    status = splitter.Feed(piece, ignore);
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kResourceExhausted);
}

std::vector<std::string> Frame(const std::vector<std::string_view>& chunks) {
  std::vector<std::string> lines;
  LineFramer framer;
  for (const std::string_view chunk : chunks) {
    EXPECT_TRUE(framer
                    .Feed(chunk,
                          [&](std::string_view line) {
                            lines.emplace_back(line);
                            return true;
                          })
                    .ok());
  }
  return lines;
}

// Checklist: half line at EOF, 1-byte chunks, CRLF split over records, UTF-8 across chunks.
TEST(LineFramer, FindsTheSameLinesWhereverTheBytesAreCut) {
  const std::string text = "{\"a\":\"\\n€\"}\r\n\n{}\n{\"half\":";
  const std::vector<std::string> expected = {"{\"a\":\"\\n€\"}", "{}"};
  EXPECT_EQ(Frame({text}), expected);
  EXPECT_EQ(Frame(Bytes(text)), expected);
  for (std::size_t a = 0; a <= text.size(); ++a) {
    for (std::size_t b = a; b <= text.size(); ++b) {
      EXPECT_EQ(Frame({std::string_view(text).substr(0, a),
                       std::string_view(text).substr(a, b - a),
                       std::string_view(text).substr(b)}),
                expected);
    }
  }
}

TEST(LineFramer, TakesLargeLinesUpToTheLimit) {
  const std::string large(2 << 20, 'x');
  EXPECT_EQ(Frame({large + "\n"}).front(), large);
  EXPECT_EQ(Frame({large, "\n"}).front(), large);
  LineFramer framer;
  const auto go_on = [](std::string_view) { return true; };
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(framer.Feed(large, go_on).ok());
  }
  EXPECT_EQ(framer.Feed("x", go_on).error().code(), ErrorCode::kResourceExhausted);
}

TEST(LineFramer, StopsWhenTold) {
  LineFramer framer;
  int calls = 0;
  const Status status = framer.Feed("a\nb\nc\n", [&](std::string_view) { return ++calls < 2; });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace lockstep::control::kube
