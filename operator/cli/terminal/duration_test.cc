#include "operator/cli/terminal/duration.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;

TEST(ParseDuration, EveryUnitIsTaken) {
  EXPECT_EQ(ParseDuration("500ms").value(), std::chrono::milliseconds(500));
  EXPECT_EQ(ParseDuration("2.5s").value(), std::chrono::milliseconds(2500));
  EXPECT_EQ(ParseDuration("5m").value(), std::chrono::minutes(5));
  EXPECT_EQ(ParseDuration("1.5h").value(), std::chrono::minutes(90));
  EXPECT_EQ(ParseDuration("2d").value(), std::chrono::hours(48));
  EXPECT_EQ(ParseDuration("1h30m").value(), std::chrono::minutes(90));
}

TEST(ParseDuration, BareNumberIsSeconds) {
  EXPECT_EQ(ParseDuration("0").value(), Duration::zero());
  EXPECT_EQ(ParseDuration("1.5").value(), std::chrono::milliseconds(1500));
}

TEST(ParseDuration, OtherTextsAreToldTheUnits) {
  for (const char* text : {"", "soon", "-1", "-1s", "5min", "5 m", "5m3", "m", ".", "1e3", "nan"}) {
    const auto duration = ParseDuration(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_THAT(duration.error().message(), HasSubstr("units ms, s, m, h and d")) << text;
  }
}

TEST(ParseDuration, MoreThanAYearIsAMistake) {
  EXPECT_TRUE(ParseDuration("365d").ok());
  EXPECT_THAT(ParseDuration("366d").error().message(), HasSubstr("at most 365d"));
}

TEST(FormatExactDuration, IsAsExactAsItWasGiven) {
  const std::pair<const char*, const char*> cases[] = {
      {"250ms", "250 ms"},
      {"1s", "1 s"},
      {"2500ms", "2.5 s"},
      {"1.05s", "1.05 s"},
      {"90s", "1 min 30 s"},
      {"5m", "5 min"},
      {"61.001s", "1 min 1.001 s"},
      {"3601s", "1 h 1 s"},
      {"25h", "25 h"},
  };
  for (const auto& [given, text] : cases) {
    EXPECT_EQ(FormatExactDuration(ParseDuration(given).value()), text) << given;
  }
}

}  // namespace
}  // namespace lockstep::control
