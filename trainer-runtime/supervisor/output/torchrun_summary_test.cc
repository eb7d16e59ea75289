#include "trainer-runtime/supervisor/output/torchrun_summary.h"

#include <csignal>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

constexpr const char* kLine = "------------------------------------------------------------\n";
constexpr const char* kBorder = "============================================================\n";

std::string Entry(int index, int rank, const std::string& exit_code) {
  return "[" + std::to_string(index) + "]:\n  time      : 2026-11-29_04:00:00\n" +
         "  host      : host\n  rank      : " + std::to_string(rank) +
         " (local_rank: 0)\n  exitcode  : " + exit_code +
         "\n  error_file: <N/A>\n  traceback : a: b\n";
}

std::string Summary(const std::string& others, const std::string& root) {
  return std::string(kBorder) + "train.py FAILED\n" + kLine + "Failures:\n" + others + kLine +
         "Root Cause (first observed failure):\n" + root + kBorder;
}

std::optional<RankEnd> CauseIn(const std::string& text) {
  TorchrunSummary summary;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    summary.Take(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  return summary.Cause();
}

TEST(TorchrunSummary, RootCauseIsToldWithRankAndCode) {
  const std::string text = Summary(Entry(1, 3, "1 (pid: 43)"), Entry(0, 2, "3 (pid: 42)"));
  EXPECT_EQ(CauseIn("step 1\n" + text + "bye\n"), (RankEnd{2, 42, 3, 0}));
}

TEST(TorchrunSummary, SignalIsTheCauseWhoeverIsCalledSo) {
  const std::string text = Summary(Entry(1, 3, "-9 (pid: 43)"), Entry(0, 2, "1 (pid: 42)"));
  EXPECT_EQ(CauseIn(text), (RankEnd{3, 43, 137, SIGKILL}));
}

TEST(TorchrunSummary, RankThatTorchrunEndedIsNoCause) {
  const std::string text = Summary(Entry(1, 3, "-15 (pid: 43)"), Entry(0, 2, "1 (pid: 42)"));
  EXPECT_EQ(CauseIn(text), (RankEnd{2, 42, 1, 0}));
}

TEST(TorchrunSummary, CurrentReleasesNameTheSignal) {
  const std::string text = Summary("  <NO_OTHER_FAILURES>\n", Entry(0, 5, "-9 (pid: 7) (SIGKILL)"));
  EXPECT_EQ(CauseIn(text), (RankEnd{5, 7, 137, SIGKILL}));
}

TEST(TorchrunSummary, NewestOfTwoCounts) {
  EXPECT_EQ(
      CauseIn(Summary("", Entry(0, 1, "-9 (pid: 7)")) + Summary("", Entry(0, 0, "4 (pid: 8)"))),
      (RankEnd{0, 8, 4, 0}));
}

TEST(TorchrunSummary, OtherLinesAreNone) {
  EXPECT_EQ(CauseIn("rank      : 1\nexitcode  : 3 (pid: 4)\n"), std::nullopt);
  EXPECT_EQ(CauseIn(Summary("", "  rank      : one\n  exitcode  : 3 (pid: 4)\n")), std::nullopt);
  EXPECT_EQ(CauseIn(Summary("", Entry(0, 1, "999 (pid: 4)"))), std::nullopt);
}

TEST(TorchrunErrorFile, TellsHowTheRankEnded) {
  EXPECT_EQ(ParseErrorFile(R"({"message": {"message": "x", "errorCode": -11}})"),
            (RankEnd{std::nullopt, 0, 139, SIGSEGV}));
  EXPECT_EQ(ParseErrorFile(R"({"message": {"message": "x", "errorCode": 3}})"),
            (RankEnd{std::nullopt, 0, 3, 0}));
  for (const char* const text : {"",
                                 "[]",
                                 "{}",
                                 R"({"message": "x"})",
                                 R"({"message": {"message": "x"}})",
                                 R"({"message": {"errorCode": "3"}})",
                                 R"({"message": {"errorCode": 1e300}})",
                                 R"({"message": {"errorCode": 99999999999}})"}) {
    EXPECT_EQ(ParseErrorFile(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep::runtime
