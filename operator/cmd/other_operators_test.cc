#include "operator/cmd/other_operators.h"

#include <gtest/gtest.h>

#include "common/json/json.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;
using Sign = LeaseSights::Sign;

constexpr TimePoint kNow{std::chrono::hours(1)};

struct LeaseText {
  std::string space = "theirs";
  std::string created = "2027-01-01T00:00:00Z";
  std::string serves = "*";
  std::string holder = "pod-1";
  bool gives_way = false;
  std::string name = "lockstep";
  std::string version = "1";
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
            {"resourceVersion", text.version},
            {"annotations", annotations}}},
          {"spec", {{"holderIdentity", text.holder}, {"leaseDurationSeconds", 15}}}};
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

// Looks at own and another's lease.
OthersFinding Look(const LeaseText& own,
                   const LeaseText& other,
                   const std::set<std::string>& served,
                   TimePoint now,
                   LeaseSights* sights) {
  const Json leases = {{"items", Json::array({Lease(own), Lease(other)})}};
  return JudgeOthers({Answer(leases), Refusal(404)}, {"ours", "lockstep", served}, now, sights)
      .value();
}

// The second look: the other's lease has changed since the first.
OthersFinding Judge(const LeaseText& own,
                    const LeaseText& other,
                    const std::set<std::string>& served = {}) {
  LeaseSights sights;
  Look(own, other, served, kNow, &sights);
  LeaseText renewed = other;
  renewed.version = "2";
  return Look(own, renewed, served, kNow + seconds(2), &sights);
}

Precedence Against(const LeaseText& other, const std::set<std::string>& served = {}) {
  return Judge(Own(), other, served).precedence;
}

// With nobody in the list.
Result<OthersFinding> JudgeBefore(kube::CallResult predecessor, const std::string& own_name) {
  const Json none = {{"items", Json::array()}};
  LeaseSights sights;
  return JudgeOthers({Answer(none), std::move(predecessor)}, {"ours", own_name, {}}, kNow, &sights);
}

TEST(OtherOperators, OlderReleaseThatServesTheSameNamespacesIsNamed) {
  const OthersFinding finding = Judge(Own(), {});
  EXPECT_EQ(finding.precedence, Precedence::kGiveWay);
  EXPECT_EQ(finding.why,
            "the operator with the lease theirs/lockstep serves *, and this operator serves *: two "
            "operators would undo each other's work");
  EXPECT_EQ(Against({.serves = "a,b"}, {"b", "c"}), Precedence::kGiveWay);
  EXPECT_EQ(Against({.serves = "a,b"}), Precedence::kGiveWay);
}

// Whoever shares queues with another has to know of it while it is away, too.
TEST(OtherOperators, AllReleasesAreListedWhetherOrNotTheyAreAtWork) {
  const std::vector<OtherRelease> older = {{"theirs/lockstep", {"a", "b"}, true}};
  EXPECT_EQ(Judge(Own(), {.serves = "a,b"}, {"c"}).releases, older);
  EXPECT_EQ(Judge(Own(), {.serves = "a,b", .holder = ""}, {"c"}).releases, older);
  LeaseText younger;
  younger.created = "2027-01-11T00:00:00Z";
  EXPECT_EQ(Judge(Own(), younger, {"c"}).releases,
            (std::vector<OtherRelease>{{"theirs/lockstep", {}, false}}));
}

TEST(OtherOperators, WhoeverServesOthersHasEndedOrGivesWayIsNone) {
  EXPECT_EQ(Against({.serves = "a,b"}, {"c"}), Precedence::kFirst);
  EXPECT_EQ(Against({.holder = ""}), Precedence::kFirst);
  EXPECT_EQ(Against({.gives_way = true}), Precedence::kFirst);
}

// No two clocks of a cluster agree: only that the lease changes tells that somebody is at work.
TEST(OtherOperators, LeaseThatIsNewToUsIsWaitedForUntilItChangesOrHasLasted) {
  LeaseSights sights;
  const LeaseText own = Own();
  LeaseText other;
  const auto look = [&](seconds after) { return Look(own, other, {}, kNow + after, &sights); };

  EXPECT_EQ(look(seconds(0)).precedence, Precedence::kAwait);
  EXPECT_TRUE(look(seconds(20)).is_ready_meanwhile);
  EXPECT_EQ(look(seconds(21)).precedence, Precedence::kFirst) << "its operator was killed";
  other.version = "2";
  EXPECT_EQ(look(seconds(30)).precedence, Precedence::kGiveWay) << "it works all the same";
  EXPECT_EQ(look(seconds(50)).precedence, Precedence::kGiveWay);
  EXPECT_EQ(look(seconds(51)).precedence, Precedence::kFirst);
  other.holder.clear();
  other.version = "3";
  EXPECT_EQ(look(seconds(52)).precedence, Precedence::kFirst);
}

TEST(LeaseSights, LeaseThatWasGivenUpIsNewAgainWhenSomebodyTakesIt) {
  LeaseSights sights;
  EXPECT_EQ(sights.See("a/b", "1", seconds(15), kNow), Sign::kUnproven);
  EXPECT_EQ(sights.See("a/b", "2", seconds(15), kNow + seconds(2)), Sign::kHeld);
  sights.Forget("a/b");
  EXPECT_EQ(sights.See("a/b", "4", seconds(15), kNow + seconds(9)), Sign::kUnproven);
  EXPECT_EQ(sights.See("c/d", "4", seconds(15), kNow + seconds(9)), Sign::kUnproven);
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
  EXPECT_TRUE(finding->is_ready_meanwhile);
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
  LeaseSights sights;
  const auto blind = JudgeOthers({Refusal(403), Refusal(403)}, own, kNow, &sights);
  ASSERT_TRUE(blind.ok());
  EXPECT_EQ(blind->precedence, Precedence::kFirst);
  EXPECT_NE(blind->why, "");
  EXPECT_FALSE(JudgeOthers({Refusal(401), Refusal(404)}, own, kNow, &sights).ok())
      << "credentials of a moment ago say nothing of rights";
  EXPECT_FALSE(JudgeOthers({Refusal(500), Refusal(404)}, own, kNow, &sights).ok());
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
