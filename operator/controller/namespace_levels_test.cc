#include "operator/controller/namespace_levels.h"

#include <gtest/gtest.h>

#include "operator/controller/api_cluster_testing.h"

namespace lockstep::control {
namespace {

constexpr const char* kTeam = "GET /api/v1/namespaces/team";

std::string NamespaceThatEnforces(const std::string& level) {
  return R"({"metadata": {"name": "team", "labels": {"pod-security.kubernetes.io/enforce": ")" +
         level + R"("}}})";
}

struct LevelCase {
  int status;
  std::string body;
  PodSecurityLevel level;  // where the operator's own word is `baseline`
};

TEST(NamespaceLevels, LabelDecidesAndElseTheOperatorsOwnWord) {
  const std::vector<LevelCase> cases = {
      {200, NamespaceThatEnforces("restricted"), PodSecurityLevel::kRestricted},
      {200, NamespaceThatEnforces("baseline"), PodSecurityLevel::kBaseline},
      {200, R"({"metadata": {"name": "team"}})", PodSecurityLevel::kBaseline},
      {200, R"({"metadata": 7})", PodSecurityLevel::kBaseline},
      {200, "{", PodSecurityLevel::kBaseline},
      {403, Refusal(403, "Forbidden", "no"), PodSecurityLevel::kBaseline}};
  for (const LevelCase& one : cases) {
    ScriptedApi api;
    const auto logger = MakeNullLogger();
    api.Expect(kTeam, one.status, one.body);
    NamespaceLevels levels(PodSecurityLevel::kBaseline, &api, logger.get());
    EXPECT_EQ(levels.Of("team", TimePoint()), one.level) << one.body;
  }
  ScriptedApi api;
  const auto logger = MakeNullLogger();
  NamespaceLevels strict(PodSecurityLevel::kRestricted, &api, logger.get());
  EXPECT_EQ(strict.Of("team", TimePoint()), PodSecurityLevel::kRestricted) << "no such namespace";
  api.Expect("GET /api/v1/namespaces/open", 200, NamespaceThatEnforces("privileged"));
  EXPECT_EQ(strict.Of("open", TimePoint()), PodSecurityLevel::kBaseline);
}

TEST(NamespaceLevels, IsBelievedForAMinute) {
  ScriptedApi api;
  const auto logger = MakeNullLogger();
  api.Expect(kTeam, 200, R"({"metadata": {"name": "team"}})");
  api.Expect(kTeam, 200, NamespaceThatEnforces("restricted"));
  NamespaceLevels levels(PodSecurityLevel::kBaseline, &api, logger.get());
  const TimePoint start = TimePoint() + std::chrono::hours(1);

  EXPECT_EQ(levels.Of("team", start), PodSecurityLevel::kBaseline);
  EXPECT_EQ(levels.Of("team", start + std::chrono::seconds(59)), PodSecurityLevel::kBaseline);
  EXPECT_EQ(levels.Of("team", start + std::chrono::seconds(60)), PodSecurityLevel::kRestricted);
}

}  // namespace
}  // namespace lockstep::control
