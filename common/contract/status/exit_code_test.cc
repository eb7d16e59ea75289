#include "common/contract/status/exit_code.h"

#include <csignal>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr ExitVerdict kSuccess{Outcome::kSuccess, ExitCause::kCompleted};
constexpr ExitVerdict kOwnVerdict{Outcome::kPermanent, ExitCause::kProgramExit};
constexpr ExitVerdict kKilled{Outcome::kRetryable, ExitCause::kKilled};
constexpr ExitVerdict kCrash{Outcome::kRetryable, ExitCause::kCrash};
constexpr ExitVerdict kOom{Outcome::kRetryable, ExitCause::kOom};
constexpr ExitVerdict kNodeLost{Outcome::kRetryable, ExitCause::kNodeLost};
constexpr ExitVerdict kStartError{Outcome::kPermanent, ExitCause::kStartError};

std::string Text(const ExitVerdict& verdict) {
  return std::string(OutcomeName(verdict.outcome)) + "/" +
         std::string(ExitCauseName(verdict.cause));
}

// docs/reference/exit-codes.md's table, written a second time as intervals; the last match holds.
struct Interval {
  int first;
  int last;
  ExitVerdict verdict;
};

const std::vector<Interval>& DocumentedTable() {
  static const std::vector<Interval> table = {
      {0, 0, kSuccess},
      {1, 127, kOwnVerdict},
      {42, 42, {Outcome::kPreempted, ExitCause::kPreempted}},
      {64, 64, {Outcome::kPermanent, ExitCause::kUserError}},
      {70, 70, {Outcome::kRetryable, ExitCause::kInternal}},
      {74, 74, {Outcome::kPermanent, ExitCause::kNotSaved}},
      {75, 75, {Outcome::kRetryable, ExitCause::kUnreachable}},
      {76, 76, {Outcome::kSuperseded, ExitCause::kSuperseded}},
      {79, 79, {Outcome::kPermanent, ExitCause::kDiverged}},
      {80, 80, {Outcome::kPermanent, ExitCause::kInexact}},
      {81, 81, {Outcome::kRetryable, ExitCause::kHang}},
      {82, 82, {Outcome::kRetryable, ExitCause::kPortTaken}},
      {126, 127, kStartError},
      {128, 128, kOwnVerdict},
      {129, 192, kKilled},
      {132, 136, kCrash},  // ILL, TRAP, ABRT, BUS, FPE
      {139, 139, kCrash},  // SEGV
      {141, 141, kCrash},  // PIPE
      {152, 153, kCrash},  // XCPU, XFSZ
      {159, 159, kCrash},  // SYS
      {193, 255, kOwnVerdict},
  };
  return table;
}

ExitVerdict Documented(int exit_code) {
  ExitVerdict verdict;
  for (const Interval& interval : DocumentedTable()) {
    if (exit_code >= interval.first && exit_code <= interval.last) {
      verdict = interval.verdict;
    }
  }
  return verdict;
}

TEST(ClassifyExit, EveryCodeIsAsDocumented) {
  for (int code = 0; code <= 255; ++code) {
    EXPECT_EQ(Text(ClassifyExit(code, 0, "")), Text(Documented(code))) << code;
    EXPECT_EQ(Text(ClassifyExit(code, 0, "Error")), Text(Documented(code))) << code;
    EXPECT_EQ(Text(ClassifyExit(code, 0, "Completed")), Text(Documented(code))) << code;
  }
}

TEST(ClassifyExit, ASignalOutranksEveryCode) {
  for (int signal = 1; signal <= 64; ++signal) {
    const ExitVerdict expected = Documented(128 + signal);
    for (int code = 0; code <= 255; ++code) {
      ASSERT_EQ(Text(ClassifyExit(code, signal, "")), Text(expected)) << signal << " " << code;
    }
  }
}

TEST(ClassifyExit, OutOfMemoryOutranksEveryEndButSuccess) {
  for (int code = 0; code <= 255; ++code) {
    for (int signal = 0; signal <= 64; ++signal) {
      const bool is_success = code == 0 && signal == 0;
      ASSERT_EQ(Text(ClassifyExit(code, signal, "OOMKilled")), Text(is_success ? kSuccess : kOom))
          << code << " " << signal;
    }
  }
}

TEST(ClassifyExit, APodTakenAwayIsTheNodesDoingWhateverTheCode) {
  for (const char* reason : {"Evicted",
                             "NodeLost",
                             "NodeShutdown",
                             "NodeAffinity",
                             "Shutdown",
                             "Terminated",
                             "Preempting",
                             "UnexpectedAdmissionError",
                             "ContainerStatusUnknown"}) {
    for (int code = 0; code <= 255; ++code) {
      ASSERT_EQ(Text(ClassifyExit(code, 0, reason)), Text(kNodeLost)) << reason << " " << code;
    }
  }
}

TEST(ClassifyExit, WhatNeverStartedIsPermanent) {
  for (const char* reason : {"StartError",
                             "ContainerCannotRun",
                             "CreateContainerError",
                             "CreateContainerConfigError",
                             "RunContainerError",
                             "InvalidImageName"}) {
    EXPECT_EQ(Text(ClassifyExit(128, 0, reason)), Text(kStartError)) << reason;
    EXPECT_EQ(Text(ClassifyExit(127, 0, reason)), Text(kStartError)) << reason;
  }
}

TEST(ClassifyExit, NumbersThatAreNoExitCodeAreUnknownAndRetryable) {
  for (const int code : {-1, 256, 48879}) {
    EXPECT_EQ(Text(ClassifyExit(code, 0, "")), "retryable/unknown") << code;
  }
  EXPECT_EQ(Text(ClassifyExit(3, 65, "")), "permanent/program_exit");
  EXPECT_EQ(Text(ClassifyExit(3, -1, "")), "permanent/program_exit");
}

TEST(ExitNames, DifferAndOutcomesRoundTrip) {
  std::set<std::string_view> names;
  for (const Outcome outcome : kOutcomes) {
    EXPECT_EQ(ParseOutcome(OutcomeName(outcome)), outcome);
    names.insert(OutcomeName(outcome));
  }
  EXPECT_EQ(names.size(), kOutcomes.size());
  names.clear();
  for (const ExitCause cause : kExitCauses) {
    names.insert(ExitCauseName(cause));
  }
  EXPECT_EQ(names.size(), kExitCauses.size());
  EXPECT_FALSE(ParseOutcome("Success").has_value());
}

TEST(DescribeExit, SaysItInOnePhrase) {
  EXPECT_EQ(DescribeExit(0, 0, ""), "completed");
  EXPECT_EQ(DescribeExit(3, 0, "Error"), "exit code 3");
  EXPECT_EQ(DescribeExit(42, 0, "Error"), "exit code 42, which says that it was asked to end");
  EXPECT_EQ(DescribeExit(137, 9, "Error"), "killed by SIGKILL");
  EXPECT_EQ(DescribeExit(137, 0, "Error"), "killed by SIGKILL");
  EXPECT_EQ(DescribeExit(137, 9, "OOMKilled"), "out of memory");
  EXPECT_EQ(DescribeExit(139, 11, ""), "crashed with SIGSEGV");
  EXPECT_EQ(DescribeExit(163, 35, ""), "killed by signal 35");
  EXPECT_EQ(DescribeExit(127, 0, ""), "could not be started (exit code 127)");
  EXPECT_EQ(DescribeExit(127, 0, "Error"), "could not be started (exit code 127)");
  EXPECT_EQ(DescribeExit(128, 0, "StartError"), "could not be started (StartError)");
  EXPECT_EQ(DescribeExit(143, 15, "Evicted"), "stopped by its node (Evicted)");
  EXPECT_EQ(DescribeExit(75, 0, ""), "lost a peer, or a peer did not join in time (exit code 75)");
  EXPECT_EQ(DescribeExit(74, 0, ""), "could not save the model (exit code 74)");
  EXPECT_EQ(DescribeExit(79, 0, ""), "found that the loss is no longer finite (exit code 79)");
  EXPECT_EQ(DescribeExit(80, 0, ""), "lost samples or used them twice (exit code 80)");
  EXPECT_EQ(DescribeExit(81, 0, ""), "did nothing for too long (exit code 81)");
  EXPECT_EQ(DescribeExit(82, 0, ""), "found its port in use by another process (exit code 82)");
}

}  // namespace
}  // namespace lockstep
