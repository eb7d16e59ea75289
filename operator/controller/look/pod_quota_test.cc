#include "operator/controller/look/pod_quota.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

Json Quota(Json hard, Json used, Json spec = Json::object()) {
  spec["hard"] = std::move(hard);
  return {{"metadata", {{"name", "team"}}}, {"spec", spec}, {"status", {{"used", used}}}};
}

TEST(PodQuota, PodCountsAsTheServerCountsIt) {
  const Json container = {{"resources",
                           {{"requests", {{"cpu", "500m"}}},
                            {"limits", {{"cpu", 1}, {"memory", "1Ki"}, {"nvidia.com/gpu", "2"}}}}}};
  const Json init = {{"resources", {{"requests", {{"cpu", 2}, {"memory", 1}}}}}};
  const Json sidecar = {{"restartPolicy", "Always"},
                        {"resources", {{"requests", {{"cpu", "250m"}}}}}};
  const Json pod = {{"spec",
                     {{"containers", {container}},
                      {"initContainers", {sidecar, init}},
                      {"overhead", {{"memory", "1Ki"}}}}}};
  const QuotaAmounts expected = {{"count/pods", 1000},
                                 {"cpu", 2250},
                                 {"limits.cpu", 1000},
                                 {"limits.memory", 1024'000},
                                 {"limits.nvidia.com/gpu", 2000},
                                 {"memory", 2048'000},
                                 {"nvidia.com/gpu", 2000},
                                 {"pods", 1000},
                                 {"requests.cpu", 2250},
                                 {"requests.memory", 2048'000},
                                 {"requests.nvidia.com/gpu", 2000}};
  EXPECT_EQ(QuotaUseOf(pod), expected);
}

TEST(PodQuota, QuotaHoldsTheWholeGangOrSaysWhatIsMissing) {
  struct Case {
    const char* name;
    Json hard;
    Json used;
    QuotaAmounts freed;
    std::string why;
  };

  const QuotaAmounts some = {{"requests.nvidia.com/gpu", 8000}, {"pods", 2000}};
  const Json scoped = {{"scopes", {"BestEffort"}}};
  const std::vector<Case> cases = {
      {"no quota of it", {{"requests.cpu", 1}}, {}, {}, ""},
      {"just enough", {{"requests.nvidia.com/gpu", 16}}, {}, {}, ""},
      {"too small",
       {{"requests.nvidia.com/gpu", "8"}},
       {{"requests.nvidia.com/gpu", "0"}},
       {},
       "the job's pods request requests.nvidia.com/gpu 16, but ResourceQuota team of the namespace "
       "allows 8"},
      {"in use",
       {{"pods", 4}},
       {{"pods", 1}},
       {},
       "the job's pods request pods 4, but ResourceQuota team of the namespace allows 4, of which "
       "other pods use 1"},
      {"freed", {{"requests.nvidia.com/gpu", 16}}, {{"requests.nvidia.com/gpu", 8}}, some, ""},
      {"not all of it freed",
       {{"requests.nvidia.com/gpu", 16}},
       {{"requests.nvidia.com/gpu", 10}},
       some,
       "the job's pods request requests.nvidia.com/gpu 16, but ResourceQuota team of the namespace "
       "allows 16, of which other pods use 2"},
      {"limits",
       {{"limits.memory", "1Gi"}},
       {},
       {},
       "the job's pods request limits.memory 4Gi, but ResourceQuota team of the namespace allows "
       "1Gi"},
      {"limits that pods free are not known", {{"limits.memory", "1Gi"}}, {}, some, ""},
      {"unreadable", {{"pods", "many"}}, {}, {}, ""},
      {"beyond all numbers", {{"pods", 9}}, {{"pods", "9Ei"}}, {}, ""},
  };
  const QuotaAmounts asked = {{"requests.nvidia.com/gpu", 16'000},
                              {"pods", 4000},
                              {"limits.memory", (int64_t{4} << 30U) * 1000}};
  for (const Case& one : cases) {
    const ResourceQuota quota = ReadResourceQuota(Quota(one.hard, one.used));
    EXPECT_EQ(WhyOverQuota({quota}, asked, one.freed), one.why) << one.name;
  }
  const ResourceQuota some_pods = ReadResourceQuota(Quota({{"pods", 0}}, {}, scoped));
  EXPECT_TRUE(some_pods.has_scopes);
  EXPECT_EQ(WhyOverQuota({some_pods}, asked, {}), "");
}

TEST(PodQuota, SumsStayAtTheLargestNumber) {
  QuotaAmounts sum = {{"pods", 1}};
  AddTimes({{"pods", int64_t{1} << 62U}}, 4, &sum);
  EXPECT_EQ(sum.at("pods"), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace lockstep::control
