#pragma once

#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "common/base/rfc3339.h"
#include "operator/api/job/encode.h"
#include "operator/controller/round_keeper.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {

inline constexpr const char* kGpu = "nvidia.com/gpu";

// Seconds after the first round.
inline TimePoint At(int64_t second) {
  return TimePoint{} + std::chrono::seconds(100'000 + second);
}

// For tests of rounds over a view: nodes, queues, classes and jobs as watches would tell of them.
class RoundBench : public testing::Test {
 protected:
  explicit RoundBench(bool learns_run_times = false) : view_({}, {"rack"}, learns_run_times) {}

  void AddNode(const std::string& name, int64_t gpus, const std::string& rack = "") {
    kube::Node node;
    node.name = name;
    if (!rack.empty()) {
      node.labels["rack"] = rack;
    }
    node.allocatable = {64'000, int64_t{1} << 40, gpus};
    view_.Apply(kube::ObjectUpdate<kube::Node>(kube::Upserted<kube::Node>{
                    {{"", name}, name, NextVersion(), std::make_shared<const kube::Node>(node)}}),
                &news_);
  }

  static StoredQueue QueueOf(const std::string& name, int64_t gpus, int64_t borrowed_max) {
    StoredQueue stored;
    stored.queue.name = name;
    stored.queue.nominal["nvidia.com/gpu"] = gpus;
    stored.queue.borrowing_limit["nvidia.com/gpu"] = borrowed_max;
    return stored;
  }

  void Tell(const StoredQueue& stored) {
    const std::string& name = stored.queue.name;
    view_.Apply(
        kube::ObjectUpdate<StoredQueue>(kube::Upserted<StoredQueue>{
            {{"", name}, name, NextVersion(), std::make_shared<const StoredQueue>(stored)}}),
        &news_);
  }

  void AddQueue(const std::string& name, int64_t gpus, int64_t borrowed_max) {
    Tell(QueueOf(name, gpus, borrowed_max));
  }

  void AddClass(const std::string& name, int64_t value) { Tell(name, PriorityClass{value}); }

  void Tell(const std::string& name, const PriorityClass& read) {
    view_.Apply(
        kube::ObjectUpdate<PriorityClass>(kube::Upserted<PriorityClass>{
            {{"", name}, name, NextVersion(), std::make_shared<const PriorityClass>(read)}}),
        &news_);
  }

  static JobId KeyOf(const std::string& name) { return {"default", name}; }

  // One worker with so many GPUs. Jobs come one second after the other.
  void AddJob(const std::string& name, int64_t gpus) {
    TrainingJob job = MakeTrainingJob(1);
    job.metadata.name = name;
    job.metadata.uid = "uid-" + name;
    job.spec.roles.front().gpus = gpus;
    job.spec.training->dataset.train.images = "images";
    job.spec.training->dataset.train.labels = "labels";
    created_[name] = WallTime{std::chrono::seconds(1500 + created_.size())};
    Store(job);
  }

  void Store(const TrainingJob& job) {
    Json object = EncodeTrainingJob(job);
    object["metadata"]["creationTimestamp"] = FormatRfc3339(created_.at(job.metadata.name));
    object["metadata"]["resourceVersion"] = NextVersion();
    view_.Apply(kube::ObjectUpdate<StoredJob>(
                    kube::Upserted<StoredJob>{DecodeStoredJob(DumpJson(object)).value()}),
                &news_);
  }

  TrainingJob Stored(const std::string& name) { return view_.FindJob(KeyOf(name))->job; }

  // The node that the job gets in its turn, or what it waits for.
  std::string Ask(const std::string& name) {
    rounds_.Ask(KeyOf(name), now_, &news_);
    const PlanResult answer = view_.allocator().AnswerFor(KeyOf(name));
    if (const auto* plan = std::get_if<Plan>(&answer)) {
      return plan->node_by_pod.at("worker-0");
    }
    return std::get<Unschedulable>(answer).shortfall;
  }

  // The job is about to have its place there.
  TrainingJobStatus Take(const std::string& name, const std::string& node) {
    TrainingJobStatus status = Stored(name).status;
    PodPlacement placement;
    placement.node = node;
    status.placement = {placement};
    view_.Reserve(KeyOf(name), status);
    return status;
  }

  // A job that the watch tells of with its places there, in that queue's name.
  void AddPlacedJob(const std::string& name,
                    int64_t gpus,
                    const std::string& node,
                    const std::string& queue) {
    AddJob(name, gpus);
    TrainingJob job = Stored(name);
    job.spec.scheduling.queue = queue;
    PodPlacement placement;
    placement.node = node;
    job.status.placement = {placement};
    job.status.origin.queue = queue;
    Store(job);
  }

  std::string NextVersion() { return std::to_string(++version_); }

  ClusterView view_;
  RoundKeeper rounds_{&view_};
  News news_;
  WallTime now_{std::chrono::seconds(2000)};
  std::map<std::string, WallTime> created_;
  int64_t version_ = 0;
};

}  // namespace lockstep::control
