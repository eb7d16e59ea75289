#include "operator/controller/errand/namespace_levels.h"

#include <gtest/gtest.h>

#include "operator/controller/testing/fake_api.h"

namespace lockstep::control {
namespace {

std::string NamespaceThatEnforces(const std::string& level) {
  return R"({"metadata": {"name": "team", "labels": {"pod-security.kubernetes.io/enforce": ")" +
         level + R"("}}})";
}

struct LevelCase {
  int status;
  std::string body;
  PodSecurityLevel level;  // where the operator's own word is `baseline`
};

PodSecurityLevel LevelOf(PodSecurityLevel otherwise, int status, const std::string& body) {
  const auto logger = MakeNullLogger();
  NamespaceLevels levels(otherwise, logger.get());
  levels.Learn("team", kube::Reply{status, body, {}}, TimePoint());
  return levels.Of("team", TimePoint()).value();
}

TEST(NamespaceLevels, LabelDecidesAndElseTheOperatorsOwnWord) {
  const std::vector<LevelCase> cases = {
      {200, NamespaceThatEnforces("restricted"), PodSecurityLevel::kRestricted},
      {200, NamespaceThatEnforces("baseline"), PodSecurityLevel::kBaseline},
      {200, R"({"metadata": {"name": "team"}})", PodSecurityLevel::kBaseline},
      {200, R"({"metadata": 7})", PodSecurityLevel::kBaseline},
      {200, "{", PodSecurityLevel::kBaseline},
      {403, RefusalBody(403, "Forbidden", "no"), PodSecurityLevel::kBaseline}};
  for (const LevelCase& one : cases) {
    EXPECT_EQ(LevelOf(PodSecurityLevel::kBaseline, one.status, one.body), one.level) << one.body;
  }
  EXPECT_EQ(LevelOf(PodSecurityLevel::kRestricted, 404, RefusalBody(404, "NotFound", "no")),
            PodSecurityLevel::kRestricted);
  EXPECT_EQ(LevelOf(PodSecurityLevel::kRestricted, 200, NamespaceThatEnforces("privileged")),
            PodSecurityLevel::kBaseline);
}

TEST(NamespaceLevels, IsBelievedForAMinute) {
  const auto logger = MakeNullLogger();
  NamespaceLevels levels(PodSecurityLevel::kBaseline, logger.get());
  const TimePoint start = TimePoint() + std::chrono::hours(1);
  EXPECT_EQ(levels.Of("team", start), std::nullopt);
  levels.Learn("team", kube::Reply{200, NamespaceThatEnforces("restricted"), {}}, start);

  EXPECT_EQ(levels.Of("team", start + std::chrono::seconds(59)), PodSecurityLevel::kRestricted);
  EXPECT_EQ(levels.Of("team", start + std::chrono::seconds(60)), std::nullopt);
}

}  // namespace
}  // namespace lockstep::control
