#include "trainer-runtime/cmd/shortage.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(ShortageTest, WhatIsDoneIsHandedOn) {
  const Result<int> done = ReportShortage([]() -> Result<int> { return 3; });
  EXPECT_EQ(done.value(), 3);
  const Result<int> failed =
      ReportShortage([]() -> Result<int> { return Error(ErrorCode::kNotFound, "no file"); });
  EXPECT_EQ(failed.error().code(), ErrorCode::kNotFound);
}

TEST(ShortageTest, WantOfAThreadIsSaidInTheMachinesWords) {
  const Result<int> result = ReportShortage([]() -> Result<int> {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  EXPECT_EQ(result.error().code(), ErrorCode::kIo);
  EXPECT_EQ(result.error().message(),
            "this machine cannot start another thread for lockstep-runtime: Resource temporarily "
            "unavailable");
}

TEST(ShortageTest, WhatALibraryIsRefusedIsSaidInItsWords) {
  const Result<int> result = ReportShortage(
      []() -> Result<int> { throw std::runtime_error("epoll: Too many open files"); });
  EXPECT_EQ(result.error().code(), ErrorCode::kIo);
  EXPECT_EQ(result.error().message(), "epoll: Too many open files");
}

TEST(ShortageTest, WantOfMemoryIsSaid) {
  const Result<int> result = ReportShortage([]() -> Result<int> { throw std::bad_alloc(); });
  EXPECT_EQ(result.error().message(), "this machine has no memory left for lockstep-runtime");
}

}  // namespace
}  // namespace lockstep::runtime
