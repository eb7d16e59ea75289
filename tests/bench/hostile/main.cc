// What one manifest, as large as the API server takes it, costs the controller's thread of an
// operator with 1,000 nodes and 500 jobs, and what it costs the others. README.md says how to read
// the table.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/json/json.h"
#include "operator/api/job/encode.h"
#include "operator/controller/control_loop.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

constexpr int kNodesMany = 1'000;
constexpr int kJobsMany = 500;

// etcd takes 1.5 MiB; what the server and the operator write into the object goes off that.
constexpr std::size_t kBytesMax = 1'400'000;

double ThreadMs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

class NoControl final : public ControlSender {
 public:
  void Send(const std::string&, const std::string&, const ControlMessage&) override {}
};

class NoPublisher final : public Publisher {
 public:
  void OnStatus(const TrainingJobStatus&, const TrainingJob&) override {}

  void OnEvents(const TrainingJob&, const std::vector<Event>&) override {}

  void OnRound(Duration) override {}

  void OnMetrics(const std::vector<MetricDelta>&) override {}
};

// Takes every write. Jobs are stored, and told of anew after each write of a status.
class Server final : public kube::CallStarter {
 public:
  void StartCalls(kube::CallTicket ticket,
                  const std::string& /*lane*/,
                  std::vector<kube::Request> requests) override {
    calls_.emplace_back(ticket, std::move(requests));
  }

  void AbandonCalls() override { calls_.clear(); }

  // What it was asked so far, as its own threads would.
  void AnswerAll() {
    for (const auto& [ticket, requests] : std::exchange(calls_, {})) {
      std::vector<kube::CallResult> results;
      results.reserve(requests.size());
      for (const kube::Request& request : requests) {
        results.emplace_back(Answer(request));
      }
      answers.push_back({ticket, std::move(results)});
    }
  }

  // The next version of the job, as a watch tells of it.
  kube::ObjectUpdate<StoredJob> Store(Json job) {
    job["metadata"]["resourceVersion"] = std::to_string(++version_);
    const std::string name = job["metadata"]["name"];
    Json& stored = jobs[name] = std::move(job);
    const std::string text = DumpJson(stored);
    const double begun = ThreadMs();
    auto decoded = DecodeStoredJob(text);
    decode = std::max(decode, ThreadMs() - begun);
    LOCKSTEP_CHECK(decoded.ok(), "a job has a name");
    return kube::Upserted<StoredJob>{*std::move(decoded)};
  }

  std::deque<kube::CallsAnswered> answers;
  std::deque<kube::ObjectUpdate<StoredJob>> updates;
  std::map<std::string, Json> jobs;
  double decode = 0;  // the most that one took, on the thread of the watch

 private:
  kube::Reply Answer(const kube::Request& request) {
    const std::string path = request.target.substr(0, request.target.find('?'));
    if (request.method == "GET") {
      const auto job = jobs.find(path.substr(path.rfind('/') + 1));
      if (path.find("/trainingjobs/") != std::string::npos && job != jobs.end()) {
        return {200, DumpJson(job->second), {}};
      }
      return path.ends_with("/trainingjobs")
                 ? kube::Reply{200, R"({"metadata": {"resourceVersion": "1"}, "items": []})", {}}
                 : kube::Reply{404, R"({"kind": "Status", "code": 404, "reason": "NotFound"})", {}};
    }
    Json body = request.body.empty() ? Json::object() : ParseJson(request.body).value();
    if (request.method == "PUT" && path.ends_with("/status") && body["kind"] == "TrainingJob") {
      Json job = jobs.at(body["metadata"]["name"]);
      job["status"] = body["status"];
      updates.push_back(Store(std::move(job)));
      return {200, DumpJson(jobs.at(body["metadata"]["name"])), {}};
    }
    if (request.method == "POST") {
      body["metadata"]["uid"] = "made-" + std::to_string(++version_);
      body["metadata"]["resourceVersion"] = std::to_string(version_);
      return {201, DumpJson(body), {}};
    }
    return {200, "{}", {}};
  }

  std::vector<std::pair<kube::CallTicket, std::vector<kube::Request>>> calls_;
  int64_t version_ = 1;
};

// The most that one thing took, in milliseconds of the thread.
struct Worst {
  double decode = 0;  // a watch event, on the thread of the watch
  double apply = 0;   // the same on the controller's
  double accept = 0;  // an answer
  double step = 0;
  int64_t steps = 0;
  std::string state;  // that the job got to
};

class World {
 public:
  World() {
    for (int i = 0; i < kNodesMany; ++i) {
      kube::Node node;
      node.name = "node-" + std::to_string(i);
      node.allocatable = {64'000, int64_t{1} << 40, 8};
      loop_.Apply(kube::ObjectUpdate<kube::Node>(kube::Upserted<kube::Node>{
                      {{"", node.name}, node.name, "1", std::make_shared<const kube::Node>(node)}}),
                  now_);
    }
    loop_.Lead("master", now_, WallTime(std::chrono::hours(500'000)));
    for (int i = 0; i < kJobsMany; ++i) {
      Put(Job("job-" + std::to_string(i), 2, 1 + i % 8));
    }
    Settle();
  }

  static Json Job(const std::string& name, int workers, int gpus) {
    TrainingJob job = MakeCommandJob(workers);
    job.metadata.name = name;
    job.metadata.uid = "uid-" + name;
    job.metadata.generation = 1;
    job.spec.roles[0].gpus = gpus;
    Json json = EncodeTrainingJob(job);
    json["apiVersion"] = "lockstep.dev/v1";
    json["kind"] = "TrainingJob";
    json["spec"]["roles"][0]["template"]["spec"]["containers"] = {
        {{"name", "trainer"}, {"image", "i"}, {"command", {"python3"}}}};
    return json;
  }

  void Put(Json job) {
    const auto update = server_.Store(std::move(job));
    Timed(&worst_.apply, [&] { loop_.Apply(update, now_); });
  }

  // Until nothing is to be done for twenty seconds.
  void Settle() {
    for (int quiet = 0; quiet < 40;) {
      Timed(&worst_.step, [&] { loop_.Step(now_); });
      ++worst_.steps;
      server_.AnswerAll();
      bool has_news = false;
      while (!server_.answers.empty() || !server_.updates.empty()) {
        has_news = true;
        while (!server_.updates.empty()) {
          const auto update = std::move(server_.updates.front());
          server_.updates.pop_front();
          Timed(&worst_.apply, [&] { loop_.Apply(update, now_); });
        }
        while (!server_.answers.empty()) {
          kube::CallsAnswered answer = std::move(server_.answers.front());
          server_.answers.pop_front();
          Timed(&worst_.accept, [&] { loop_.Accept(std::move(answer)); });
        }
      }
      quiet = has_news ? 0 : quiet + 1;
      now_ += std::chrono::milliseconds(has_news ? 10 : 500);
      if (++turns_ > 100'000) {
        std::printf("does not come to rest\n");
        return;
      }
    }
    turns_ = 0;
  }

  // How far the job got.
  std::string StateOf(const std::string& job) const {
    return server_.jobs.at(job).at("status").value("state", "");
  }

  // Since it was last asked.
  Worst TakeWorst() {
    worst_.decode = std::exchange(server_.decode, 0);
    return std::exchange(worst_, {});
  }

 private:
  static void Timed(double* most, const std::function<void()>& work) {
    const double begun = ThreadMs();
    work();
    *most = std::max(*most, ThreadMs() - begun);
  }

  TimePoint now_{std::chrono::seconds(1000)};
  int64_t turns_ = 0;
  Worst worst_;
  Server server_;
  NoControl control_;
  NoPublisher publisher_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  ControlLoop loop_{{}, {&server_, &control_, &publisher_, logger_.get()}};
};

Json& PodOf(Json* job) {
  return (*job)["spec"]["roles"][0]["template"]["spec"];
}

std::string Text(std::size_t size, int number) {
  std::string text = std::to_string(number);
  return std::string(size - std::min(size, text.size()), 'x') + text;
}

// Adds `one(i)` while the manifest stays small enough, `count_max` times at most.
void Fill(Json* job, int count_max, std::size_t bytes_of_one, const std::function<void(int)>& one) {
  const std::size_t room = kBytesMax - DumpJson(*job).size();
  const auto count = std::min<std::size_t>(count_max, room / bytes_of_one);
  for (std::size_t i = 0; i < count; ++i) {
    one(static_cast<int>(i));
  }
}

Json Nested(int depth) {
  Json inner = Json::array();
  for (int i = 1; i < depth; ++i) {
    inner = Json::array({std::move(inner)});
  }
  return inner;
}

struct Hostility {
  std::string name;
  std::function<void(Json*)> write;
};

std::vector<Hostility> OfTheJob() {
  return {
      {"ordinary", [](Json*) {}},
      {"labels of the job, 10,000",
       [](Json* job) {
         Fill(job, 10'000, 138, [&](int i) {
           (*job)["metadata"]["labels"][Text(60, i)] = Text(60, i);
         });
       }},
      {"annotations of the job, 256 KiB",
       [](Json* job) {
         for (int i = 0; i < 4'000; ++i) {
           (*job)["metadata"]["annotations"][Text(20, i)] = Text(40, i);
         }
       }},
      {"labels of the pod, 256",
       [](Json* job) {
         Json& labels = (*job)["spec"]["roles"][0]["template"]["metadata"]["labels"];
         Fill(job, 256, 400, [&](int i) { labels["a.example/" + Text(63, i)] = Text(63, i); });
       }},
  };
}

std::vector<Hostility> OfTheContainer() {
  return {
      {"environment, 1,000",
       [](Json* job) {
         Fill(job, 1'000, 1'390, [&](int i) {
           PodOf(job)["containers"][0]["env"].push_back(
               {{"name", "V" + std::to_string(i)}, {"value", Text(1'350, i)}});
         });
       }},
      {"references in the environment, 1,000",
       [](Json* job) {
         Fill(job, 1'000, 1'390, [&](int i) {
           std::string value;
           for (int k = 0; k < 130; ++k) {
             value += "$(V" + std::to_string(i - 1) + ")$$";
           }
           PodOf(job)["containers"][0]["env"].push_back(
               {{"name", "V" + std::to_string(i)}, {"value", value}});
         });
       }},
      {"arguments, short",
       [](Json* job) {
         Json& container = PodOf(job)["containers"][0];
         Fill(job, 400'000, 4, [&](int) { container["args"].push_back("a"); });
       }},
      {"argument, one long",
       [](Json* job) {
         Json& container = PodOf(job)["containers"][0];
         container["args"] = {std::string(kBytesMax - 20'000, 'a')};
       }},
  };
}

std::vector<Hostility> OfThePod() {
  return {
      {"affinity, 32 x 32 x 4",
       [](Json* job) {
         Json terms = Json::array();
         for (int t = 0; t < 32; ++t) {
           Json expressions = Json::array();
           for (int e = 0; e < 32; ++e) {
             Json values = Json::array();
             for (int v = 0; v < 4; ++v) {
               values.push_back(Text(320, v));
             }
             expressions.push_back(
                 {{"key", "k" + std::to_string(e)}, {"operator", "NotIn"}, {"values", values}});
           }
           terms.push_back({{"matchExpressions", expressions}});
         }
         PodOf(job)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                   ["nodeSelectorTerms"] = terms;
       }},
      {"tolerations, 64",
       [](Json* job) {
         for (int i = 0; i < 64; ++i) {
           PodOf(job)["tolerations"].push_back({{"key", Text(300, i)}, {"operator", "Exists"}});
         }
       }},
      {"host ports, 256",
       [](Json* job) {
         for (int c = 0; c < 4; ++c) {
           Json container = {{"name", c == 0 ? "trainer" : "tool" + std::to_string(c)},
                             {"image", "i"},
                             {"command", {"a"}}};
           for (int p = 0; p < 64; ++p) {
             const int port = 20'000 + c * 64 + p;
             container["ports"].push_back({{"containerPort", port}, {"hostPort", port}});
           }
           PodOf(job)[c == 0 ? "containers" : "initContainers"][c == 0 ? 0 : c - 1] = container;
         }
       }},
      {"quantities of 64 digits, 32",
       [](Json* job) {
         Json& resources = PodOf(job)["containers"][0]["resources"];
         for (int i = 0; i < 30; ++i) {
           resources["limits"]["example.com/r" + std::to_string(i)] = "1";
         }
         const std::string much = "1." + std::string(62, '9');
         resources["limits"]["memory"] = much;
         resources["limits"]["cpu"] = much;
       }},
      {"volumes, 1,000",
       [](Json* job) {
         Fill(job, 1'000, 1'390, [&](int i) {
           PodOf(job)["volumes"].push_back(
               {{"name", "v" + std::to_string(i)}, {"hostPath", {{"path", Text(1'340, i)}}}});
         });
       }},
  };
}

std::vector<Hostility> PassedOn() {
  return {
      {"host aliases, small objects",
       [](Json* job) {
         Fill(job, 100'000, 16, [&](int) { PodOf(job)["hostAliases"].push_back({{"ip", "1"}}); });
       }},
      {"nesting, 50", [](Json* job) { PodOf(job)["dnsConfig"] = Nested(50); }},
      {"nesting, 9,000", [](Json* job) { PodOf(job)["dnsConfig"] = Nested(9'000); }},
      {"keys, 100,000",
       [](Json* job) {
         Fill(job, 100'000, 14, [&](int i) { PodOf(job)["dnsConfig"][Text(6, i)] = 0; });
       }},
      {"spread, 32",
       [](Json* job) {
         for (int i = 0; i < 32; ++i) {
           PodOf(job)["topologySpreadConstraints"].push_back(
               {{"maxSkew", 1},
                {"topologyKey", Text(300, i)},
                {"whenUnsatisfiable", "ScheduleAnyway"}});
         }
       }},
  };
}

std::vector<Hostility> Hostilities() {
  std::vector<Hostility> all;
  for (std::vector<Hostility> some : {OfTheJob(), OfTheContainer(), OfThePod(), PassedOn()}) {
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

Worst Measure(World* world, const Hostility& hostility, int workers, int gpus) {
  static int number = 0;
  const std::string name = "hostile-" + std::to_string(number++);
  Json job = World::Job(name, workers, gpus);
  hostility.write(&job);
  world->TakeWorst();
  world->Put(std::move(job));
  world->Settle();
  Worst worst = world->TakeWorst();
  worst.state = world->StateOf(name);
  return worst;
}

int Main(std::string_view only, std::string_view only_shape) {
  struct Shape {
    const char* name;
    int workers;
    int gpus;
  };

  std::printf(
      "milliseconds of the thread at most: decoding (on a thread of its own), a watch "
      "event, an answer, a step; then an event and a step of an ordinary job beside it\n");
  for (const Hostility& hostility : Hostilities()) {
    if (!only.empty() && hostility.name.find(only) == std::string::npos) {
      continue;
    }
    for (const Shape& shape :
         {Shape{"never fits", 1, 64}, Shape{"starts", 1, 1}, Shape{"1,000 start", 1'000, 1}}) {
      if (!only_shape.empty() && only_shape != shape.name) {
        continue;
      }
      World world;
      const Worst hostile = Measure(&world, hostility, shape.workers, shape.gpus);
      const Worst other = Measure(&world, {"ordinary", [](Json*) {}}, 1, 1);
      std::printf("%-38s %-12s %8.2f | %8.2f %8.2f %8.2f  steps %5lld %-10s | beside %8.2f %8.2f\n",
                  hostility.name.c_str(),
                  shape.name,
                  hostile.decode,
                  hostile.apply,
                  hostile.accept,
                  hostile.step,
                  static_cast<long long>(hostile.steps),
                  hostile.state.c_str(),
                  other.apply,
                  other.step);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::control

int main(int argc, char** argv) {
  return lockstep::control::Main(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
}
