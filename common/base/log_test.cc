#include "common/base/log.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(FormatLogText, PutsFieldsAfterTheMessage) {
  EXPECT_EQ(FormatLogText("peer lost", {{"rank", 3}, {"reason", "reset"}}),
            "peer lost rank=3 reason=reset");
}

TEST(FormatLogText, QuotesWhatWouldNotParseBack) {
  EXPECT_EQ(FormatLogText("failed", {{"error", "no \"room\"\nleft"}, {"pod", ""}}),
            "failed error=\"no \\\"room\\\"\\nleft\" pod=\"\"");
}

}  // namespace
}  // namespace lockstep
