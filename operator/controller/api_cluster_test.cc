#include "operator/controller/api_cluster.h"

#include <deque>
#include <memory>

#include <gtest/gtest.h>

#include "operator/api/encode.h"
#include "operator/reconcile/build/job_objects.h"
#include "operator/reconcile/build/pod.h"
#include "operator/reconcile/pod_labels.h"
#include "operator/reconcile/testing.h"

namespace lockstep::control {
namespace {

const JobKey kMnist{"default", "mnist"};
const JobKey kOther{"default", "other"};
constexpr const char* kPodPath = "/api/v1/namespaces/default/pods/mnist-worker-0";
constexpr const char* kServicePath = "/api/v1/namespaces/default/services/mnist";
constexpr const char* kJobPath = "/apis/lockstep.dev/v1/namespaces/default/trainingjobs/mnist";
constexpr const char* kJobsPath = "/apis/lockstep.dev/v1/trainingjobs";

// Answers from a script by method and path, without the query; everything else is 404.
class ScriptedApi final : public kube::ApiCaller {
 public:
  std::vector<kube::CallResult> CallAll(const std::vector<kube::Request>& requests) override {
    std::vector<kube::CallResult> results;
    for (const kube::Request& request : requests) {
      const std::string what =
          request.method + " " + request.target.substr(0, request.target.find('?'));
      log += what + "\n";
      bodies[what] = request.body;
      std::deque<kube::Reply>& script = replies[what];
      kube::Reply reply{404, R"({"kind": "Status", "reason": "NotFound", "code": 404})", {}};
      if (!script.empty()) {
        reply = script.front();
        script.pop_front();
      }
      results.emplace_back(reply);
    }
    return results;
  }

  void Expect(const std::string& what, int status, const std::string& body) {
    replies[what].push_back({status, body, {}});
  }

  std::map<std::string, std::deque<kube::Reply>> replies;
  std::string log;
  std::map<std::string, std::string> bodies;  // of the last request of each kind
};

class NoControl final : public ControlSender {
 public:
  void Send(const std::string&, const std::string&, const ControlMessage&) override {}
};

class NoPublisher final : public Publisher {
 public:
  void OnStatus(const TrainingJobStatus&, const TrainingJob&) override {}

  void OnEvents(const TrainingJob&, const std::vector<Event>&) override {}

  void OnMetrics(const std::vector<MetricDelta>&) override {}
};

std::string Refusal(int code, const std::string& reason, const std::string& message) {
  return DumpJson({{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}});
}

class ApiClusterTest : public testing::Test {
 protected:
  ApiClusterTest()
      : job_(MakeTrainingJob(1)),
        logger_(MakeNullLogger()),
        cluster_(PodSettings{}, {&world_, &api_, &control_, &publisher_, logger_.get()}) {
    job_.spec.training->dataset.train.images = "images";
    job_.spec.training->dataset.train.labels = "labels";
    job_.status.placement = {PodPlacement{}};
    job_.status.placement.front().node = "node-a";
    Store("10");
    Lead({JobBody("10")});
  }

  // Becomes the leader while the server has these jobs.
  void Lead(const std::vector<std::string>& jobs) {
    std::string items;
    for (const std::string& job : jobs) {
      items += (items.empty() ? "" : ",") + job;
    }
    api_.Expect(std::string("GET ") + kJobsPath,
                200,
                R"({"metadata": {"resourceVersion": "10"}, "items": [)" + items + "]}");
    cluster_.Lead("master");
    [[maybe_unused]] const auto read = cluster_.ReadJob(kMnist);
    api_.log.clear();
  }

  // Another job, which waits.
  TrainingJob OtherJob() const {
    TrainingJob other = job_;
    other.metadata.name = "other";
    other.metadata.uid = "other-uid";
    other.status = {};
    return other;
  }

  std::string JobBody(const std::string& version) const { return BodyOf(job_, version); }

  static std::string BodyOf(const TrainingJob& job, const std::string& version) {
    Json object = EncodeTrainingJob(job);
    object["metadata"]["resourceVersion"] = version;
    return DumpJson(object);
  }

  void Store(const std::string& version) { Watch(JobBody(version)); }

  void Watch(const std::string& job) {
    News news;
    world_.Apply(kube::Upserted<kube::RawObject>{kube::DecodeRaw(job).value()}, &news);
  }

  // How many places others than this job hold, as it would plan now.
  int64_t PlacesHeldBesides(const JobKey& key) {
    EXPECT_TRUE(cluster_.ReadJob(key).ok());
    const Result<Observed> observed = cluster_.Observe(key);
    int64_t count = 0;
    for (const auto& [node, use] : observed->used_elsewhere) {
      count += use.pod_count;
    }
    return count;
  }

  // The pod as the server has it; `owner` is the uid of a TrainingJob of the same name, or empty.
  std::string PodBody(const std::string& owner,
                      int64_t attempt = 0,
                      const std::string& phase = "Running",
                      const std::string& version = "20") const {
    PodIdentityLabels identity{"mnist", job_.metadata.uid, {Role::kWorker, 0}, 0, {}};
    identity.number.attempt = Attempt(attempt);
    Json metadata = {{"name", "mnist-worker-0"},
                     {"namespace", "default"},
                     {"uid", "pod-uid"},
                     {"resourceVersion", version},
                     {"labels", EncodePodLabels(identity)}};
    if (!owner.empty()) {
      metadata["ownerReferences"] = Json::array({{{"apiVersion", kApiVersion},
                                                  {"kind", kTrainingJobKind},
                                                  {"name", "mnist"},
                                                  {"uid", owner},
                                                  {"controller", true}}});
    }
    return DumpJson({{"apiVersion", "v1"},
                     {"kind", "Pod"},
                     {"metadata", metadata},
                     {"spec", {{"nodeName", "node-a"}, {"containers", Json::array()}}},
                     {"status", {{"phase", phase}}}});
  }

  std::string ServiceBody(const std::string& uid, bool is_ours) const {
    Json owners = Json::array();
    if (is_ours) {
      owners.push_back({{"kind", kTrainingJobKind},
                        {"name", "mnist"},
                        {"uid", job_.metadata.uid},
                        {"controller", true}});
    }
    return DumpJson({{"metadata",
                      {{"name", "mnist"},
                       {"namespace", "default"},
                       {"uid", uid},
                       {"resourceVersion", "5"},
                       {"ownerReferences", owners}}},
                     {"spec", {{"clusterIP", "None"}}}});
  }

  // The view has a service of the job.
  void LearnService(const std::string& uid) {
    News news;
    world_.LearnService(kube::DecodeService(ServiceBody(uid, true)).value(), &news);
  }

  Status Create() {
    auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
    return cluster_.Apply(kMnist, {CreatePod{pod.value()}}).front();
  }

  void ExpectCreateConflict() {
    api_.Expect(
        "POST /api/v1/namespaces/default/pods", 409, Refusal(409, "AlreadyExists", "it is there"));
  }

  TrainingJob job_;
  World world_;
  ScriptedApi api_;
  NoControl control_;
  NoPublisher publisher_;
  std::unique_ptr<Logger> logger_;
  ApiCluster cluster_;
};

TEST_F(ApiClusterTest, CreatedPodIsInViewBeforeAnyWatchTells) {
  api_.Expect("POST /api/v1/namespaces/default/pods", 201, PodBody(job_.metadata.uid));

  EXPECT_TRUE(Create().ok());
  EXPECT_EQ(cluster_.Observe(kMnist)->pods.size(), 1U);
}

TEST_F(ApiClusterTest, PodThatRunsUnseenIsNotGivenUp) {
  api_.Expect(
      "POST /api/v1/namespaces/default/pods", 201, PodBody(job_.metadata.uid, 0, "Pending"));
  ASSERT_TRUE(Create().ok());
  api_.Expect(std::string("GET ") + kPodPath, 200, PodBody(job_.metadata.uid, 0, "Running", "21"));
  api_.log.clear();
  TrainingJob rolled_back = job_;
  rolled_back.status.attempt = Attempt(1);
  rolled_back.status.placement.clear();

  EXPECT_EQ(cluster_.WriteStatus(rolled_back).error().code(), ErrorCode::kStale);

  EXPECT_EQ(api_.log, std::string("GET ") + kPodPath + "\n");
  EXPECT_EQ(cluster_.Observe(kMnist)->pods.front().status.phase, kube::PodPhase::kRunning);
}

TEST_F(ApiClusterTest, OwnPodThatIsThereCountsAsCreated) {
  ExpectCreateConflict();
  api_.Expect(std::string("GET ") + kPodPath, 200, PodBody(job_.metadata.uid));

  EXPECT_TRUE(Create().ok());
  EXPECT_EQ(cluster_.Observe(kMnist)->pods.size(), 1U);
}

TEST_F(ApiClusterTest, PodOfAnEarlierJobOfTheNameIsRemoved) {
  ExpectCreateConflict();
  api_.Expect(std::string("GET ") + kPodPath, 200, PodBody("uid-of-an-earlier-job"));

  EXPECT_EQ(Create().error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(api_.log.find(std::string("DELETE ") + kPodPath), std::string::npos);
  EXPECT_TRUE(cluster_.Observe(kMnist)->refused_pods.empty());
}

TEST_F(ApiClusterTest, PodOfSomebodyElseIsLeftAloneAndSaidToTakeTheName) {
  ExpectCreateConflict();
  api_.Expect(std::string("GET ") + kPodPath, 200, PodBody(""));

  EXPECT_FALSE(Create().ok());
  EXPECT_EQ(api_.log.find("DELETE"), std::string::npos);
  const auto refused = cluster_.Observe(kMnist)->refused_pods;
  ASSERT_EQ(refused.count("mnist-worker-0"), 1U);
  EXPECT_NE(refused.at("mnist-worker-0").message.find("taken"), std::string::npos);
}

TEST_F(ApiClusterTest, RefusalIsKeptInTheServersWordsUntilThePodIsCreated) {
  const std::string words = "pods \"mnist-worker-0\" is forbidden: exceeded quota: compute";
  api_.Expect("POST /api/v1/namespaces/default/pods", 403, Refusal(403, "Forbidden", words));
  EXPECT_FALSE(Create().ok());
  EXPECT_EQ(cluster_.Observe(kMnist)->refused_pods.at("mnist-worker-0").message, words);

  api_.Expect("POST /api/v1/namespaces/default/pods", 201, PodBody(job_.metadata.uid));
  EXPECT_TRUE(Create().ok());
  EXPECT_TRUE(cluster_.Observe(kMnist)->refused_pods.empty());
}

TEST_F(ApiClusterTest, RefusalOfWhatPodsNeedIsTheirs) {
  const std::string words = "services \"mnist\" is forbidden: exceeded quota: few";
  api_.Expect("POST /api/v1/namespaces/default/services", 403, Refusal(403, "Forbidden", words));
  auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});

  cluster_.Apply(kMnist, {PrepareJob{}, CreatePod{pod.value()}});

  EXPECT_EQ(api_.log.find("POST /api/v1/namespaces/default/pods"), std::string::npos);
  EXPECT_EQ(cluster_.Observe(kMnist)->refused_pods.at("mnist-worker-0").message, words);
}

TEST_F(ApiClusterTest, ConflictOfAStatusWriteMakesTheJobBeReadAnew) {
  api_.Expect(std::string("PUT ") + kJobPath + "/status", 409, Refusal(409, "Conflict", "stale"));
  EXPECT_EQ(cluster_.WriteStatus(job_).error().code(), ErrorCode::kStale);

  job_.status.attempt = Attempt(3);
  api_.Expect(std::string("GET ") + kJobPath, 200, JobBody("11"));
  EXPECT_EQ(cluster_.ReadJob(kMnist)->status.attempt, Attempt(3));
}

TEST_F(ApiClusterTest, PlaceWrittenUnheardIsSeenByTheJobThatIsPlannedNext) {
  const TrainingJob placed = job_;
  job_.status.placement.clear();
  Store("11");
  Watch(BodyOf(OtherJob(), "9"));
  api_.Expect(std::string("PUT ") + kJobPath + "/status", 504, Refusal(504, "Timeout", "late"));
  EXPECT_FALSE(cluster_.WriteStatus(placed).ok());

  api_.Expect(std::string("GET ") + kJobPath, 503, Refusal(503, "ServiceUnavailable", "later"));
  EXPECT_EQ(cluster_.ReadJob(kOther).error().code(), ErrorCode::kUnavailable);

  api_.Expect(std::string("GET ") + kJobPath, 200, BodyOf(placed, "12"));
  EXPECT_EQ(PlacesHeldBesides(kOther), 1);
}

TEST_F(ApiClusterTest, PlaceThatTheLastLeaderWroteIsSeenByTheNextBeforeAnyWatchTells) {
  job_.metadata.name = "unseen";
  Lead({JobBody("11"), BodyOf(OtherJob(), "9")});

  EXPECT_EQ(PlacesHeldBesides(kOther), 1);
  EXPECT_EQ(cluster_.ReadJob(kMnist).error().code(), ErrorCode::kNotFound);  // not in the list
}

TEST_F(ApiClusterTest, NewLeaderDecidesNothingWhileJobsCannotBeListed) {
  cluster_.Lead("master");
  EXPECT_EQ(cluster_.ReadJob(kMnist).error().code(), ErrorCode::kUnavailable);
}

TEST_F(ApiClusterTest, WrittenJobThatIsGoneFromTheWatchIsAskedForOnce) {
  api_.Expect(std::string("PUT ") + kJobPath + "/status", 200, JobBody("11"));
  ASSERT_TRUE(cluster_.WriteStatus(job_).ok());
  Watch(BodyOf(OtherJob(), "9"));
  News news;
  world_.Apply(kube::Replaced<kube::RawObject>{{kube::DecodeRaw(BodyOf(OtherJob(), "9")).value()}},
               &news);
  EXPECT_EQ(news.urgent.count(kMnist), 1U);

  EXPECT_EQ(PlacesHeldBesides(kOther), 0);
  EXPECT_EQ(api_.log, std::string("PUT ") + kJobPath + "/status\nGET " + kJobPath + "\n");
}

TEST_F(ApiClusterTest, OwnStatusWriteIsInViewWithItsVersion) {
  job_.status.attempt = Attempt(1);
  api_.Expect(std::string("PUT ") + kJobPath + "/status", 200, JobBody("11"));

  EXPECT_TRUE(cluster_.WriteStatus(job_).ok());
  EXPECT_EQ(cluster_.ReadJob(kMnist)->status.attempt, Attempt(1));
  EXPECT_EQ(world_.JobVersion(kMnist), "11");
}

TEST_F(ApiClusterTest, SeenPodThatIsNotInViewIsAskedForOnce) {
  job_.status.placement.front().pod_uid = "pod-uid";
  Store("11");
  EXPECT_TRUE(cluster_.Observe(kMnist)->pods.empty());
  EXPECT_EQ(api_.log, std::string("GET ") + kPodPath + "\n");

  EXPECT_TRUE(cluster_.Observe(kMnist).ok());
  EXPECT_EQ(api_.log, std::string("GET ") + kPodPath + "\n");
}

TEST_F(ApiClusterTest, PodOfAJobThatIsGoneIsAskedForOnceTheWatchNamesItNoMore) {
  Watch(BodyOf(OtherJob(), "9"));
  News news;
  world_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid)).value(), &news);
  world_.LearnJobIsGone(kMnist, job_.metadata.uid, &news);
  EXPECT_EQ(PlacesHeldBesides(kOther), 1);

  world_.Apply(kube::Replaced<kube::Pod>{}, &news);
  EXPECT_EQ(cluster_.ReadJob(kMnist).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(api_.log, std::string("GET ") + kPodPath + "\n");
  EXPECT_EQ(PlacesHeldBesides(kOther), 0);
}

TEST_F(ApiClusterTest, NothingIsDecidedWhileTheServerCannotSayWhetherAPodIsThere) {
  job_.status.placement.front().pod_uid = "pod-uid";
  Store("11");
  api_.Expect(std::string("GET ") + kPodPath, 503, Refusal(503, "ServiceUnavailable", "later"));

  EXPECT_FALSE(cluster_.Observe(kMnist).ok());
}

TEST_F(ApiClusterTest, PodOfALaterAttemptMakesTheJobBeReadAnew) {
  News news;
  world_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid, 2)).value(), &news);
  job_.status.attempt = Attempt(2);
  api_.Expect(std::string("GET ") + kJobPath, 200, JobBody("12"));

  EXPECT_EQ(cluster_.ReadJob(kMnist)->status.attempt, Attempt(2));
}

TEST_F(ApiClusterTest, ServiceOfSomebodyElseIsLeftAlone) {
  const std::string service = DumpJson(
      {{"metadata",
        {{"name", "mnist"}, {"namespace", "default"}, {"uid", "s"}, {"resourceVersion", "5"}}},
       {"spec", {{"clusterIP", "10.0.0.1"}}}});
  api_.Expect("POST /api/v1/namespaces/default/services",
              409,
              Refusal(409, "AlreadyExists", "it is there"));
  api_.Expect("POST /api/v1/namespaces/default/secrets", 201, "{}");
  api_.Expect(std::string("GET ") + kServicePath, 200, service);
  auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
  EXPECT_FALSE(cluster_.Apply(kMnist, {PrepareJob{}, CreatePod{pod.value()}}).front().ok());
  EXPECT_EQ(api_.log.find("PATCH"), std::string::npos);
  EXPECT_EQ(api_.log.find("DELETE"), std::string::npos);

  api_.Expect(std::string("GET ") + kServicePath, 200, service);
  const auto observed = cluster_.Observe(kMnist);
  EXPECT_EQ(observed->service, ServiceState::kForeign);
  EXPECT_EQ(observed->refused_pods.at("mnist-worker-0").message,
            "the name mnist is taken by an object of services that does not belong to this job");
  EXPECT_EQ(cluster_.Observe(kMnist)->service, ServiceState::kMissing);  // it has gone
}

TEST_F(ApiClusterTest, ServiceThatWentUnseenIsMadeAnew) {
  LearnService("ours");
  api_.Expect("POST /api/v1/namespaces/default/secrets", 201, "{}");
  api_.Expect(std::string("PATCH ") + kServicePath, 409, Refusal(409, "Conflict", "it has gone"));
  EXPECT_FALSE(cluster_.Apply(kMnist, {PrepareJob{}}).front().ok());

  api_.Expect("POST /api/v1/namespaces/default/secrets", 201, "{}");
  api_.Expect("POST /api/v1/namespaces/default/services", 201, ServiceBody("new", true));
  EXPECT_TRUE(cluster_.Apply(kMnist, {PrepareJob{}}).front().ok());
}

TEST_F(ApiClusterTest, ServiceThatTookThePlaceOfOursUnseenIsLeftAlone) {
  LearnService("ours");
  api_.Expect("POST /api/v1/namespaces/default/secrets", 201, "{}");
  api_.Expect(std::string("PATCH ") + kServicePath, 422, Refusal(422, "Invalid", "another uid"));
  api_.Expect(std::string("GET ") + kServicePath, 200, ServiceBody("theirs", false));

  const Status prepared = cluster_.Apply(kMnist, {PrepareJob{}}).front();
  EXPECT_EQ(prepared.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_NE(api_.bodies.at(std::string("PATCH ") + kServicePath).find("\"uid\":\"ours\""),
            std::string::npos);
}

TEST_F(ApiClusterTest, PodsWaitForWhatTheyNeed) {
  api_.Expect("POST /api/v1/namespaces/default/services", 500, "{}");
  auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
  const auto answers = cluster_.Apply(kMnist, {PrepareJob{}, CreatePod{pod.value()}});

  EXPECT_FALSE(answers[1].ok());
  EXPECT_EQ(api_.log.find("POST /api/v1/namespaces/default/pods"), std::string::npos);
}

TEST_F(ApiClusterTest, DeletedPodThatIsGoneAlreadyIsDone) {
  News news;
  world_.LearnPod(kube::DecodePod(PodBody(job_.metadata.uid)).value(), &news);
  const DeletePod removal{"mnist-worker-0", "pod-uid", std::chrono::seconds(0), "test"};

  EXPECT_TRUE(cluster_.Apply(kMnist, {removal}).front().ok());
  EXPECT_TRUE(cluster_.Observe(kMnist)->pods.empty());
}

}  // namespace
}  // namespace lockstep::control
