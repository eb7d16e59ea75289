#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operator/api/job/encode.h"
#include "operator/controller/api_cluster.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/pods/job_objects.h"
#include "operator/reconcile/pods/pod.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {

inline const JobId kMnist{"default", "mnist"};
inline const JobId kOther{"default", "other"};
inline constexpr const char* kPodPath = "/api/v1/namespaces/default/pods/mnist-worker-0";
inline constexpr const char* kServicePath = "/api/v1/namespaces/default/services/mnist";
inline constexpr const char* kJobPath =
    "/apis/lockstep.dev/v1/namespaces/default/trainingjobs/mnist";
inline constexpr const char* kJobsPath = "/apis/lockstep.dev/v1/trainingjobs";

// Answers from a script by method and path, without the query; everything else is 404. Answers wait
// until they are taken. What namespaces enforce is asked beside all else, and not in the log.
class ScriptedApi final : public kube::CallStarter {
 public:
  void StartCalls(kube::CallTicket ticket,
                  const std::string& /*lane*/,
                  std::vector<kube::Request> requests) override {
    std::vector<kube::CallResult> results;
    const bool is_logged = requests.front().resource != kube::kNamespaces;
    for (const kube::Request& request : requests) {
      const std::string what =
          request.method + " " + request.target.substr(0, request.target.find('?'));
      if (is_logged) {
        log += what + "\n";
      }
      bodies[what] = request.body;
      results.push_back(Answer(what));
    }
    answers.push_back({ticket, std::move(results)});
  }

  void AbandonCalls() override { answers.clear(); }

  void Expect(const std::string& what, int status, const std::string& body) {
    replies[what].push_back(kube::Reply{status, body, {}});
  }

  // It was sent, and nothing is heard of it.
  void ExpectSilence(const std::string& what) {
    replies[what].push_back(kube::Fault{kube::FaultKind::kTimeout, true, "no answer"});
  }

  kube::CallResult Answer(const std::string& what) {
    std::deque<kube::CallResult>& script = replies[what];
    if (script.empty()) {
      return kube::Reply{404, R"({"kind": "Status", "reason": "NotFound", "code": 404})", {}};
    }
    kube::CallResult reply = script.front();
    script.pop_front();
    return reply;
  }

  std::map<std::string, std::deque<kube::CallResult>> replies;
  std::deque<kube::CallsAnswered> answers;  // on their way
  std::string log;
  std::map<std::string, std::string> bodies;  // of the last request of each kind
};

class NoControl final : public ControlSender {
 public:
  void Send(const std::string&, const std::string&, const ControlMessage&) override {
    ++sent_count;
  }

  int sent_count = 0;
};

class NoPublisher : public Publisher {
 public:
  void OnStatus(const TrainingJobStatus&, const TrainingJob&) override {}

  void OnEvents(const TrainingJob&, const std::vector<Event>&) override {}

  void OnRound(Duration) override {}

  void OnMetrics(const std::vector<MetricDelta>&) override {}
};

inline std::string RefusalBody(int code, const std::string& reason, const std::string& message) {
  return DumpJson({{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}});
}

// For tests: an ApiCluster that leads, with one placed job, "mnist", over a scripted API server.
class ApiClusterWorld {
 protected:
  ApiClusterWorld()
      : job_(MakeTrainingJob(1)),
        logger_(MakeNullLogger()),
        cluster_(PodSettings{}, {&view_, &api_, &control_, &publisher_, logger_.get()}) {
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
    [[maybe_unused]] const Status looked = Look(kMnist);
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
    view_.Apply(kube::Upserted<StoredJob>{DecodeStoredJob(job).value()}, &news);
  }

  // Lets the next replies come.
  void Deliver() {
    kube::CallsAnswered answered = std::move(api_.answers.front());
    api_.answers.pop_front();
    cluster_.Accept(std::move(answered));
  }

  // Lets all replies come, and returns the last answer to what was started for that job.
  std::vector<Status> Settle(const JobId& key) {
    std::vector<Status> last;
    for (bool has_news = true; has_news;) {
      has_news = !api_.answers.empty();
      if (has_news) {
        Deliver();
      }
      for (ClusterAnswer& answer : cluster_.TakeAnswers()) {
        has_news = true;
        if (answer.key == key) {
          last = std::move(answer.statuses);
        }
      }
    }
    return last;
  }

  Status Look(const JobId& key) {
    cluster_.StartLook(key);
    return Settle(key).front();
  }

  // What a turn of the job would read.
  Result<TrainingJob> Read(const JobId& key) {
    LOCKSTEP_RETURN_IF_ERROR(Look(key));
    cluster_.Ask(key);
    LOCKSTEP_ASSIGN_OR_RETURN(JobSight seen, cluster_.See(key));
    return std::move(seen.job);
  }

  Result<Observed> Observe(const JobId& key) {
    LOCKSTEP_RETURN_IF_ERROR(Look(key));
    cluster_.Ask(key);
    LOCKSTEP_ASSIGN_OR_RETURN(JobSight seen, cluster_.See(key));
    return std::move(seen.observed);
  }

  // How many places others than this job hold, as it would plan now.
  int64_t PlacesHeldBesides(const JobId& key) { return CountPlaces(Observe(key)); }

  static int64_t CountPlaces(const Result<Observed>& observed) {
    int64_t count = 0;
    const UsedElsewhere& used = observed->used_elsewhere;
    for (const UsageByNode* const part : {&*used.by_jobs, &*used.by_others}) {
      for (const auto& [node, use] : *part) {
        count += use.pod_count;
      }
    }
    for (const auto& [node, use] : used.own) {
      count -= use.pod_count;
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
    Json metadata = {{"name", PodName("mnist", identity.task, identity.number)},
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
      owners.push_back({{"apiVersion", kApiVersion},
                        {"kind", kTrainingJobKind},
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
    view_.LearnService(kube::DecodeService(ServiceBody(uid, true)).value(), &news);
  }

  Status WriteStatus(const TrainingJob& job) {
    cluster_.StartStatusWrite(kMnist, job);
    return Settle(kMnist).front();
  }

  std::vector<Status> Apply(const std::vector<Effect>& effects) {
    cluster_.StartEffects(kMnist, job_, effects);
    return Settle(kMnist);
  }

  Status Create() {
    auto pod = BuildPod(job_, {{Role::kWorker, 0}, {}, Epoch(0), "node-a"}, PodSettings{});
    return Apply({CreatePod{pod.value()}}).front();
  }

  void ExpectCreateConflict() {
    api_.Expect("POST /api/v1/namespaces/default/pods",
                409,
                RefusalBody(409, "AlreadyExists", "it is there"));
  }

  TrainingJob job_;
  ClusterView view_;
  ScriptedApi api_;
  NoControl control_;
  NoPublisher publisher_;
  std::unique_ptr<Logger> logger_;
  ApiCluster cluster_;
};

}  // namespace lockstep::control
