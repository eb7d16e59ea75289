#include "trainer-runtime/supervisor/hang/ras_report.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// NCCL 2.24, as its documentation shows it, of eight ranks.
constexpr const char* kNccl224 =
    "NCCL version 2.24.3 compiled with CUDA 12.4\n"
    "\n"
    "Communicators... (0.00s)\n"
    "=============\n"
    "\n"
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n"
    "    0         1         2         4         8         8   RUNNING  MISMATCH\n"
    "\n"
    "Errors\n"
    "======\n"
    "\n"
    "Warnings\n"
    "========\n"
    "\n"
    "#0-0 (27a079b828ff1a75) MISMATCH\n"
    "  Communicator ranks have different collective operation counts\n"
    "  6 ranks have launched up to operation 6650\n"
    "  2 ranks have launched up to operation 6649\n"
    "  Rank 5 -- GPU 5 managed by process 483077 on node 172.16.64.210\n"
    "  Rank 7 -- GPU 7 managed by process 483079 on node 172.16.64.210\n";

std::string SentenceOf(const RasReport& report, int world_size) {
  return JudgeHang(EvidenceOf(report, world_size)).sentence;
}

TEST(RasText, RanksThatLagBehindAreFoundByWhatIsNotListed) {
  EXPECT_EQ(SentenceOf(ParseRasText(kNccl224), 8),
            "ranks 5 and 7 have not called collective #6650 of communicator 27a079b828ff1a75, in "
            "which 6 ranks wait");
  std::string text = kNccl224;
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.insert(at, "\r");
  }
  EXPECT_EQ(EvidenceOf(ParseRasText(text), 8), EvidenceOf(ParseRasText(kNccl224), 8));
}

TEST(RasText, OneRankHasALineOfItsOwn) {
  EXPECT_EQ(
      SentenceOf(
          ParseRasText("Communicators...\n\n#0-0 (78db) MISMATCH\n"
                       "  Communicator ranks have different AllReduce operation counts\n"
                       "  7 ranks have launched up to operation 64\n"
                       "  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 16 on "
                       "node node1\n"),
          8),
      "rank 7 has not called AllReduce #61 of communicator 78db, in which 7 ranks wait");
  EXPECT_EQ(
      SentenceOf(ParseRasText("#0-0 (78db) MISMATCH\n"
                              "  Communicator ranks have different AllReduce operation counts\n"
                              "  7 ranks have launched up to operation 1\n"
                              "  Rank 2 has not launched any operations -- GPU 3 managed by ...\n"),
                 8),
      "rank 2 has not called AllReduce #1 of communicator 78db, in which 7 ranks wait");
}

TEST(RasText, MissingRanksAreLost) {
  const std::string text =
      "Errors\n======\n\nINCOMPLETE\n  Missing communicator data from 1 job process\n"
      "  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n"
      "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n"
      "  The missing rank: 3\n\n"
      "Warnings\n========\n\n#0-0 (cf264af53edbe986) MISMATCH\n"
      "  Communicator ranks have different collective operation counts\n"
      "  3 ranks have launched up to operation 7\n"
      "  1 ranks have launched up to operation 6\n"
      "  Rank 3 -- GPU 5 managed by process 3487984 on node 172.16.64.213\n";
  EXPECT_EQ(SentenceOf(ParseRasText(text), 4), "rank 3 does not answer the other ranks in NCCL");
}

TEST(RasText, NothingIsMadeOfWhatIsNoReport) {
  for (const std::string text : {"",
                                 "\n",
                                 "Rank 7 has launched up to operation 60",
                                 "#\n  Rank 99999999999999999999 --\n  The missing rank: x\n",
                                 "#0-0 (a) MISMATCH\n  9999999999999 ranks have launched up to "
                                 "operation 1\n  2 ranks have launched up to operation -4\n"}) {
    EXPECT_EQ(SentenceOf(ParseRasText(text), 8), "") << text;
  }
}

TEST(RasText, WhateverIsCutOffIsReadInTime) {
  const std::string text = kNccl224;
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const std::vector<RankEvidence> evidence = EvidenceOf(ParseRasText(text.substr(0, size)), 8);
    EXPECT_TRUE(evidence.empty() || evidence.size() == 8U) << size;
  }
  std::string large = "#0-0 (aa) MISMATCH\n  100000 ranks have launched up to operation 2\n";
  for (int rank = 0; rank < 20'000; ++rank) {
    large += "  Rank " + std::to_string(rank) + " has launched up to operation " +
             std::to_string(rank % 2 + 1) + " -- GPU 0\n";
  }
  EXPECT_EQ(EvidenceOf(ParseRasText(large), 120'000).size(), 120'000U);
}

// Four ranks have launched 2 collectives and four have launched 1. It is not told which.
TEST(RasText, CountsWithoutRanksSayNothing) {
  EXPECT_EQ(SentenceOf(ParseRasText("#0-0 (a) MISMATCH\n"
                                    "  4 ranks have launched up to operation 2\n"
                                    "  4 ranks have launched up to operation 1\n"),
                       8),
            "");
}

std::string RasRankText(int rank, int pid, int all_reduces, const std::string& more = "") {
  return R"({"rank": )" + std::to_string(rank) + R"(, "host": "10.0.0.1", "pid": )" +
         std::to_string(pid) + R"(, "status": {"init_state": 3, "abort_flag": false},)" +
         R"("collective_counts": {"Broadcast": 1, "AllReduce": )" + std::to_string(all_reduces) +
         more + "}}";
}

TEST(RasJson, RanksThatLagBehindAreNamedInTheJobsNumbers) {
  // The second communicator has the job's ranks 2 and 1, in that order.
  const std::string text =
      R"({"nccl_version": "2.28.7", "communicators_count": 2, "communicators": [)"
      R"({"hash": "aa", "size": 3, "ranks": [)" +
      RasRankText(0, 10, 5) + "," + RasRankText(1, 11, 5) + "," + RasRankText(2, 12, 5) +
      R"(], "missing_ranks": []}, {"hash": "bb", "size": 2, "ranks": [)" + RasRankText(0, 12, 8) +
      "," + RasRankText(1, 11, 7) + R"(]}], "ras": {"timeouts_count": 0}})";
  const Result<RasReport> report = ParseRasJson(text);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(SentenceOf(*report, 3),
            "rank 1 has not called AllReduce #8 of communicator bb, in which 1 rank waits");
  EXPECT_TRUE(EvidenceOf(*report, 4).empty()) << "no communicator has all ranks of such a job";
}

// Two torchruns of two workers each: NCCL's ranks 0 to 3 are no ranks of a job of two.
TEST(RasJson, RanksOfALauncherAreNotTheJobs) {
  const std::string text = R"({"communicators": [{"hash": "aa", "size": 4, "ranks": [)" +
                           RasRankText(0, 10, 5) + "," + RasRankText(1, 11, 4) + "," +
                           RasRankText(2, 12, 5) + "," + RasRankText(3, 13, 5) +
                           R"(]}, {"hash": "bb", "size": 2, "ranks": [)" + RasRankText(0, 10, 8) +
                           "," + RasRankText(1, 11, 7) + "]}]}";
  EXPECT_TRUE(EvidenceOf(ParseRasJson(text).value(), 2).empty());
}

// NCCL queues collectives: who runs ahead of one that waits is not the only one that waits.
TEST(RasJson, OnlyTheLeastCountIsBehind) {
  const std::string text = R"({"communicators": [{"hash": "aa", "size": 3, "ranks": [)" +
                           RasRankText(0, 10, 105) + "," + RasRankText(1, 11, 103) + "," +
                           RasRankText(2, 12, 99) + "]}]}";
  EXPECT_EQ(SentenceOf(ParseRasJson(text).value(), 3),
            "rank 2 has not called AllReduce #100 of communicator aa, in which 2 ranks wait");
}

TEST(RasJson, MissingRanksAreLost) {
  const std::string text =
      R"({"communicators": [{"hash": "aa", "size": 2, "ranks": [)" + RasRankText(0, 10, 5) +
      R"(], "missing_ranks": [{"rank": 1, "host": "h", "pid": 4, "status": {"unresponsive": true,)"
      R"("considered_dead": false}}]}]})";
  EXPECT_EQ(SentenceOf(ParseRasJson(text).value(), 2),
            "rank 1 does not answer the other ranks in NCCL");
}

TEST(RasJson, WhatIsNoReportIsRefused) {
  for (const std::string text :
       {"", "{", "[1]", R"({"communicators": 1})", R"({"communicators": [{"size": -1}]})"}) {
    EXPECT_FALSE(ParseRasJson(text).ok()) << text;
  }
}

}  // namespace
}  // namespace lockstep::runtime
