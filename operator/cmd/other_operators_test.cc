#include "operator/cmd/other_operators.h"

#include <gtest/gtest.h>

#include "common/json/json.h"

namespace lockstep::control {
namespace {

constexpr WallTime kNow{std::chrono::seconds(1'800'000'000)};  // 2027-01-15T08:00:00Z

struct LeaseText {
  std::string space = "theirs";
  std::string created = "2027-01-01T00:00:00Z";
  std::string serves = "*";
  std::string holder = "pod-1";
  std::string renewed = "2027-01-15T07:59:50.000000Z";
  bool gives_way = false;
  std::string name = "lockstep";
};

Json Lease(const LeaseText& text) {
  Json annotations = {{kServedAnnotation, text.serves}};
  if (text.gives_way) {
    annotations[kGivesWayAnnotation] = "true";
  }
  return {{"metadata",
           {{"namespace", text.space},
            {"name", text.name},
            {"creationTimestamp", text.created},
            {"annotations", annotations}}},
          {"spec", {{"holderIdentity", text.holder}, {"renewTime", text.renewed}}}};
}

kube::CallResult Answer(const Json& body) {
  return kube::Reply{200, DumpJson(body), {}};
}

kube::CallResult Refusal(int status) {
  return kube::Reply{status, R"({"kind":"Status","message":"no"})", {}};
}

LeaseText Own() {
  LeaseText own;
  own.space = "ours";
  own.created = "2027-01-10T00:00:00Z";
  return own;
}

OthersFinding Judge(const LeaseText& own,
                    const LeaseText& other,
                    const std::set<std::string>& served = {}) {
  const Json leases = {{"items", Json::array({Lease(own), Lease(other)})}};
  return JudgeOthers({Answer(leases), Refusal(404)}, {"ours", "lockstep", served}, kNow).value();
}

Precedence Against(const LeaseText& other, const std::set<std::string>& served = {}) {
  return Judge(Own(), other, served).precedence;
}

// With nobody in the list.
Result<OthersFinding> JudgeBefore(kube::CallResult predecessor, const std::string& own_name) {
  const Json none = {{"items", Json::array()}};
  return JudgeOthers({Answer(none), std::move(predecessor)}, {"ours", own_name, {}}, kNow);
}

TEST(OtherOperators, OlderReleaseThatServesTheSameNamespacesIsNamed) {
  const OthersFinding finding = Judge(Own(), {});
  EXPECT_EQ(finding.precedence, Precedence::kGiveWay);
  EXPECT_EQ(finding.why,
            "the operator with the lease theirs/lockstep serves *, we *: two would undo each "
            "other's work");
  EXPECT_EQ(Against({.serves = "a,b"}, {"b", "c"}), Precedence::kGiveWay);
  EXPECT_EQ(Against({.serves = "a,b"}), Precedence::kGiveWay);
}

TEST(OtherOperators, WhoeverServesOthersHasEndedOrGivesWayIsNone) {
  EXPECT_EQ(Against({.serves = "a,b"}, {"c"}), Precedence::kFirst);
  EXPECT_EQ(Against({.holder = ""}), Precedence::kFirst);
  EXPECT_EQ(Against({.renewed = "2027-01-15T07:58:50.000000Z"}), Precedence::kFirst);
  EXPECT_EQ(Against({.renewed = "nonsense"}), Precedence::kFirst);
  EXPECT_EQ(Against({.gives_way = true}), Precedence::kFirst);
}

TEST(OtherOperators, YoungerReleaseIsWaitedForUntilItGivesWay) {
  EXPECT_EQ(Against({.created = "2027-01-11T00:00:00Z"}), Precedence::kAwait);
  EXPECT_EQ(Against({.created = "2027-01-11T00:00:00Z", .gives_way = true}), Precedence::kFirst);
}

TEST(OtherOperators, NobodyReturnsBeforeItsOwnLeaseSaysSo) {
  LeaseText own = Own();
  own.gives_way = true;
  EXPECT_EQ(Judge(own, {.holder = ""}).precedence, Precedence::kReturn);
  EXPECT_EQ(Judge(own, {}).precedence, Precedence::kGiveWay);
}

TEST(OtherOperators, OperatorOfAChartBeforeEndsFirst) {
  const LeaseText lease{.space = "ours", .name = "lockstep-operator"};
  Result<OthersFinding> finding = JudgeBefore(Answer(Lease(lease)), "lockstep");
  ASSERT_TRUE(finding.ok());
  EXPECT_EQ(finding->precedence, Precedence::kAwait);
  EXPECT_TRUE(finding->is_successor);
  EXPECT_EQ(finding->why, "the operator with the lease ours/lockstep-operator has not ended yet");

  EXPECT_EQ(JudgeBefore(Answer(Lease(lease)), "lockstep-operator")->precedence, Precedence::kFirst)
      << "that is our own";
  Json labelled = Lease(lease);
  labelled["metadata"]["labels"] = {{kOperatorLabel, "true"}};
  EXPECT_EQ(JudgeBefore(Answer(labelled), "lockstep")->precedence, Precedence::kFirst)
      << "of a release that the list knows";
  EXPECT_FALSE(JudgeBefore(Refusal(500), "lockstep").ok());
}

TEST(OtherOperators, WhoMayNotLookGoesOnAndSaysSo) {
  const OperatorScope own{"ours", "lockstep", {}};
  const auto blind = JudgeOthers({Refusal(403), Refusal(403)}, own, kNow);
  ASSERT_TRUE(blind.ok());
  EXPECT_EQ(blind->precedence, Precedence::kFirst);
  EXPECT_NE(blind->why, "");
  EXPECT_FALSE(JudgeOthers({Refusal(401), Refusal(404)}, own, kNow).ok())
      << "credentials of a moment ago say nothing of rights";
  EXPECT_FALSE(JudgeOthers({Refusal(500), Refusal(404)}, own, kNow).ok());
}

TEST(OtherOperators, NamespacesAreDescribedAsTheyAreRead) {
  EXPECT_EQ(DescribeServed({}), "*");
  EXPECT_EQ(DescribeServed({"b", "a"}), "a,b");
  const std::vector<kube::Request> questions = LookForOthers({"ours", "lockstep", {}});
  ASSERT_EQ(questions.size(), 2U);
  EXPECT_EQ(questions[0].target,
            "/apis/coordination.k8s.io/v1/leases?labelSelector=lockstep.dev%2Foperator");
  EXPECT_EQ(questions[1].target,
            "/apis/coordination.k8s.io/v1/namespaces/ours/leases/lockstep-operator");
}

}  // namespace
}  // namespace lockstep::control
