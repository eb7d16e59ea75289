#include "common/base/result.h"

#include <cerrno>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Result<int> ParseDigit(char c) {
  if (c < '0' || c > '9') {
    return Error(ErrorCode::kInvalidArgument, "not a digit").WithField("digit");
  }
  return c - '0';
}

Result<int> SumDigits(const std::string& text) {
  int sum = 0;
  for (const char c : text) {
    LOCKSTEP_ASSIGN_OR_RETURN(const int digit, ParseDigit(c));
    sum += digit;
  }
  return sum;
}

Status RequireDigits(const std::string& text) {
  LOCKSTEP_RETURN_IF_ERROR(SumDigits(text));
  return OkStatus();
}

TEST(Result, ValueComesThroughAssignOrReturn) {
  EXPECT_EQ(SumDigits("123").value(), 6);
}

TEST(Result, ErrorStopsAtTheFirstFailure) {
  const Result<int> result = SumDigits("1x3");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(result.error().ToString(), "digit: not a digit");
}

TEST(Result, MoveOnlyValueCanBeTakenOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Status, ErrorOfAResultBecomesAStatus) {
  EXPECT_TRUE(RequireDigits("12").ok());
  EXPECT_FALSE(RequireDigits("1a").ok());
}

TEST(Error, WrapKeepsCodeAndReadsOuterFirst) {
  const Error error = Error(ErrorCode::kIo, "disk is full").Wrap("write checkpoint");
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_EQ(error.ToString(), "write checkpoint: disk is full");
}

TEST(Error, SystemErrorMapsFullDiskToResourceExhausted) {
  EXPECT_EQ(SystemError(ENOSPC, "write").code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(SystemError(ENOENT, "open").code(), ErrorCode::kNotFound);
}

// What decides whether a process is started again: a path that is wrong stays wrong, a disk or a
// server that does not answer may come back.
TEST(Error, SystemErrorTellsAWrongPathFromASickDisk) {
  for (const int wrong : {EACCES, EISDIR, ENOTDIR, ELOOP, ENAMETOOLONG, EROFS}) {
    EXPECT_EQ(SystemError(wrong, "open").code(), ErrorCode::kInvalidArgument) << wrong;
  }
  for (const int sick : {EIO, ESTALE}) {
    EXPECT_EQ(SystemError(sick, "read").code(), ErrorCode::kIo) << sick;
  }
}

TEST(ResultDeathTest, ValueOfFailedResultAbortsWithTheError) {
  const Result<int> result(Error(ErrorCode::kIo, "disk is full"));
  EXPECT_DEATH(static_cast<void>(result.value()), "disk is full");
}

}  // namespace
}  // namespace lockstep
