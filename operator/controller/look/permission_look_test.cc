#include "operator/controller/look/permission_look.h"

#include "operator/controller/testing/fake_api.h"
#include "operator/controller/testing/round_bench.h"

namespace lockstep::control {
namespace {

constexpr const char* kNamespace = R"({"metadata": {"name": "default"}})";

std::string QuotaList(const Json& hard, const Json& used) {
  const Json quota = {
      {"metadata", {{"name", "team"}}}, {"spec", {{"hard", hard}}}, {"status", {{"used", used}}}};
  return DumpJson({{"metadata", Json::object()}, {"items", {quota}}});
}

kube::Reply Refused(int code, const std::string& message) {
  return {code, RefusalBody(code, code == 403 ? "Forbidden" : "BadRequest", message), {}};
}

class PermissionLookTest : public RoundBench {
 protected:
  PermissionLookTest() : logger_(MakeNullLogger()), levels_(PodSecurityLevel::kBaseline, nullptr) {
    view_.RequirePermissions();
    AddJob("mnist", 8);
    TrainingJob job = Stored("mnist");
    job.spec.roles.front().replicas = 2;
    Store(job);
  }

  // The API server answers so; null: every pod is admitted as it was sent.
  void Ask(const kube::CallResult& quotas,
           const std::optional<kube::CallResult>& pod = std::nullopt,
           const std::vector<JobId>& victims = {}) {
    requests_.clear();
    notes_.wall_now = now_;
    PermissionLook look({&view_, &notes_, &settings_, &levels_, At(0)}, Stored("mnist"), victims);
    for (auto calls = look.Next(); !calls.empty(); calls = look.Next()) {
      for (const ErrandCall& call : calls) {
        const kube::Request request = call.make().value();
        requests_.push_back(request.method + " " + request.target);
        call.read(request.resource == kube::kResourceQuotas ? quotas
                  : request.resource == kube::kNamespaces
                      ? kube::CallResult(kube::Reply{200, kNamespace, {}})
                      : pod.value_or(kube::Reply{201, request.body, {}}));
      }
      if (meanwhile_) {
        std::exchange(meanwhile_, nullptr)();
      }
    }
    look.TakeAnswers();
  }

  PodPermission Answer() {
    return view_.Scheduling(now_).state().Find("default/mnist")->request.permission;
  }

  std::unique_ptr<Logger> logger_;
  NamespaceLevels levels_;
  PodSettings settings_;
  ClusterNotes notes_;
  std::vector<std::string> requests_;
  std::function<void()> meanwhile_;
};

TEST_F(PermissionLookTest, ServerIsAskedAboutOnePodOfEachRoleAndNothingIsStored) {
  EXPECT_EQ(Answer().answer, PodsAllowed::kUnasked);
  Ask(kube::Reply{200, QuotaList({{"pods", 2}}, {{"pods", 0}}), {}});
  EXPECT_EQ(requests_,
            (std::vector<std::string>{
                "GET /api/v1/namespaces/default/resourcequotas?limit=100",
                "GET /api/v1/namespaces/default",
                "POST /api/v1/namespaces/default/pods?fieldValidation=Strict&dryRun=All"}));
  EXPECT_EQ(Answer().answer, PodsAllowed::kYes);
}

TEST_F(PermissionLookTest, AnswersOfTheServerDecide) {
  struct Case {
    const char* name;
    kube::CallResult quotas;
    std::optional<kube::CallResult> pod;
    PodsAllowed answer;
    std::string words;
  };

  const kube::CallResult none = kube::Reply{200, R"({"metadata": {}, "items": []})", {}};
  const std::vector<Case> cases = {
      {"the quota holds one pod and not both",
       kube::Reply{200, QuotaList({{"requests.nvidia.com/gpu", 8}}, Json::object()), {}},
       std::nullopt,
       PodsAllowed::kNo,
       "the job's pods request requests.nvidia.com/gpu 16, but ResourceQuota team of the namespace "
       "allows 8"},
      {"a quota refuses the first pod",
       none,
       Refused(403, "pods \"a\" is forbidden: exceeded quota: team"),
       PodsAllowed::kNo,
       "the API server refuses the job's pods: pods \"a\" is forbidden: exceeded quota: team"},
      {"a policy refuses it",
       none,
       Refused(403, "not here"),
       PodsAllowed::kNo,
       "the API server refuses the job's pods: not here"},
      {"quotas may not be read", Refused(403, "no right"), std::nullopt, PodsAllowed::kYes, ""},
      {"the name is taken",
       none,
       kube::Reply{409, RefusalBody(409, "AlreadyExists", "it is there"), {}},
       PodsAllowed::kYes,
       ""},
      {"a webhook with side effects",
       none,
       Refused(400, "admission webhook \"w\" does not support dry run"),
       PodsAllowed::kYes,
       ""},
      {"the server fails",
       none,
       kube::Reply{500, RefusalBody(500, "InternalError", "etcd is away"), {}},
       PodsAllowed::kNo,
       "the API server could not say whether it accepts the job's pods: etcd is away"},
  };
  for (const Case& one : cases) {
    Ask(one.quotas, one.pod);
    EXPECT_EQ(Answer().answer, one.answer) << one.name;
    EXPECT_EQ(Answer().words, one.words) << one.name;
  }
}

// The server counts what they hold as used until they have gone.
TEST_F(PermissionLookTest, WhatPodsOfTheNamespaceWouldGiveBackIsFree) {
  kube::Pod pod;
  pod.name = "low-worker-0";
  pod.namespace_name = "default";
  pod.uid = "uid-of-low";
  pod.labels = EncodePodLabels({"low", "uid-low", {Role::kWorker, 0}, 0, {}});
  pod.owner_uid = "uid-low";
  pod.owner_job = "low";
  pod.spec.container.requests.gpu_count = 8;
  pod.status.phase = kube::PodPhase::kRunning;
  const kube::Item<kube::Pod> item{
      {"default", pod.name}, pod.uid, NextVersion(), std::make_shared<const kube::Pod>(pod)};
  view_.Apply(kube::ObjectUpdate<kube::Pod>(kube::Upserted<kube::Pod>{item}), &news_);
  const kube::CallResult quotas = kube::Reply{
      200, QuotaList({{"requests.nvidia.com/gpu", 16}}, {{"requests.nvidia.com/gpu", 8}}), {}};
  const kube::CallResult full = Refused(403, "exceeded quota: team");
  Ask(quotas, full);
  EXPECT_EQ(Answer().answer, PodsAllowed::kNo);
  Ask(quotas, full, {KeyOf("low")});
  EXPECT_EQ(Answer().answer, PodsAllowed::kYes) << Answer().words;
}

TEST_F(PermissionLookTest, AnswerIsForgottenWhenTheJobIsAnother) {
  meanwhile_ = [this] {
    TrainingJob job = Stored("mnist");
    ++job.metadata.generation;
    Store(job);
  };
  Ask(kube::Reply{403, "{}", {}});
  EXPECT_EQ(Answer().answer, PodsAllowed::kUnasked);
  const uint64_t before = view_.Scheduling(now_).state().news();
  Ask(kube::Reply{403, "{}", {}});
  EXPECT_EQ(Answer().answer, PodsAllowed::kYes);
  EXPECT_NE(view_.Scheduling(now_).state().news(), before);
  TrainingJob job = Stored("mnist");
  ++job.metadata.generation;
  Store(job);
  EXPECT_EQ(Answer().answer, PodsAllowed::kUnasked);
}

}  // namespace
}  // namespace lockstep::control
