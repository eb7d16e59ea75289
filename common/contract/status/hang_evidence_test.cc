#include "common/contract/status/hang_evidence.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Ranks = std::vector<RankEvidence>;

GroupCalls Waits(const std::string& group, int64_t number, int64_t called = 0) {
  return {group, "group " + group, called == 0 ? number : called, number, "all_reduce"};
}

GroupCalls Called(const std::string& group, int64_t number) {
  return {group, "group " + group, number, 0, "all_reduce"};
}

RankEvidence Rank(int rank, std::vector<GroupCalls> groups, const std::string& place = "") {
  return {rank, false, false, place, std::move(groups)};
}

TEST(JudgeHang, RanksThatHaveNotCalledWhatOthersWaitInAreNamedWithTheirPlaces) {
  const HangVerdict verdict = JudgeHang({Rank(7, {Called("pg", 6649)}),
                                         Rank(5, {Called("pg", 6648)}, "load_batch (train.py:88)"),
                                         Rank(4, {Waits("pg", 6650)}),
                                         Rank(6, {Waits("pg", 6650, 6652)})});
  EXPECT_EQ(verdict.culprits, (std::vector<int>{5, 7}));
  EXPECT_EQ(verdict.sentence,
            "ranks 5 and 7 have not called all_reduce #6650 of group pg, in which 2 ranks wait; "
            "rank 5 is in load_batch (train.py:88)");
}

TEST(JudgeHang, OneThatNeverCalledAnythingIsBehind) {
  const HangVerdict verdict = JudgeHang({Rank(0, {Waits("pg", 1)}), Rank(1, {Called("pg", 0)})});
  EXPECT_EQ(verdict.culprits, std::vector<int>{1});
  EXPECT_EQ(verdict.sentence,
            "rank 1 has not called all_reduce #1 of group pg, in which 1 rank waits");
}

// Rank 1 is behind in `data` only because it waits in `model` for rank 2.
TEST(JudgeHang, WhoWaitsInAnotherGroupIsNoCulprit) {
  const HangVerdict verdict = JudgeHang({Rank(0, {Waits("data", 9)}),
                                         Rank(1, {Called("data", 8), Waits("model", 4)}),
                                         Rank(2, {Called("model", 3)})});
  EXPECT_EQ(verdict.culprits, std::vector<int>{2});
  EXPECT_EQ(verdict.sentence,
            "rank 2 has not called all_reduce #4 of group model, in which 1 rank waits");
}

TEST(JudgeHang, NobodyIsNamedWithoutEvidence) {
  const std::vector<Ranks> cases = {
      {},
      {Rank(0, {})},
      {Rank(0, {Waits("pg", 3)})},                               // the other rank is not known
      {Rank(0, {Waits("pg", 3)}), Rank(1, {})},                  // nor is what it called
      {Rank(0, {Waits("pg", 3)}), Rank(1, {Waits("pg", 3)})},    // all have called it
      {Rank(0, {Waits("pg", 3)}), Rank(1, {Called("pg", 3)})},   // it has completed there
      {Rank(0, {Called("pg", 3)}), Rank(1, {Called("pg", 2)})},  // nobody waits
      // Each waits for the other.
      {Rank(0, {Waits("a", 3), Called("b", 1)}), Rank(1, {Called("a", 2), Waits("b", 2)})},
  };
  for (const Ranks& ranks : cases) {
    EXPECT_EQ(JudgeHang(ranks).culprits, std::vector<int>());
    EXPECT_EQ(JudgeHang(ranks).sentence, "");
  }
}

TEST(JudgeHang, NobodyIsNamedWhileAnyRankMoves) {
  Ranks ranks = {Rank(0, {Waits("pg", 3)}), Rank(1, {Called("pg", 2)})};
  ASSERT_EQ(JudgeHang(ranks).culprits, std::vector<int>{1});
  ranks[0].is_moving = true;
  EXPECT_EQ(JudgeHang(ranks).culprits, std::vector<int>());
}

TEST(JudgeHang, LostRanksComeFirst) {
  Ranks ranks = {Rank(0, {Waits("pg", 3)}), Rank(1, {Called("pg", 2)}), Rank(2, {})};
  ranks[2].is_lost = true;
  EXPECT_EQ(JudgeHang(ranks).culprits, std::vector<int>{2});
  EXPECT_EQ(JudgeHang(ranks).sentence, "rank 2 does not answer the other ranks in NCCL");
}

// Several pods ask NCCL, which answers each for all ranks, beside what the programs answer.
TEST(JudgeHang, WhatIsToldTwiceCountsOnce) {
  const RankEvidence told = Rank(0, {Waits("a", 3)});
  const RankEvidence again = Rank(0, {Waits("b", 8), Waits("a", 3)});
  const HangVerdict verdict = JudgeHang(
      {told, again, told, Rank(1, {Called("a", 2)}, "f (a.py:1)"), Rank(1, {Called("b", 7)})});
  EXPECT_EQ(verdict.culprits, std::vector<int>{1});
  EXPECT_EQ(verdict.sentence,
            "rank 1 has not called all_reduce #3 of group a, in which 1 rank waits; rank 1 is in f "
            "(a.py:1)");
}

TEST(JudgeHang, ALongListOfRanksIsCut) {
  Ranks ranks = {Rank(99, {Waits("pg", 3)})};
  for (int rank = 0; rank < 12; ++rank) {
    ranks.push_back(Rank(rank, {Called("pg", 2)}));
  }
  EXPECT_EQ(JudgeHang(ranks).culprits.size(), 12U);
  EXPECT_TRUE(JudgeHang(ranks).sentence.starts_with(
      "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 more have not called"));
}

TEST(CompareLooks, WhoseCallsDifferMovesAndWhoIsSeenOnceIsLeftOut) {
  const Ranks first = {Rank(0, {Waits("pg", 3)}), Rank(1, {Called("pg", 2)}), Rank(2, {})};
  const Ranks second = {
      Rank(1, {Called("pg", 2)}, "f (a.py:1)"), Rank(0, {Waits("pg", 4)}), Rank(3, {})};
  Ranks expected = {Rank(0, {Waits("pg", 4)}), Rank(1, {Called("pg", 2)}, "f (a.py:1)")};
  expected[0].is_moving = true;
  EXPECT_EQ(CompareLooks(first, second), expected);
}

TEST(CompareLooks, OnlyWhoIsLostAtBothLooksIsLost) {
  Ranks lost = {Rank(0, {})};
  lost[0].is_lost = true;
  EXPECT_TRUE(CompareLooks(lost, lost)[0].is_lost);
  EXPECT_FALSE(CompareLooks({Rank(0, {})}, lost)[0].is_lost);
}

TEST(RankEvidence, ComesBackAsItWasWritten) {
  RankEvidence evidence = Rank(3, {Waits("a", 5, 7), Called("b", 0)}, "f (a.py:1)");
  evidence.is_lost = evidence.is_moving = true;
  std::vector<Error> errors;
  EXPECT_EQ(DecodeRankEvidence(EncodeRankEvidence(evidence), "", &errors), evidence);
  EXPECT_TRUE(errors.empty());
}

TEST(RankEvidence, WordsOfAProgramCannotSteerATerminal) {
  Json json = EncodeRankEvidence(Rank(3, {Called("a", 1)}, "f\n\x1b[2J (a.py:1)"));
  json["groups"][0]["name"] = "group \x1b[31m";
  std::vector<Error> errors;
  const RankEvidence evidence = DecodeRankEvidence(json, "", &errors);
  EXPECT_EQ(evidence.place, "f\\x0a\\x1b[2J (a.py:1)");
  EXPECT_EQ(evidence.groups[0].name, "group \\x1b[31m");
}

TEST(RankEvidence, WrongOrTooMuchIsRefusedWithItsPath) {
  Json json = EncodeRankEvidence(Rank(3, {Called("a", 1)}));
  json["groups"][0]["called"] = "many";
  std::vector<Error> errors;
  DecodeRankEvidence(json, "hangEvidence[0]", &errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(
      errors[0].ToString(),
      "hangEvidence[0].groups[0].called: \"many\" found, expected a whole number of at least 0");
  json["groups"] = Json::array();
  for (std::size_t i = 0; i <= kEvidenceGroupsMax; ++i) {
    json["groups"].push_back({{"id", "a"}, {"called", 1}});
  }
  errors.clear();
  DecodeRankEvidence(json, "", &errors);
  EXPECT_EQ(errors.size(), 1U);
}

}  // namespace
}  // namespace lockstep
