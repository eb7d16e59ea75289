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
};

Json Lease(const LeaseText& text) {
  return {{"metadata",
           {{"namespace", text.space},
            {"name", "lockstep"},
            {"creationTimestamp", text.created},
            {"annotations", {{kServedAnnotation, text.serves}}}}},
          {"spec", {{"holderIdentity", text.holder}, {"renewTime", text.renewed}}}};
}

Status Check(const LeaseText& other, const std::set<std::string>& served = {}) {
  LeaseText own;
  own.space = "ours";
  own.created = "2027-01-10T00:00:00Z";
  const Json leases = {{"items", Json::array({Lease(own), Lease(other)})}};
  return CheckNoOtherOperator(DumpJson(leases), {"ours", "lockstep", served}, kNow);
}

TEST(OtherOperators, OlderReleaseThatServesTheSameNamespacesIsNamed) {
  const Status checked = Check({});
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code(), ErrorCode::kAborted);
  EXPECT_EQ(checked.error().message(),
            "the operator with the lease theirs/lockstep serves *, we *: two would undo each "
            "other's work");
  EXPECT_FALSE(Check({.serves = "a,b"}, {"b", "c"}).ok());
  EXPECT_FALSE(Check({.serves = "a,b"}).ok());
}

TEST(OtherOperators, WhoeverServesOthersHasEndedOrCameLaterIsNone) {
  EXPECT_TRUE(Check({.serves = "a,b"}, {"c"}).ok());
  EXPECT_TRUE(Check({.holder = ""}).ok());
  EXPECT_TRUE(Check({.renewed = "2027-01-15T07:58:50.000000Z"}).ok());
  EXPECT_TRUE(Check({.renewed = "nonsense"}).ok());
  EXPECT_TRUE(Check({.created = "2027-01-11T00:00:00Z"}).ok()) << "it is the one to stand back";
}

TEST(OtherOperators, NamespacesAreDescribedAsTheyAreRead) {
  EXPECT_EQ(DescribeServed({}), "*");
  EXPECT_EQ(DescribeServed({"b", "a"}), "a,b");
  EXPECT_EQ(ListOperatorLeases().target,
            "/apis/coordination.k8s.io/v1/leases?labelSelector=lockstep.dev%2Foperator");
}

}  // namespace
}  // namespace lockstep::control
