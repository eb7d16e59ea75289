#include "operator/kubeclient/kube/pod_group_search.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace lockstep::control::kube {
namespace {

using std::chrono::seconds;

const PodGroupsFound kBeta{PodGroupVersion::kV1Beta1, ""};
const PodGroupsFound kNone{};

std::string GroupText(const std::string& version) {
  return R"({"kind": "APIGroup", "versions": [{"version": "v1"}, {"version": ")" + version +
         R"("}]})";
}

// The server's side of a search, and its time.
class PodGroupSearchTest : public ::testing::Test {
 protected:
  // One exchange; the body comes in two pieces.
  std::optional<PodGroupsFound> Answer(int http_status, const std::string& body) {
    EXPECT_EQ(search_.NextRequest().request.target, "/apis/scheduling.k8s.io");
    search_.OnStatus(http_status);
    EXPECT_TRUE(search_.OnBytes(body.substr(0, 10)));
    EXPECT_TRUE(search_.OnBytes(body.substr(std::min<std::size_t>(10, body.size()))));
    return search_.OnEnd(std::nullopt, now_);
  }

  std::optional<PodGroupsFound> Break() {
    return search_.OnEnd(Fault{FaultKind::kRefused, false, "nobody listens"}, now_);
  }

  Duration Pause() const { return search_.NextRequest().not_before - now_; }

  PodGroupSearch search_;
  TimePoint now_{seconds(100)};
};

TEST_F(PodGroupSearchTest, FindingIsToldOnceAndLookedForAgain) {
  EXPECT_LE(search_.NextRequest().not_before, now_) << "the first time at once";
  EXPECT_EQ(Answer(200, GroupText("v1beta1")), kBeta);
  EXPECT_EQ(Pause(), seconds(30));
  EXPECT_EQ(Answer(200, GroupText("v1beta1")), std::nullopt);
}

TEST_F(PodGroupSearchTest, UpgradeOfTheServerIsNews) {
  EXPECT_EQ(Answer(200, GroupText("v1alpha2")), (PodGroupsFound{PodGroupVersion::kV1Alpha2, ""}));
  EXPECT_EQ(Answer(200, GroupText("v1beta1")), kBeta);
  EXPECT_EQ(Answer(200, GroupText("v1beta7")), kNone);
}

TEST_F(PodGroupSearchTest, ServerWithoutTheGroupServesNone) {
  EXPECT_EQ(Answer(404, "404 page not found"), kNone);
}

TEST_F(PodGroupSearchTest, ServerThatDoesNotAnswerIsTroubleUntilSomethingIsKnown) {
  const auto found = Break();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->version, std::nullopt);
  EXPECT_NE(found->trouble.find("nobody listens"), std::string::npos) << found->trouble;
  EXPECT_EQ(Pause(), seconds(2));
  EXPECT_EQ(Break(), std::nullopt) << "the same trouble is told once";
  EXPECT_EQ(Answer(200, GroupText("v1beta1")), kBeta);
}

TEST_F(PodGroupSearchTest, WhatIsKnownStaysKnownThroughAnOutage) {
  Answer(200, GroupText("v1beta1"));
  EXPECT_EQ(Break(), std::nullopt);
  EXPECT_NE(search_.last_failure(), "");
  EXPECT_EQ(Answer(503, "overloaded"), std::nullopt);
  EXPECT_EQ(Answer(200, "{}"), std::nullopt);
  EXPECT_EQ(Answer(200, GroupText("v1beta1")), std::nullopt);
  EXPECT_EQ(search_.last_failure(), "");
}

TEST_F(PodGroupSearchTest, RefusalIsToldInTheServersWords) {
  const auto found = Answer(403,
                            R"({"kind": "Status", "code": 403, "reason": "Forbidden",
                                "message": "you cannot get path /apis/scheduling.k8s.io"})");
  ASSERT_TRUE(found.has_value());
  EXPECT_NE(found->trouble.find("you cannot get path"), std::string::npos) << found->trouble;
}

TEST_F(PodGroupSearchTest, BodyWithoutEndIsCutOff) {
  search_.OnStatus(200);
  EXPECT_TRUE(search_.OnBytes(std::string(60000, 'x')));
  EXPECT_FALSE(search_.OnBytes(std::string(60000, 'x')));
  const auto found = search_.OnEnd(Fault{FaultKind::kCancelled, true, "stopped"}, now_);
  ASSERT_TRUE(found.has_value());
  EXPECT_NE(found->trouble, "");
}

}  // namespace
}  // namespace lockstep::control::kube
