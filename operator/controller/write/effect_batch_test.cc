#include "operator/controller/write/effect_batch.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/controller/testing/fake_api.h"

namespace lockstep::control {
namespace {

constexpr const char* kPostPod = "POST /api/v1/namespaces/default/pods";
constexpr const char* kHoldPath = "/api/v1/namespaces/default/pods/hold-0";

class EffectBatchTest : public testing::Test, protected ApiClusterWorld {
 protected:
  // Begins to create so many pods of the job.
  void StartToCreate(int count) {
    gang_ = MakeTrainingJob(count);
    gang_.metadata = job_.metadata;
    std::vector<Effect> effects;
    for (int index = 0; index < count; ++index) {
      effects.emplace_back(
          CreatePod{BuildPod(gang_, {{Role::kWorker, index}, {}, Epoch(0), "node-a"}, {}).value()});
    }
    creations_ = std::move(effects);
    cluster_.StartEffects(kMnist, gang_, creations_);
    Deliver();  // what the namespace enforces
  }

  // What is sent from now on, while everything that is under way is answered.
  std::string CallsUntilTheEnd() {
    api_.log.clear();
    answers_ = Settle(kMnist);
    return api_.log;
  }

  TrainingJob gang_;
  std::vector<Effect> creations_;
  std::vector<Status> answers_;
};

TEST_F(EffectBatchTest, CreatedPodIsInViewBeforeAnyWatchTells) {
  api_.Expect("POST /api/v1/namespaces/default/pods", 201, PodBody(job_.metadata.uid));

  EXPECT_TRUE(Create().ok());
  EXPECT_EQ(Observe(kMnist)->pods.size(), 1U);
}

TEST_F(EffectBatchTest, OwnPodThatIsThereCountsAsCreated) {
  ExpectCreateConflict();
  api_.Expect(std::string("GET ") + kPodPath, 200, PodBody(job_.metadata.uid));

  EXPECT_TRUE(Create().ok());
  EXPECT_EQ(Observe(kMnist)->pods.size(), 1U);
}

TEST_F(EffectBatchTest, PodOfAnEarlierJobOfTheNameIsRemoved) {
  ExpectCreateConflict();
  api_.Expect(std::string("GET ") + kPodPath, 200, PodBody("uid-of-an-earlier-job"));

  EXPECT_EQ(Create().error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(api_.log.find(std::string("DELETE ") + kPodPath), std::string::npos);
  EXPECT_TRUE(Observe(kMnist)->refused_pods.empty());
}

TEST_F(EffectBatchTest, PodOfAnotherGroupsJobOfTheNameIsLeftAlone) {
  std::string theirs = PodBody("uid-of-their-job");
  const std::string ours(kApiVersion);
  theirs.replace(theirs.find(ours), ours.size(), "training.example.com/v1");
  ExpectCreateConflict();
  api_.Expect(std::string("GET ") + kPodPath, 200, theirs);

  EXPECT_FALSE(Create().ok());
  EXPECT_EQ(api_.log.find("DELETE"), std::string::npos);
}

TEST_F(EffectBatchTest, PodOfSomebodyElseIsLeftAloneAndSaidToTakeTheName) {
  ExpectCreateConflict();
  api_.Expect(std::string("GET ") + kPodPath, 200, PodBody(""));

  EXPECT_FALSE(Create().ok());
  EXPECT_EQ(api_.log.find("DELETE"), std::string::npos);
  const auto refused = Observe(kMnist)->refused_pods;
  ASSERT_EQ(refused.count("mnist-worker-0"), 1U);
  EXPECT_NE(refused.at("mnist-worker-0").message.find("taken"), std::string::npos);
}

TEST_F(EffectBatchTest, EndlessWordsOfARefusalAreCut) {
  api_.Expect("POST /api/v1/namespaces/default/pods",
              403,
              RefusalBody(403, "Forbidden", "denied: " + std::string(100'000, 'x')));
  EXPECT_FALSE(Create().ok());
  const std::string kept = Observe(kMnist)->refused_pods.at("mnist-worker-0").message;
  EXPECT_EQ(kept.find("denied: "), 0U);
  EXPECT_EQ(kept.size(), 1024U);
}

TEST_F(EffectBatchTest, RefusalIsKeptInTheServersWordsUntilThePodIsCreated) {
  const std::string words = "pods \"mnist-worker-0\" is forbidden: exceeded quota: compute";
  api_.Expect("POST /api/v1/namespaces/default/pods", 403, RefusalBody(403, "Forbidden", words));
  EXPECT_FALSE(Create().ok());
  EXPECT_EQ(Observe(kMnist)->refused_pods.at("mnist-worker-0").message, words);

  api_.Expect("POST /api/v1/namespaces/default/pods", 201, PodBody(job_.metadata.uid));
  EXPECT_TRUE(Create().ok());
  EXPECT_TRUE(Observe(kMnist)->refused_pods.empty());
}

TEST_F(EffectBatchTest, OnlyWhatTheServerItselfFindsWrongIsBeyondCure) {
  struct Row {
    int status;
    std::string message;
    std::string causes;
    bool is_beyond_cure;
  };

  const std::string field = R"({"reason":"FieldValueRequired","field":"spec.containers[0].image"})";
  const std::vector<Row> rows = {
      {422, R"(Pod \"a\" is invalid: spec.containers[0].image: Required value)", field, true},
      {422, R"(Pod \"a\" is invalid)", "", false},
      {422, R"(admission webhook \"w\" denied the request: no)", field, false},
      {422, R"(pods \"a\" is forbidden: ValidatingAdmissionPolicy)", R"({"message":"m"})", false},
      {400, R"(Pod in version \"v1\" cannot be handled as a Pod: json)", "", true},
      {400, R"(admission webhook \"w\" denied the request: no)", "", false},
      {403, R"(Pod \"a\" is invalid)", field, false},
  };
  for (const Row& row : rows) {
    api_.Expect("POST /api/v1/namespaces/default/pods",
                row.status,
                R"({"kind":"Status","message":")" + row.message + R"(","details":{"causes":[)" +
                    row.causes + "]}}");
    EXPECT_FALSE(Create().ok());
    const auto refused = Observe(kMnist)->refused_pods;
    ASSERT_EQ(refused.count("mnist-worker-0"), 1U) << row.message;
    EXPECT_EQ(refused.at("mnist-worker-0").is_invalid, row.is_beyond_cure) << row.message;
    EXPECT_EQ(refused.at("mnist-worker-0").count, &row - rows.data() + 1);
  }
}

// As the API server answers where an admission webhook does not, whose failurePolicy is Fail.
TEST_F(EffectBatchTest, ServerThatFailsOverAPodForAWhileIsToldInItsWordsUntilThePodIsCreated) {
  const std::string words = "failed calling webhook \"deny.example.com\": no endpoints available";
  const auto fail_at = [&](std::chrono::seconds at) {
    cluster_.SetTime(TimePoint(at), WallTime(at));
    api_.Expect(kPostPod, 500, RefusalBody(500, "InternalError", words));
    EXPECT_FALSE(Create().ok());
    return Observe(kMnist)->refused_pods;
  };
  EXPECT_TRUE(fail_at(std::chrono::seconds(100)).empty()) << "a hiccup";
  EXPECT_EQ(fail_at(std::chrono::seconds(110)).at("mnist-worker-0").message, words);

  api_.Expect(kPostPod, 201, PodBody(job_.metadata.uid));
  EXPECT_TRUE(Create().ok());
  EXPECT_TRUE(Observe(kMnist)->refused_pods.empty());
}

TEST_F(EffectBatchTest, ServerThatDoesNotAnswerOverAPodForAWhileIsToldOfAsWell) {
  for (const int at : {100, 160}) {
    cluster_.SetTime(TimePoint(std::chrono::seconds(at)), WallTime(std::chrono::seconds(at)));
    api_.ExpectSilence(kPostPod);
    EXPECT_FALSE(Create().ok());
  }
  EXPECT_FALSE(Observe(kMnist)->refused_pods.at("mnist-worker-0").message.empty());
}

TEST_F(EffectBatchTest, ServerThatFailsOverWhatPodsNeedIsToldOfThem) {
  const auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
  for (const int at : {100, 110}) {
    cluster_.SetTime(TimePoint(std::chrono::seconds(at)), WallTime(std::chrono::seconds(at)));
    api_.Expect("POST /api/v1/namespaces/default/services",
                500,
                RefusalBody(500, "InternalError", "failed calling webhook"));
    Apply({PrepareJob{}, CreatePod{pod.value()}});
  }
  EXPECT_EQ(Observe(kMnist)->refused_pods.at("mnist-worker-0").message, "failed calling webhook");
}

TEST_F(EffectBatchTest, RefusalOfWhatPodsNeedIsTheirs) {
  const std::string words = "services \"mnist\" is forbidden: exceeded quota: few";
  api_.Expect(
      "POST /api/v1/namespaces/default/services", 403, RefusalBody(403, "Forbidden", words));
  auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});

  Apply({PrepareJob{}, CreatePod{pod.value()}});

  EXPECT_EQ(api_.log.find("POST /api/v1/namespaces/default/pods"), std::string::npos);
  EXPECT_EQ(Observe(kMnist)->refused_pods.at("mnist-worker-0").message, words);
}

TEST_F(EffectBatchTest, KeyThatCannotBeRenewedIsToldAndNoPodWaitsForIt) {
  const std::string words = "secrets \"mnist\" is forbidden: exceeded quota: few";
  api_.Expect("POST /api/v1/namespaces/default/secrets", 403, RefusalBody(403, "Forbidden", words));
  api_.Expect("POST /api/v1/namespaces/default/pods", 201, PodBody(job_.metadata.uid));
  auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});

  const std::vector<Status> answers = Apply({RenewKey{}, CreatePod{pod.value()}});

  EXPECT_EQ(answers.at(0).error().message(), words);
  EXPECT_TRUE(answers.at(1).ok());
  EXPECT_TRUE(Observe(kMnist)->refused_pods.empty());
}

TEST_F(EffectBatchTest, KeyThatIsThereIsRenewedAlready) {
  api_.Expect(
      "POST /api/v1/namespaces/default/secrets", 409, RefusalBody(409, "AlreadyExists", "there"));
  EXPECT_TRUE(Apply({RenewKey{}}).front().ok());
}

TEST_F(EffectBatchTest, SlowCallOfOneJobHoldsUpNoOther) {
  const TrainingJob other = OtherJob();
  Watch(BodyOf(other, "9"));
  const auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
  const std::vector<Effect> effects{PrepareJob{}, CreatePod{pod.value()}};
  cluster_.StartEffects(kMnist, job_, effects);
  std::deque<kube::CallsAnswered> slow = std::exchange(api_.answers, {});
  for (const char* kind : {"services", "secrets", "pods"}) {
    api_.Expect(std::string("POST /api/v1/namespaces/default/") + kind,
                201,
                kind == std::string("pods") ? PodBody(other.metadata.uid)
                                            : ServiceBody("service-uid", true));
  }

  cluster_.StartEffects(kOther, other, effects);
  const std::vector<Status> answers = Settle(kOther);
  EXPECT_TRUE(answers.at(0).ok() && answers.at(1).ok());

  for (kube::CallsAnswered& answered : slow) {
    answered.results.front() =
        kube::Fault{kube::FaultKind::kTimeout, true, "a webhook does not answer"};
  }
  api_.answers = std::move(slow);
  EXPECT_FALSE(Settle(kMnist).at(1).ok());
}

// The pod went while the reply was on its way, and the watch, which began anew in between, has
// never heard of it.
TEST_F(EffectBatchTest, PodOfALateReplyIsDoubtedWhenTheWatchHasBegunAnew) {
  api_.Expect("POST /api/v1/namespaces/default/pods", 201, PodBody(job_.metadata.uid));
  const auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
  const std::vector<Effect> effects{CreatePod{pod.value()}};
  cluster_.StartEffects(kMnist, job_, effects);
  Deliver();  // what the namespace enforces
  News news;
  view_.Apply(kube::Replaced<kube::Pod>{}, &news);
  EXPECT_TRUE(Settle(kMnist).front().ok());

  EXPECT_TRUE(Observe(kMnist)->pods.empty());
  EXPECT_NE(api_.log.find(std::string("GET ") + kPodPath), std::string::npos);
}

TEST_F(EffectBatchTest, NothingIsDoneForAJobWhoseNameIsAnothersNow) {
  TrainingJob earlier = job_;
  earlier.metadata.uid = "uid-of-an-earlier-job";
  const std::vector<Effect> effects{PrepareJob{}, DeleteJob{}};
  cluster_.StartEffects(kMnist, earlier, effects);
  for (const Status& answer : Settle(kMnist)) {
    EXPECT_EQ(answer.error().code(), ErrorCode::kNotFound);
  }
  EXPECT_EQ(api_.log, "");
}

TEST_F(EffectBatchTest, PodsOfALargeGangAreMadeReadyAFewAtATimeEachWhenAnotherIsAnswered) {
  api_.Expect("POST /api/v1/namespaces/default/pods", 201, PodBody(job_.metadata.uid));
  StartToCreate(100);
  EXPECT_EQ(api_.answers.size(), 32U);
  EXPECT_TRUE(view_.PodsOf(kMnist).empty());

  Deliver();
  EXPECT_EQ(api_.answers.size(), 32U) << "one more was sent";
  EXPECT_EQ(view_.PodsOf(kMnist).size(), 1U) << "what has come is known at once";
  EXPECT_EQ(Settle(kMnist).size(), 100U);
  EXPECT_EQ(api_.answers.size(), 0U);
}

TEST_F(EffectBatchTest, NoMorePodsAreMadeForAJobThatIsDeleted) {
  StartToCreate(100);
  News news;
  view_.Apply(kube::Deleted<StoredJob>{DecodeStoredJob(JobBody("10")).value()}, &news);

  EXPECT_EQ(CallsUntilTheEnd(), "");
  ASSERT_EQ(answers_.size(), 100U);
  EXPECT_EQ(answers_.back().error().code(), ErrorCode::kAborted);
}

TEST_F(EffectBatchTest, NoMorePodsAreMadeForAJobThatWasChanged) {
  StartToCreate(100);
  Json suspended = ParseJson(JobBody("30")).value();
  suspended["metadata"]["generation"] = 2;
  Watch(DumpJson(suspended));

  EXPECT_EQ(CallsUntilTheEnd(), "");
  EXPECT_EQ(answers_.back().error().code(), ErrorCode::kAborted);
}

TEST_F(EffectBatchTest, NoMorePodsAreMadeForAJobThatIsAboutToGo) {
  StartToCreate(100);
  Json deleting = ParseJson(JobBody("30")).value();
  deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  Watch(DumpJson(deleting));

  EXPECT_EQ(CallsUntilTheEnd(), "");
}

TEST_F(EffectBatchTest, WhoIsToldWaitsForNoOtherAnswer) {
  News news;
  view_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid)).value(), &news);
  const auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
  const std::vector<Effect> effects{SendControl{"mnist-worker-0", {}}, CreatePod{pod.value()}};
  cluster_.StartEffects(kMnist, job_, effects);

  EXPECT_EQ(control_.sent_count, 1);
}

TEST_F(EffectBatchTest, LevelOfANamespaceThatCouldNotBeReadIsAskedForAgain) {
  const std::string read = "GET /api/v1/namespaces/default";
  api_.Expect(read, 503, RefusalBody(503, "ServiceUnavailable", "later"));
  EXPECT_FALSE(Create().ok());
  api_.Expect(read, 200, R"({"metadata": {"labels": {}}})");
  EXPECT_FALSE(Create().ok());
  EXPECT_TRUE(api_.replies[read].empty());
}

TEST_F(EffectBatchTest, OnlyPodsThatHaveEndedAreRemovedBesideTheCreationOfOthers) {
  const std::string pods = "POST /api/v1/namespaces/default/pods";
  const auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
  DeletePod removal;
  removal.name = "mnist-worker-0";
  removal.uid = "pod-uid";
  const auto first_batch = [&](const std::string& phase, const std::string& version) {
    api_.Expect(pods, 201, PodBody(job_.metadata.uid, 0, phase, version));
    EXPECT_TRUE(Create().ok());
    api_.Expect(std::string("DELETE ") + kPodPath, 500, RefusalBody(500, "InternalError", "later"));
    api_.log.clear();
    const std::vector<Effect> effects{removal, CreatePod{pod.value()}};
    cluster_.StartEffects(kMnist, job_, effects);
    std::string sent_at_once;
    for (std::size_t at = 0; at < api_.log.size(); at = api_.log.find('\n', at) + 1) {
      sent_at_once += api_.log.substr(at, api_.log.find(' ', at) + 1 - at);
    }
    Settle(kMnist);
    return sent_at_once;
  };

  EXPECT_EQ(first_batch("Running", "20"), "DELETE ") << "it holds room until then";
  EXPECT_EQ(first_batch("Failed", "21"), "DELETE POST ");
}

TEST_F(EffectBatchTest, ServiceOfSomebodyElseIsLeftAlone) {
  const std::string service = DumpJson(
      {{"metadata",
        {{"name", "mnist"}, {"namespace", "default"}, {"uid", "s"}, {"resourceVersion", "5"}}},
       {"spec", {{"clusterIP", "10.0.0.1"}}}});
  api_.Expect("POST /api/v1/namespaces/default/services",
              409,
              RefusalBody(409, "AlreadyExists", "it is there"));
  api_.Expect("POST /api/v1/namespaces/default/secrets", 201, "{}");
  api_.Expect(std::string("GET ") + kServicePath, 200, service);
  auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
  EXPECT_FALSE(Apply({PrepareJob{}, CreatePod{pod.value()}}).front().ok());
  EXPECT_EQ(api_.log.find("PATCH"), std::string::npos);
  EXPECT_EQ(api_.log.find("DELETE"), std::string::npos);

  api_.Expect(std::string("GET ") + kServicePath, 200, service);
  const auto observed = Observe(kMnist);
  EXPECT_EQ(observed->service, ServiceState::kForeign);
  EXPECT_EQ(
      observed->refused_pods.at("mnist-worker-0").message,
      "the job's Service cannot be created: the name is taken by service mnist, which has no "
      "owner, perhaps because a job was deleted with --cascade=orphan; Lockstep leaves it alone");
  EXPECT_EQ(Observe(kMnist)->service, ServiceState::kMissing);  // it has gone
}

// The operator may not delete services: garbage collection does.
TEST_F(EffectBatchTest, ServiceThatAnEarlierJobHasLeftIsWaitedFor) {
  std::string left = PodBody("uid-of-an-earlier-job");
  left.replace(left.find("mnist-worker-0"), std::string("mnist-worker-0").size(), "mnist");
  api_.Expect(
      "POST /api/v1/namespaces/default/services", 409, RefusalBody(409, "AlreadyExists", "x"));
  api_.Expect("POST /api/v1/namespaces/default/secrets", 201, "{}");
  api_.Expect(std::string("GET ") + kServicePath, 200, left);
  EXPECT_EQ(Apply({PrepareJob{}}).front().error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(api_.log.find("DELETE"), std::string::npos);
}

TEST_F(EffectBatchTest, ServiceThatWentUnseenIsMadeAnew) {
  LearnService("ours");
  api_.Expect("POST /api/v1/namespaces/default/secrets", 201, "{}");
  api_.Expect(
      std::string("PATCH ") + kServicePath, 409, RefusalBody(409, "Conflict", "it has gone"));
  EXPECT_FALSE(Apply({PrepareJob{}}).front().ok());

  api_.Expect("POST /api/v1/namespaces/default/secrets", 201, "{}");
  api_.Expect("POST /api/v1/namespaces/default/services", 201, ServiceBody("new", true));
  EXPECT_TRUE(Apply({PrepareJob{}}).front().ok());
}

TEST_F(EffectBatchTest, ServiceThatTookThePlaceOfOursUnseenIsLeftAlone) {
  LearnService("ours");
  api_.Expect("POST /api/v1/namespaces/default/secrets", 201, "{}");
  api_.Expect(
      std::string("PATCH ") + kServicePath, 422, RefusalBody(422, "Invalid", "another uid"));
  api_.Expect(std::string("GET ") + kServicePath, 200, ServiceBody("theirs", false));

  const Status prepared = Apply({PrepareJob{}}).front();
  EXPECT_EQ(prepared.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_NE(api_.bodies.at(std::string("PATCH ") + kServicePath).find("\"uid\":\"ours\""),
            std::string::npos);
}

TEST_F(EffectBatchTest, PodsWaitForWhatTheyNeed) {
  api_.Expect("POST /api/v1/namespaces/default/services", 500, "{}");
  auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
  const auto answers = Apply({PrepareJob{}, CreatePod{pod.value()}});

  EXPECT_FALSE(answers[1].ok());
  EXPECT_EQ(api_.log.find("POST /api/v1/namespaces/default/pods"), std::string::npos);
}

TEST_F(EffectBatchTest, LeftOverPodThatFinalizersHoldIsNamedAtOnce) {
  std::string held = PodBody("uid-of-an-earlier-job");
  held.insert(held.find("\"uid\":\"pod-uid\""),
              R"("deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["example.com/hold"],)");
  ExpectCreateConflict();
  api_.Expect(std::string("GET ") + kPodPath, 200, held);

  EXPECT_FALSE(Create().ok());
  const auto refused = Observe(kMnist)->refused_pods;
  ASSERT_EQ(refused.count("mnist-worker-0"), 1U);
  EXPECT_NE(refused.at("mnist-worker-0").message.find("finalizers example.com/hold"),
            std::string::npos)
      << refused.at("mnist-worker-0").message;
}

TEST_F(EffectBatchTest, DeletedPodThatIsGoneAlreadyIsDone) {
  News news;
  view_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid)).value(), &news);
  const DeletePod removal{"mnist-worker-0", "pod-uid", std::chrono::seconds(0), "test"};

  EXPECT_TRUE(Apply({removal}).front().ok());
  EXPECT_TRUE(Observe(kMnist)->pods.empty());
}

// The reply to the creation of a placeholder pod.
std::string PlaceholderBody(const std::string& owner_uid, const std::string& scheduler) {
  return DumpJson({{"metadata",
                    {{"name", "hold-0"},
                     {"namespace", "default"},
                     {"uid", "hold-uid"},
                     {"resourceVersion", "5"},
                     {"ownerReferences",
                      Json::array({{{"apiVersion", kApiVersion},
                                    {"kind", kTrainingJobKind},
                                    {"name", "mnist"},
                                    {"uid", owner_uid},
                                    {"controller", true}}})}}},
                   {"spec", {{"schedulerName", scheduler}}}});
}

WriteObject PlaceholderCreation() {
  return {WriteObject::Kind::kCreate, kube::kPods, "hold-0", "", "{}"};
}

// Watches go by the scheduler: nobody would see it again.
TEST_F(EffectBatchTest, PlaceholderThatAWebhookGaveToASchedulerIsRemovedAndToldOf) {
  api_.Expect(kPostPod, 201, PlaceholderBody(job_.metadata.uid, "volcano"));
  api_.Expect(std::string("DELETE ") + kHoldPath, 200, "{}");
  EXPECT_FALSE(Apply({PlaceholderCreation()}).front().ok());
  EXPECT_EQ(api_.log, std::string(kPostPod) + "\nDELETE " + kHoldPath + "\n");
  EXPECT_NE(api_.bodies[std::string("DELETE ") + kHoldPath].find("hold-uid"), std::string::npos);
  EXPECT_EQ(Observe(kMnist)->provisioning.refusals.at("hold-0"),
            "it was given the scheduler volcano by a webhook");
}

TEST_F(EffectBatchTest, PlaceholderThatCouldNotBeRemovedIsFoundAgainByTheNextTry) {
  api_.Expect(kPostPod, 201, PlaceholderBody(job_.metadata.uid, "volcano"));
  api_.Expect(std::string("DELETE ") + kHoldPath, 503, RefusalBody(503, "Unavailable", "later"));
  EXPECT_FALSE(Apply({PlaceholderCreation()}).front().ok());
  EXPECT_TRUE(Observe(kMnist)->provisioning.refusals.empty()) << "else it is not tried again";

  ExpectCreateConflict();
  api_.Expect(std::string("GET ") + kHoldPath, 200, PlaceholderBody(job_.metadata.uid, "volcano"));
  api_.Expect(std::string("DELETE ") + kHoldPath, 200, "{}");
  EXPECT_FALSE(Apply({PlaceholderCreation()}).front().ok());
  EXPECT_EQ(Observe(kMnist)->provisioning.refusals.count("hold-0"), 1U);
}

TEST_F(EffectBatchTest, PlaceholderAsItWasMadeStaysAndSoDoesThatOfAnotherJob) {
  api_.Expect(kPostPod, 201, PlaceholderBody(job_.metadata.uid, "placeholder.lockstep.dev"));
  EXPECT_TRUE(Apply({PlaceholderCreation()}).front().ok());
  ExpectCreateConflict();
  api_.Expect(std::string("GET ") + kHoldPath, 200, PlaceholderBody("uid-of-another", "volcano"));
  EXPECT_EQ(Apply({PlaceholderCreation()}).front().error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(api_.log.find("DELETE"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
