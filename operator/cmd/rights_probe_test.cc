#include "operator/cmd/rights_probe.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

const kube::Reply kList{200, R"({"items": []})", {}};
const kube::Reply kNotFound{404, R"({"kind": "Status", "reason": "NotFound", "code": 404})", {}};
const kube::Reply kNodesForbidden{
    403,
    R"({"kind": "Status", "reason": "Forbidden", "message": "nodes is forbidden", "code": 403})",
    {}};
const kube::Fault kSilence{kube::FaultKind::kTimeout, true, "no answer"};

TEST(RightsProbe, AsksForOneOfEachKindThatIsFollowed) {
  const std::vector<kube::Request> requests = ProbeRights("team-a");
  ASSERT_EQ(requests.size(), 6U);
  EXPECT_EQ(requests[0].target, "/apis/lockstep.dev/v1/namespaces/team-a/trainingjobs?limit=1");
  EXPECT_EQ(requests[1].target, "/api/v1/pods?limit=1");
}

// A right to list all says nothing of the rights in one of them.
TEST(RightsProbe, AsksForAJobInEachNamespaceThatIsServed) {
  const std::vector<kube::Request> requests = ProbeNamespaces({"team-a", "team-b"});
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[1].target.find("/apis/lockstep.dev/v1/namespaces/team-b/trainingjobs/"), 0U);
  EXPECT_EQ(ProbeNamespaces(std::vector<std::string>(1000, "team")).size(), 64U);
}

TEST(RightsProbe, WhatIsForbiddenIsSaidInTheServersWords) {
  const Status judged = JudgeRights({kList, kSilence, kNodesForbidden});
  ASSERT_FALSE(judged.ok());
  EXPECT_EQ(judged.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(judged.error().ToString().find("nodes is forbidden"), std::string::npos);
}

TEST(RightsProbe, SilenceTellsNothingAndAKindThatIsGoneIsNoMatterOfRights) {
  EXPECT_EQ(JudgeRights({kList, kSilence}).error().code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(JudgeRights({kNotFound, kList}).ok());
}

}  // namespace
}  // namespace lockstep::control
