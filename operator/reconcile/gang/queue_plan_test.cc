#include <algorithm>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/api/conditions.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/testing/fake_world.h"

// First come, first served, without starvation: a younger job runs beside older ones that wait only
// where none of them waits a moment longer for it.

namespace lockstep::control {
namespace {

struct QueuedJob {
  std::string name;
  Gang gang;
  UsageByNode held;  // by node; empty while it waits
  bool has_ended = false;

  bool is_placed() const { return !held.empty(); }
};

Gang PodsOfGpus(int64_t pods, int64_t gpus) {
  PodClass pod_class;
  pod_class.name = "worker";
  pod_class.request.gpu_count = gpus;
  for (int64_t i = 0; i < pods; ++i) {
    pod_class.pods.push_back("worker-" + std::to_string(i));
  }
  return {{pod_class}};
}

void Add(const UsageByNode& more, UsageByNode* sum) {
  for (const auto& [node, use] : more) {
    (*sum)[node].resources.gpu_count += use.resources.gpu_count;
    (*sum)[node].pod_count += use.pod_count;
  }
}

// A cluster of GPUs and the jobs that came to it, oldest first.
class Queue {
 public:
  explicit Queue(const std::vector<int64_t>& gpus) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      SnapshotNode node;
      node.name = "node-" + std::to_string(i);
      node.allocatable.gpu_count = gpus[i];
      nodes_.push_back(node);
    }
  }

  void Arrive(const Gang& gang) {
    jobs.push_back({"default/job-" + std::to_string(jobs.size() + 1), gang, {}, false});
  }

  // Tries to place one waiting job; what it was told otherwise.
  std::string Try(std::size_t index) {
    Observed observed;
    UsageByNode used = strangers;
    for (const QueuedJob& job : jobs) {
      Add(job.held, &used);
    }
    observed.used_by_strangers = strangers;
    for (std::size_t i = 0; i < index; ++i) {
      if (!jobs[i].is_placed() && !jobs[i].has_ended) {
        observed.ahead.push_back({jobs[i].name, jobs[i].gang, HeldByYounger(i)});
      }
    }
    const PlanResult result = PlanInTurn(SnapshotWith(used), jobs[index].gang, observed);
    if (const auto* refusal = std::get_if<Unschedulable>(&result)) {
      return refusal->shortfall;
    }
    for (const auto& [pod, node] : std::get<Plan>(result).node_by_pod) {
      jobs[index].held[node].resources.gpu_count += jobs[index].gang.classes[0].request.gpu_count;
      ++jobs[index].held[node].pod_count;
    }
    return "";
  }

  // Whether the waiting job would fit if all older ones had ended.
  bool FitsWhenOlderEnd(std::size_t index) const {
    UsageByNode used = strangers;
    Add(HeldByYounger(index), &used);
    return std::holds_alternative<Plan>(PlanGang(SnapshotWith(used), jobs[index].gang));
  }

  void End(std::size_t index) {
    jobs[index].held.clear();
    jobs[index].has_ended = true;
  }

  std::vector<QueuedJob> jobs;
  UsageByNode strangers;

 private:
  UsageByNode HeldByYounger(std::size_t index) const {
    UsageByNode held;
    for (std::size_t i = index + 1; i < jobs.size(); ++i) {
      Add(jobs[i].held, &held);
    }
    return held;
  }

  Snapshot SnapshotWith(const UsageByNode& used) const {
    Snapshot snapshot{nodes_, false};
    for (SnapshotNode& node : snapshot.nodes) {
      if (const auto found = used.find(node.name); found != used.end()) {
        node.used.gpu_count = found->second.resources.gpu_count;
        node.pod_count = found->second.pod_count;
      }
    }
    return snapshot;
  }

  std::vector<SnapshotNode> nodes_;
};

TEST(PlanInTurn, JobsOfFiveFiveAndThreeOnEightGpus) {
  Queue queue({4, 4});
  for (const int64_t pods : {5, 5, 3, 3}) {
    queue.Arrive(PodsOfGpus(pods, 1));
  }

  EXPECT_EQ(queue.Try(0), "");
  EXPECT_EQ(queue.Try(1), "needs 5 GPUs, 3 free on 1 node");
  EXPECT_EQ(queue.Try(2), "");  // the second waits for the first anyway: 3 of 8 are in no one's way
  queue.End(0);
  EXPECT_EQ(queue.Try(3), "waits behind default/job-2, which needs 5 GPUs");
  EXPECT_EQ(queue.Try(1), "");
  queue.End(2);
  EXPECT_EQ(queue.Try(3), "");
}

TEST(PlanInTurn, GangThatCanNeverFitHoldsUpNobody) {
  Queue queue({4, 4});
  queue.Arrive(PodsOfGpus(9, 1));
  queue.Arrive(PodsOfGpus(8, 1));

  EXPECT_NE(queue.Try(0), "");
  EXPECT_EQ(queue.Try(1), "");
}

TEST(PlanInTurn, GangThatWaitsForStrangersHoldsUpNobody) {
  Queue queue({4, 4});
  queue.strangers["node-0"].resources.gpu_count = 2;
  queue.Arrive(PodsOfGpus(7, 1));
  queue.Arrive(PodsOfGpus(6, 1));

  EXPECT_NE(queue.Try(0), "");
  EXPECT_EQ(queue.Try(1), "");
}

TEST(PlanInTurn, AnotherPlanIsTakenWhereTheFirstWouldBeInTheWay) {
  Queue queue({9, 2});
  queue.Arrive(PodsOfGpus(1, 3));
  queue.Arrive(PodsOfGpus(5, 2));  // later: four on node-0, one on node-1
  queue.Arrive(PodsOfGpus(1, 1));
  ASSERT_EQ(queue.Try(0), "");
  ASSERT_NE(queue.Try(1), "");

  EXPECT_EQ(queue.Try(2), "");

  // node-1 is the tighter fit, but only node-0 has a GPU to spare.
  EXPECT_EQ(queue.jobs[2].held.begin()->first, "node-0");
}

TEST(PlanInTurn, TooManyAheadThatWouldFitAreNotLookedAt) {
  Queue queue({4});
  for (std::size_t i = 0; i <= kGangsAheadMax + 2; ++i) {
    queue.Arrive(PodsOfGpus(1, 1));
  }

  EXPECT_EQ(queue.Try(kGangsAheadMax), "");
  EXPECT_EQ(queue.Try(kGangsAheadMax + 2), "waits behind default/job-1 and 64 other older jobs");
}

// Whatever comes and goes: a job that fitted an empty cluster always fits what younger jobs leave,
// so it starts at the latest when all older ones have ended.
TEST(PlanInTurn, NoJobIsStarvedByYoungerOnes) {
  int overtakings = 0;
  int waits = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Prng prng(seed);
    const auto upto = [&](uint64_t bound) { return 1 + static_cast<int64_t>(prng.Below(bound)); };
    Queue queue({upto(8), upto(8), upto(4)});
    for (int step = 0; step < 40; ++step) {
      if (prng.Below(2) == 0 && queue.jobs.size() < 20) {
        queue.Arrive(PodsOfGpus(upto(5), upto(3)));
      }
      for (std::size_t i = 0; i < queue.jobs.size(); ++i) {
        if (queue.jobs[i].is_placed() && prng.Below(6) == 0) {
          queue.End(i);
        }
      }
      // Turns come in any order, and not all of them.
      for (int builder = 0; builder < 4 && !queue.jobs.empty(); ++builder) {
        const auto i = static_cast<std::size_t>(prng.Below(queue.jobs.size()));
        if (queue.jobs[i].is_placed() || queue.jobs[i].has_ended) {
          continue;
        }
        std::vector<bool> fitted;
        for (std::size_t w = 0; w < i; ++w) {
          fitted.push_back(queue.FitsWhenOlderEnd(w));
        }
        const std::string answer = queue.Try(i);
        waits += answer.starts_with("waits behind") ? 1 : 0;
        for (std::size_t w = 0; w < i && answer.empty(); ++w) {
          if (!queue.jobs[w].is_placed() && !queue.jobs[w].has_ended) {
            ++overtakings;
            ASSERT_EQ(queue.FitsWhenOlderEnd(w), fitted[w]) << "seed " << seed;
          }
        }
      }
    }
  }
  EXPECT_GT(overtakings, 100);  // both answers are well represented, or the test says little
  EXPECT_GT(waits, 100);
}

TEST(DecideQueue, JobThatWaitsItsTurnSaysBehindWhom) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].gpus = 1;
  TestWorld world(job);
  world.observed.ahead = {{"default/big", PodsOfGpus(8, 1), {}}};

  const Decision decision = world.Step();

  EXPECT_EQ(world.Pods(), "");
  EXPECT_EQ(FindCondition(decision.status, ConditionType::kScheduled)->reason, "WaitsInQueue");
  EXPECT_EQ(MessageOf(decision.status, ConditionType::kScheduled),
            "waits behind default/big, which needs 8 GPUs");
}

// Who is ahead changes as jobs come and go, and an event cannot be taken back.
TEST(DecideQueue, JobThatWaitsItsTurnIsToldOfOnceInWordsThatStayTrue) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].gpus = 1;
  TestWorld world(job);
  world.observed.ahead = {{"default/first", PodsOfGpus(8, 1), {}},
                          {"default/second", PodsOfGpus(8, 1), {}}};

  const Decision first = world.Step();
  world.observed.ahead.erase(world.observed.ahead.begin());
  const Decision second = world.Step();

  EXPECT_EQ(first.events.back().reason, "WaitsInQueue");
  EXPECT_EQ(first.events.back().message.find("default/"), std::string::npos);
  EXPECT_EQ(EventReasons(second), "");
  EXPECT_EQ(MessageOf(second.status, ConditionType::kScheduled),
            "waits behind default/second, which needs 8 GPUs");
}

}  // namespace
}  // namespace lockstep::control
