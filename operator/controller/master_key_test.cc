#include "operator/controller/master_key.h"

#include <deque>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

// Answers in order, and notes what was asked.
class ScriptedApi final : public kube::ApiCaller {
 public:
  explicit ScriptedApi(std::deque<kube::Reply> replies) : replies_(std::move(replies)) {}

  std::vector<kube::CallResult> CallAll(const std::vector<kube::Request>& requests) override {
    std::vector<kube::CallResult> results;
    for (const kube::Request& request : requests) {
      log += request.method + " ";
      body += request.body;
      results.emplace_back(replies_.front());
      replies_.pop_front();
    }
    return results;
  }

  std::string log;
  std::string body;  // of all requests

 private:
  std::deque<kube::Reply> replies_;
};

const MasterKeyPlace kPlace{"lockstep-system", "lockstep-operator-key"};
const std::string kMasterKey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";  // of 32 bytes
const kube::Reply kFound{200, R"({"data": {"key": ")" + kMasterKey + R"("}})", {}};
const kube::Reply kMissing{404, R"({"kind": "Status", "reason": "NotFound", "code": 404})", {}};
const kube::Reply kTaken{409, R"({"kind": "Status", "reason": "AlreadyExists", "code": 409})", {}};

TEST(MasterKey, IsReadWhereItExists) {
  ScriptedApi api({kFound});
  EXPECT_EQ(EnsureMasterKey(&api, kPlace, "fresh").value(), kMasterKey);
  EXPECT_EQ(api.log, "GET ");
}

TEST(MasterKey, IsMadeOnceAndReadBack) {
  ScriptedApi api({kMissing, {201, "{}", {}}, kFound});
  EXPECT_EQ(EnsureMasterKey(&api, kPlace, "fresh").value(), kMasterKey);
  EXPECT_EQ(api.log, "GET POST GET ");
}

TEST(MasterKey, WhoIsFasterWins) {
  ScriptedApi api({kMissing, kTaken, kFound});
  EXPECT_EQ(EnsureMasterKey(&api, kPlace, "fresh").value(), kMasterKey);
}

TEST(MasterKey, SecretWithoutAKeyIsAnErrorAndNotReplaced) {
  ScriptedApi api({{200, R"({"data": {}})", {}}});
  EXPECT_EQ(EnsureMasterKey(&api, kPlace, "fresh").error().code(), ErrorCode::kCorrupt);
}

TEST(MasterKey, ShortOneIsRefusedWithItsLength) {
  ScriptedApi api({{200, R"({"data": {"key": "c2VjcmV0"}})", {}}});
  EXPECT_EQ(EnsureMasterKey(&api, kPlace, "fresh").error().ToString(),
            "secret lockstep-system/lockstep-operator-key: data.key: 6 bytes found, expected at "
            "least 32");
}

TEST(MasterKey, LeaderPutsBackTheVeryKeyThatSomebodyHasDeleted) {
  ScriptedApi api({kMissing, {201, "{}", {}}, kFound});
  EXPECT_TRUE(PutBackMasterKey(&api, kPlace, kMasterKey).ok());
  EXPECT_EQ(api.log, "GET POST GET ");
  EXPECT_NE(api.body.find(R"("data":{"key":")" + kMasterKey + R"("})"), std::string::npos)
      << api.body;
}

TEST(MasterKey, LeaderTellsOfAnotherKeyInItsPlaceAndLeavesIt) {
  const std::string held(kMasterKey.size(), 'A');
  ScriptedApi api({kFound});
  const Status kept = PutBackMasterKey(&api, kPlace, held);
  EXPECT_EQ(api.log, "GET ");
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().ToString().find("secret lockstep-system/lockstep-operator-key: data.key: "
                                         "the Secret has a different key"),
            0U)
      << kept.error().ToString();
  EXPECT_EQ(CompareMasterKey(kMasterKey, held, kPlace).error().code(), ErrorCode::kStale);
  EXPECT_TRUE(CompareMasterKey(kMasterKey, kMasterKey, kPlace).ok());
}

TEST(MasterKey, WhoStandsByIsHinderedByWhatIsThereAndNotByWhatIsMissing) {
  EXPECT_EQ(ReadMasterKey(kPlace).method, "GET");
  EXPECT_EQ(MasterKeyIn(kFound, kPlace).value(), kMasterKey);
  EXPECT_EQ(MasterKeyIn(kMissing, kPlace).value(), "");
  const kube::Reply short_key{200, R"({"data": {"key": "c2VjcmV0"}})", {}};
  EXPECT_EQ(MasterKeyIn(short_key, kPlace).error().code(), ErrorCode::kCorrupt);
  const kube::Reply forbidden{403, R"({"kind": "Status", "reason": "Forbidden", "code": 403})", {}};
  EXPECT_EQ(MasterKeyIn(forbidden, kPlace).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::control
