#include "common/base/rfc3339.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ParseRfc3339, ReadsWhatFormatRfc3339Writes) {
  const auto time = ParseRfc3339("2026-11-21T10:22:03.120Z");
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(FormatRfc3339(*time), "2026-11-21T10:22:03.120Z");
  EXPECT_EQ(ParseRfc3339("2026-11-21T10:22:03.12Z"), time);
  EXPECT_EQ(ParseRfc3339("2026-11-21T10:22:03.120000Z"), time);
  EXPECT_EQ(ParseRfc3339("1970-01-01T00:00:00Z"), WallTime{});
}

TEST(ParseRfc3339, RefusesEverythingElse) {
  for (const char* text : {"",
                           "2026-11-21",
                           "2026-11-21T10:22:03",
                           "2026-13-21T10:22:03Z",
                           "2026-02-30T10:22:03Z",
                           "2026-11-21T24:00:00Z",
                           "2026-11-21T10:60:00Z",
                           "2026-11-21T10:22:03.Z",
                           "2026-11-21T10:22:03+1:00",
                           "2026-11-21T10:22:03+25:00",
                           "2026-11-21T10:22:03Z+01:00",
                           "-026-11-21T10:22:03Z",
                           "2026-11-21 10:22:03Z"}) {
    EXPECT_EQ(ParseRfc3339(text), std::nullopt) << text;
  }
}

TEST(ParseRfc3339, TakesOffsetsIntoAccount) {
  const auto time = ParseRfc3339("2026-11-21T10:22:03.5Z");
  EXPECT_EQ(ParseRfc3339("2026-11-21T12:22:03.5+02:00"), time);
  EXPECT_EQ(ParseRfc3339("2026-11-21T06:52:03.5-03:30"), time);
}

}  // namespace
}  // namespace lockstep
