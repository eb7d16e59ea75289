#include "operator/replay/shapes.h"

#include <algorithm>
#include <chrono>
#include <time.h>

#include "common/base/check.h"
#include "common/base/prng.h"
#include "operator/scheduler/round.h"

namespace lockstep::control {
namespace {

// Processor time, which hardly moves with the load of the machine, and the wall's beside it.
class Stopwatch {
 public:
  void StopInto(ShapeRun* run) const {
    run->milliseconds += CpuMilliseconds() - cpu_begin_;
    run->wall_milliseconds +=
        std::chrono::duration<double, std::milli>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double CpuMilliseconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
  }

  Clock::time_point begin_ = Clock::now();
  double cpu_begin_ = CpuMilliseconds();
};

WallTime AtSecond(int64_t second) {
  return WallTime(std::chrono::seconds(1'800'000'000 + second));
}

// A cluster that is asked, with the memory of its rounds.
struct AskedCluster {
  explicit AskedCluster(ClusterState::Options options = {}) : state(std::move(options)) {}

  ClusterState state;
  RoundMemory memory;
  WallTime now = AtSecond(1000);
};

SnapshotNode GpuNode(const std::string& name, const std::string& rack) {
  SnapshotNode node;
  node.name = name;
  node.allocatable.gpu_count = 8;
  if (!rack.empty()) {
    node.labels["rack"] = rack;
  }
  return node;
}

// Waits since that second: pods "w-0", ... that ask for so many GPUs each.
GangRequest GpuGang(const std::string& name, int pods, int64_t gpus, int64_t since_second) {
  PodClass workers;
  workers.name = "w";
  workers.request.gpu_count = gpus;
  for (int i = 0; i < pods; ++i) {
    workers.pods.push_back("w-" + std::to_string(i));
  }
  GangRequest request;
  request.name = "default/" + name;
  request.gang.classes = {std::move(workers)};
  request.since = AtSecond(since_second);
  return request;
}

std::map<std::string, int64_t> OfGpus(int64_t count) {
  return {{"nvidia.com/gpu", count}};
}

void AddNodes(int count, int racks, AskedCluster* cluster) {
  for (int i = 0; i < count; ++i) {
    cluster->state.SetNode(GpuNode("node-" + std::to_string(i),
                                   racks == 0 ? "" : "rack-" + std::to_string(i % racks)));
  }
}

GangRequest InQueue(const std::string& name, int pods, int64_t gpus, const std::string& queue) {
  GangRequest request = GpuGang(name, pods, gpus, 0);
  request.queue = queue;
  return request;
}

void SetQueues(const std::vector<QueueSpec>& specs, AskedCluster* cluster) {
  const Status set = cluster->state.SetQueues(specs);
  LOCKSTEP_CHECK(set.ok(), set.error().ToString());
}

// Submits, decides and carries out; what is measured.
ShapeRun Measure(const std::vector<GangRequest>& requests, AskedCluster* cluster) {
  ShapeRun run;
  const Stopwatch stopwatch;
  for (const GangRequest& request : requests) {
    cluster->state.Submit(request);
  }
  const RoundResult result = Round(&cluster->state, cluster->now, &cluster->memory);
  Commit(result, cluster->now, &cluster->state);
  stopwatch.StopInto(&run);
  for (const Grant& grant : result.grants) {
    run.pods += static_cast<int64_t>(grant.pods.size());
  }
  return run;
}

void ExpectPods(int64_t expected, ShapeRun* run) {
  if (run->pods != expected) {
    run->wrong = std::to_string(run->pods) + " pods found, expected " + std::to_string(expected);
  }
}

ShapeRun KaiGang() {
  AskedCluster cluster;
  AddNodes(50, 0, &cluster);
  std::vector<QueueSpec> queues{{.name = "dept-0"}, {.name = "dept-1"}};
  for (int i = 0; i < 4; ++i) {
    queues.push_back({.name = "queue-" + std::to_string(i),
                      .parent = "dept-" + std::to_string(i / 2),
                      .nominal = OfGpus(100)});
  }
  SetQueues(queues, &cluster);
  std::vector<GangRequest> requests;
  for (int i = 0; i < 100; ++i) {
    requests.push_back(InQueue("job-" + std::to_string(i), 4, 1, "queue-" + std::to_string(i % 4)));
  }
  ShapeRun run = Measure(requests, &cluster);
  ExpectPods(400, &run);
  return run;
}

// Every GPU is held by a job of one of queue-0; queue-1 has `nominal`, queue-0 the rest less
// `less`.
void FillForReclaim(int nodes, int64_t nominal, int64_t less, AskedCluster* cluster) {
  QueueSpec mine{.name = "queue-1", .nominal = OfGpus(nominal)};
  mine.reclaims = true;
  SetQueues({mine, {.name = "queue-0", .nominal = OfGpus(8 * nodes - nominal + less)}}, cluster);
  for (int i = 0; i < 8 * nodes; ++i) {
    GangRequest request = InQueue("run-" + std::to_string(i), 1, 1, "queue-0");
    cluster->state.SetRunning(
        request, {{"w-0", "node-" + std::to_string(i / 8)}}, {AtSecond(i % 100), {}, 0});
  }
}

template <int kNodes>
ShapeRun ReclaimLarge() {
  AskedCluster cluster;
  AddNodes(kNodes, 0, &cluster);
  FillForReclaim(kNodes, 8 * kNodes, 0, &cluster);
  const Stopwatch stopwatch;
  cluster.state.Submit(InQueue("large", kNodes / 2, 8, "queue-1"));
  const RoundResult result = Round(&cluster.state, cluster.now, &cluster.memory);
  Commit(result, cluster.now, &cluster.state);
  ShapeRun run;
  stopwatch.StopInto(&run);
  run.pods = static_cast<int64_t>(result.evictions.size());
  ExpectPods(4 * kNodes, &run);
  if (cluster.state.claiming().size() != 1) {
    run.wrong = "no room is claimed";
  }
  return run;
}

// One gang that cannot start, and why.
ShapeRun Refused(const GangRequest& request, const std::string& expected, AskedCluster* cluster) {
  const Stopwatch stopwatch;
  cluster->state.Submit(request);
  const RoundResult result = Round(&cluster->state, cluster->now, &cluster->memory);
  Commit(result, cluster->now, &cluster->state);
  ShapeRun run;
  stopwatch.StopInto(&run);
  const bool is_as_expected = result.log.empty() && result.refusals.size() == 1 &&
                              result.refusals[0].why.shortfall.find(expected) != std::string::npos;
  if (!is_as_expected) {
    run.wrong = "answered " + ToText(result);
  }
  return run;
}

template <int kNodes>
ShapeRun OneGpuTooFew() {
  AskedCluster cluster;
  AddNodes(kNodes, 0, &cluster);
  FillForReclaim(kNodes, 80, 1, &cluster);
  return Refused(InQueue("distributed", 10, 8, "queue-1"),
                 "at most 79 available from other jobs, 1 GPU",
                 &cluster);
}

ShapeRun NineRacksForTen() {
  AskedCluster cluster({{"rack"}, false});
  AddNodes(100, 9, &cluster);
  FillForReclaim(100, 80, 0, &cluster);
  GangRequest request = InQueue("distributed", 10, 8, "queue-1");
  request.topology.apart = "rack";
  return Refused(request, "9 have, even if nothing else ran", &cluster);
}

ShapeRun OneOfTwelveRacks() {
  AskedCluster cluster({{"rack"}, false});
  AddNodes(100, 12, &cluster);
  FillForReclaim(100, 80, 0, &cluster);
  GangRequest request = InQueue("distributed", 10, 8, "queue-1");
  request.topology.required = "rack";
  return Refused(request, "has room for 9, even if nothing else ran", &cluster);
}

ShapeRun FourThousandGpus() {
  AskedCluster cluster;
  AddNodes(500, 0, &cluster);
  std::vector<GangRequest> requests;
  for (int i = 0; i < 400; ++i) {
    requests.push_back(InQueue("gang-" + std::to_string(i), 10, 1, ""));
  }
  ShapeRun run = Measure(requests, &cluster);
  ExpectPods(4000, &run);
  return run;
}

template <int kGpus>
ShapeRun FiftyRacks() {
  AskedCluster cluster({{"rack"}, false});
  AddNodes(5000, 50, &cluster);
  std::vector<GangRequest> requests;
  for (int i = 0; i < 750; ++i) {
    requests.push_back(InQueue("gang-" + std::to_string(i), 4, kGpus, ""));
    requests.back().topology.required = "rack";
  }
  ShapeRun run = Measure(requests, &cluster);
  ExpectPods(3000, &run);
  return run;
}

// The same, each gang with a round of its own as it arrives.
ShapeRun FiftyRacksOneByOne() {
  AskedCluster cluster({{"rack"}, false});
  AddNodes(5000, 50, &cluster);
  ShapeRun sum;
  for (int i = 0; i < 750; ++i) {
    GangRequest request = InQueue("gang-" + std::to_string(i), 4, 8, "");
    request.topology.required = "rack";
    const ShapeRun one = Measure({request}, &cluster);
    sum.milliseconds += one.milliseconds;
    sum.wall_milliseconds += one.wall_milliseconds;
    sum.pods += one.pods;
  }
  ExpectPods(3000, &sum);
  return sum;
}

// What is known of when gangs end.
enum class Known { kNothing, kLimits, kLimitsAndPastRuns };

// 10,000 jobs of 4 fill 5,000 nodes; 1,000 of sixty kinds wait in three queues.
class BusyCluster {
 public:
  explicit BusyCluster(Known known) : known_(known), cluster_({{"rack"}, false}), prng_(1) {
    SetQueues({{.name = "a", .nominal = OfGpus(24000)},
               {.name = "b", .nominal = OfGpus(12000)},
               {.name = "c", .nominal = OfGpus(4000)}},
              &cluster_);
    AddNodes(5000, 50, &cluster_);
    for (int i = 0; i < 10'000; ++i) {
      const std::string node = "node-" + std::to_string(i / 2);
      GangRequest request = InQueue("run-" + std::to_string(i), 4, 1, QueueOf(i));
      TellEnds(i, &request);
      RunTerms run{AtSecond(i % 900), {}, 0};
      if (known_ != Known::kNothing) {
        run.stops_at = AtSecond(3000) + request.run_time_max;
      }
      cluster_.state.SetRunning(
          request, {{"w-0", node}, {"w-1", node}, {"w-2", node}, {"w-3", node}}, run);
    }
    for (int i = 0; i < 1000; ++i) {
      cluster_.state.Submit(Waiting());
    }
    Step();
  }

  // One thing happens, and everything is decided anew.
  ShapeRun Event() {
    const std::string node = "node-" + std::to_string(prng_.Below(5000));
    const uint64_t kind = prng_.Below(4);
    std::string ends;
    for (const auto& holder : cluster_.state.HoldersOf(*cluster_.state.nodes().Find(node))) {
      ends = std::max(ends, holder.gang->request.name);
    }
    const GangRequest arrives = Waiting();
    SnapshotNode changed = GpuNode(node, "rack-1");
    changed.labels = cluster_.state.nodes().FactsOf(*cluster_.state.nodes().Find(node)).labels;
    changed.state = prng_.Below(4) == 0 ? NodeState::kCordoned : NodeState::kOpen;
    const Stopwatch stopwatch;
    if (kind < 2 && !ends.empty()) {
      cluster_.state.Remove(ends);
    } else if (kind == 2 && cluster_.state.gangs().size() < 11'000) {
      cluster_.state.Submit(arrives);
    } else {
      cluster_.state.SetNode(changed);
    }
    Step();
    ShapeRun run;
    stopwatch.StopInto(&run);
    return run;
  }

 private:
  static std::string QueueOf(int64_t number) {
    return number % 10 < 6 ? "a" : number % 10 < 9 ? "b" : "c";
  }

  // Limits of 10 min to 10 h, and half of that.
  void TellEnds(int64_t number, GangRequest* request) const {
    const std::chrono::seconds limit(600 + number * 7919 % 36'000);
    if (known_ != Known::kNothing) {
      request->run_time_max = limit;
    }
    if (known_ == Known::kLimitsAndPastRuns) {
      request->past_runs = {3, limit / 3, limit / 2};
    }
  }

  GangRequest Waiting() {
    const int sizes[] = {1, 2, 4, 8, 16, 32};
    const int64_t gpus[] = {1, 2, 4, 8};
    ++made_;
    GangRequest request = GpuGang(
        "wait-" + std::to_string(made_), sizes[prng_.Below(6)], gpus[prng_.Below(4)], 1000 + made_);
    request.queue = QueueOf(made_);
    TellEnds(made_, &request);
    if (prng_.Below(4) == 0) {
      request.topology.required = "rack";
    }
    return request;
  }

  void Step() {
    cluster_.now += std::chrono::seconds(1);
    const RoundResult result = Round(&cluster_.state, cluster_.now, &cluster_.memory);
    Commit(result, cluster_.now, &cluster_.state);
  }

  Known known_;
  AskedCluster cluster_;
  Prng prng_;
  int64_t made_ = 0;
};

template <Known kKnown>
ShapeRun OneEvent() {
  BusyCluster cluster(kKnown);
  std::vector<double> times;
  std::vector<double> wall_times;
  for (int i = 0; i < 1000; ++i) {
    const ShapeRun one = cluster.Event();
    times.push_back(one.milliseconds);
    wall_times.push_back(one.wall_milliseconds);
  }
  std::sort(times.begin(), times.end());
  std::sort(wall_times.begin(), wall_times.end());
  ShapeRun run;
  run.milliseconds = times[times.size() / 2];
  run.p99_milliseconds = times[times.size() * 99 / 100];
  run.wall_milliseconds = wall_times[wall_times.size() / 2];
  return run;
}

}  // namespace

ShapeRun MedianRun(const Shape& shape, int64_t run_count) {
  std::vector<ShapeRun> runs;
  for (int64_t i = 0; i < run_count; ++i) {
    runs.push_back(shape.run());
  }
  std::sort(runs.begin(), runs.end(), [](const ShapeRun& a, const ShapeRun& b) {
    return a.milliseconds < b.milliseconds;
  });
  ShapeRun median = runs[runs.size() / 2];
  for (const ShapeRun& run : runs) {
    median.p99_milliseconds = std::max(median.p99_milliseconds, run.p99_milliseconds);
    if (median.wrong.empty()) {
      median.wrong = run.wrong;
    }
  }
  return median;
}

const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> shapes = {
      {"kai-gang",
       "50 nodes, 100 jobs x 4 pods, 4 queues",
       "KAI 156 ms, 56 ms without the set-up of its test (published)",
       1,
       0,
       0,
       KaiGang},
      {"reclaim-large-100",
       "50 pods x 8 GPUs evict 400",
       "KAI 204.6 ms (published)",
       0,
       0,
       0,
       ReclaimLarge<100>},
      {"reclaim-large-1000",
       "500 pods x 8 GPUs evict 4,000",
       "KAI 6,080 ms, 707 MB (published)",
       50,
       0,
       50,
       ReclaimLarge<1000>},
      {"one-gpu-too-few-100",
       "79 GPUs available, 80 needed, 100 nodes",
       "KAI 50,800 ms, 19.4 GB (published)",
       1,
       0,
       0,
       OneGpuTooFew<100>},
      {"one-gpu-too-few-1000",
       "as one-gpu-too-few-100, with 1,000 nodes",
       "none published",
       1,
       0,
       0,
       OneGpuTooFew<1000>},
      {"nine-racks",
       "10 pods that each need a rack of their own, 9 racks",
       "a variant of a KAI benchmark",
       1,
       0,
       0,
       NineRacksForTen},
      {"twelve-racks",
       "a gang needs 10 nodes in one rack, 12 racks of 8 or 9 nodes",
       "a variant of a KAI benchmark",
       1,
       0,
       0,
       OneOfTwelveRacks},
      {"4000-gpus",
       "400 gangs x 10 fill 4,000 GPUs",
       "kube-scheduler 334 pods/s (measured)",
       0,
       100'000,
       0,
       FourThousandGpus},
      {"fifty-racks",
       "5,000 nodes, 750 gangs x 4 x 8 GPUs, one rack each",
       "kube-scheduler 27 pods/s (measured), 562-630 (published)",
       0,
       20'000,
       0,
       FiftyRacks<8>},
      {"fifty-racks-1",
       "like fifty-racks, but with 1 GPU for each pod",
       "the same",
       0,
       20'000,
       0,
       FiftyRacks<1>},
      {"fifty-racks-one-by-one",
       "like fifty-racks, but with one round for each gang",
       "the same",
       0,
       20'000,
       0,
       FiftyRacksOneByOne},
      {"event",
       "5,000 nodes, 10,000 gangs run, 1,000 wait: one event; median and p99",
       "KAI, Volcano: copy the whole state each second",
       2,
       0,
       150,
       OneEvent<Known::kNothing>},
      {"event-limits",
       "as event, and all gangs have a time limit",
       "none published",
       0,
       0,
       0,
       OneEvent<Known::kLimits>},
      {"event-learnt",
       "as event-limits, and run times of earlier runs are known",
       "none published",
       0,
       0,
       0,
       OneEvent<Known::kLimitsAndPastRuns>},
  };
  return shapes;
}

}  // namespace lockstep::control
