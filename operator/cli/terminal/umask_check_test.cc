#include "operator/cli/terminal/umask_check.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

TEST(WhyUmaskIsRefused, OfThoseThatTakeRightsOfTheOwnerOnly) {
  for (const mode_t mask : {0000U, 0002U, 0022U, 0027U, 0077U}) {
    EXPECT_EQ(WhyUmaskIsRefused(mask), "") << mask;
  }
  for (const mode_t mask : {0100U, 0200U, 0400U}) {
    EXPECT_NE(WhyUmaskIsRefused(mask), "") << mask;
  }
  EXPECT_EQ(WhyUmaskIsRefused(0777),
            "umask 0777 found, which denies the owner access to files of the run; "
            "expected a umask that keeps that access, such as 0022");
}

}  // namespace
}  // namespace lockstep::control
