#include "operator/allocator/allocator.h"

#include <memory>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "common/base/rfc3339.h"
#include "operator/api/job/encode.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/testing/fake_world.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {
namespace {

std::string Describe(const NodeFree& free) {
  std::string text = " pods " + std::to_string(free.pods_free);
  for (const NamedAmount& amount : free.free.All()) {
    text += " " + amount.name + " " + QuantityText(amount);
  }
  return text;
}

// All that a round would look at; nodes that hold nothing and are not known are left out.
std::string Describe(const ClusterState& state) {
  std::string text;
  for (const auto& [name, node] : state.nodes().by_name()) {
    if (state.nodes().is_known(node)) {
      text += "node " + name + ":" + Describe(state.nodes().FreeNow(node)) + ", empty" +
              Describe(state.nodes().FreeOfStrangers(node)) + "\n";
    }
  }
  for (const auto& [name, gang] : state.gangs()) {
    text += "gang " + name + " state " + std::to_string(static_cast<int>(gang.state)) + " since " +
            FormatRfc3339(gang.request.since);
    if (gang.state == GangState::kWaiting) {  // of others it means nothing any more
      text += " standing " + std::to_string(static_cast<int>(gang.request.standing));
    }
    UsageByNode held;
    for (const NodeHold& hold : gang.holds) {
      AddUsage({{state.nodes().NameOf(hold.node), hold.usage}}, &held);
    }
    for (const auto& [node, use] : held) {
      text += " " + node + ":" + std::to_string(use.resources.gpu_count) + "/" +
              std::to_string(use.pod_count);
    }
    text += "\n";
  }
  return text;
}

std::string NameAt(const std::string& kind, uint64_t index) {
  return kind + std::to_string(index);
}

// What an API server holds, of which a view is told object by object.
class FakeStore {
 public:
  explicit FakeStore(uint64_t seed) : prng_(seed) {}

  // Something happens; the view hears of it.
  void Happen(ClusterView* view) {
    switch (prng_.Below(8)) {
      case 0:
        return ChangeNode(view);
      case 1:
      case 2:
        return ChangeForeignPod(view);
      case 3:
      case 4:
      case 5:
        return ChangeJob(view);
      default:
        return ChangePod(view);
    }
  }

  // Another one, which hears of all at once.
  void TellAll(ClusterView* view) const {
    News news;
    view->Apply(kube::ObjectUpdate<StoredJob>(kube::Replaced<StoredJob>{ItemsOf(jobs_)}), &news);
    view->Apply(kube::ObjectUpdate<kube::Node>(kube::Replaced<kube::Node>{ItemsOf(nodes_)}), &news);
    view->Apply(kube::ObjectUpdate<PodUse>(kube::Replaced<PodUse>{ItemsOf(foreign_)}), &news);
    view->Apply(kube::ObjectUpdate<kube::Pod>(kube::Replaced<kube::Pod>{ItemsOf(pods_)}), &news);
  }

  // The job claims nothing any more.
  void GiveUpClaim(const JobId& key, ClusterView* view) {
    TrainingJob& job = manifests_.at(key.name);
    job.status.claim.reset();
    Tell(&jobs_, JobItem(job), view);
  }

  // The job has these places from now on.
  void Place(const JobId& key, const PlacedPods& pods, ClusterView* view) {
    TrainingJob& job = manifests_.at(key.name);
    for (std::size_t i = 0; i < pods.size(); ++i) {
      PodPlacement placement;
      placement.index = static_cast<int>(i);
      placement.node = pods[i].node;
      job.status.placement.push_back(placement);
    }
    Tell(&jobs_, JobItem(job), view);
  }

 private:
  template <typename T>
  using Items = std::map<kube::ObjectKey, kube::Item<T>>;

  template <typename T>
  static std::vector<kube::Item<T>> ItemsOf(const Items<T>& items) {
    std::vector<kube::Item<T>> all;
    for (const auto& [key, item] : items) {
      all.push_back(item);
    }
    return all;
  }

  template <typename T>
  void Tell(Items<T>* items, const kube::Item<T>& item, ClusterView* view) {
    News news;
    items->insert_or_assign(item.key, item);
    view->Apply(kube::ObjectUpdate<T>(kube::Upserted<T>{item}), &news);
  }

  template <typename T>
  void Remove(Items<T>* items, const kube::ObjectKey& key, ClusterView* view) {
    News news;
    if (const auto found = items->find(key); found != items->end()) {
      kube::Item<T> item = found->second;
      items->erase(found);
      item.resource_version = std::to_string(++version_);
      view->Apply(kube::ObjectUpdate<T>(kube::Deleted<T>{item}), &news);
    }
  }

  bool Happens(uint64_t one_in) { return prng_.Below(one_in) == 0; }

  std::string Uid(const std::string& name) { return name + "-" + std::to_string(++version_); }

  // It was asked to go: else the view would doubt that it has gone.
  void RemovePod(const kube::ObjectKey& key, ClusterView* view) {
    if (const auto found = pods_.find(key); found != pods_.end()) {
      kube::Pod pod = *found->second.object;
      pod.is_deleting = true;
      found->second.object = Shared(pod);
      Remove(&pods_, key, view);
    }
  }

  void ChangeNode(ClusterView* view) {
    const std::string name = NameAt("node-", prng_.Below(4));
    if (Happens(4)) {
      return Remove(&nodes_, {"", name}, view);
    }
    kube::Node node;
    node.name = name;
    node.allocatable = {64'000, int64_t{1} << 40, static_cast<int64_t>(4 + prng_.Below(5))};
    node.pod_count_max = static_cast<int64_t>(prng_.Below(3) * 5);
    node.is_ready = !Happens(5);
    node.is_schedulable = node.is_ready && !Happens(5);
    Tell(&nodes_, {{"", name}, name, std::to_string(++version_), Shared(node)}, view);
  }

  void ChangeForeignPod(ClusterView* view) {
    const std::string name = NameAt("web-", prng_.Below(6));
    if (Happens(3)) {
      return Remove(&foreign_, {"default", name}, view);
    }
    const PodUse use{NameAt("node-", prng_.Below(4)),
                     {100, 1000, static_cast<int64_t>(prng_.Below(2))},
                     Happens(4)};
    Tell(&foreign_, {{"default", name}, name, std::to_string(++version_), Shared(use)}, view);
  }

  void ChangeJob(ClusterView* view) {
    const std::string name = NameAt("job-", prng_.Below(5));
    if (manifests_.count(name) > 0 && Happens(5)) {
      manifests_.erase(name);
      return Remove(&jobs_, {"default", name}, view);
    }
    if (manifests_.count(name) == 0) {
      TrainingJob job = MakeTrainingJob(static_cast<int>(1 + prng_.Below(3)));
      job.metadata.name = name;
      job.metadata.uid = Uid(name);
      job.spec.roles.front().gpus = static_cast<int64_t>(1 + prng_.Below(3));
      job.spec.training->dataset.train.images = "images";
      job.spec.training->dataset.train.labels = "labels";
      manifests_[name] = job;
    }
    TrainingJob& job = manifests_[name];
    job.spec.run_policy.suspend = Happens(5);
    if (Happens(4)) {
      job.status.placement.clear();  // its pods, if it had any, are still there
      job.status.rollbacks = Happens(2) ? 1 : 0;
      job.status.retry_at =
          Happens(2) ? std::optional(now + std::chrono::seconds(5)) : std::nullopt;
    }
    ChangeClaim(&job);
    if (Happens(9)) {
      SetCondition(&job.status, {ConditionType::kFailed, true, "Any", "any"}, WallTime{});
    }
    Tell(&jobs_, JobItem(job), view);
  }

  // Of room on a node, where the next job may be, whose gang is to go. Nobody else claims that.
  void ChangeClaim(TrainingJob* job) {
    job->status.claim.reset();
    job->status.observed_generation = job->metadata.generation;
    const auto victim = manifests_.find(
        NameAt("job-", static_cast<uint64_t>(job->metadata.name.back() - '0' + 1) % 5));
    if (victim != manifests_.end() && !Happens(4)) {
      job->status.claim = RoomClaim{now + std::chrono::milliseconds(++version_),
                                    {{"default/" + victim->first,
                                      victim->second.metadata.uid,
                                      Attempt(static_cast<int64_t>(prng_.Below(2)))}},
                                    {{"worker-0", NameAt("node-", prng_.Below(4))}}};
    }
    if (job->status.placement.empty() && Happens(4)) {
      SetCondition(&job->status,
                   {ConditionType::kScheduled, false, std::string(kReasonPodStuck), "it stays"},
                   WallTime{});
    }
  }

  void ChangePod(ClusterView* view) {
    if (manifests_.empty()) {
      return;
    }
    const auto job =
        std::next(manifests_.begin(), static_cast<std::ptrdiff_t>(prng_.Below(manifests_.size())));
    const std::string name = job->first + "-worker-" + std::to_string(prng_.Below(2));
    if (Happens(3)) {
      return RemovePod({"default", name}, view);
    }
    kube::Pod pod;
    pod.name = name;
    pod.namespace_name = "default";
    pod.uid = Uid(name);
    pod.labels = EncodePodLabels({job->first, job->second.metadata.uid, {Role::kWorker, 0}, 0, {}});
    pod.owner_uid = Happens(4) ? "somebody" : job->second.metadata.uid;
    pod.owner_job = pod.owner_uid == "somebody" && Happens(2) ? "" : job->first;
    pod.is_deleting = Happens(4);
    pod.spec.node_name = Happens(3) ? "" : NameAt("node-", prng_.Below(4));
    pod.spec.container.requests.gpu_count = static_cast<int64_t>(1 + prng_.Below(2));
    pod.status.phase = Happens(4) ? kube::PodPhase::kSucceeded : kube::PodPhase::kRunning;
    RemovePod({"default", name}, view);
    Tell(&pods_, {{"default", name}, pod.uid, std::to_string(++version_), Shared(pod)}, view);
  }

  template <typename T>
  static std::shared_ptr<const T> Shared(const T& object) {
    return std::make_shared<const T>(object);
  }

  kube::Item<StoredJob> JobItem(const TrainingJob& job) {
    Json object = EncodeTrainingJob(job);
    object["metadata"]["creationTimestamp"] =
        "2026-01-01T00:00:0" + job.metadata.name.substr(4) + "Z";
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    return DecodeStoredJob(DumpJson(object)).value();
  }

  Prng prng_;
  int64_t version_ = 1;
  std::map<std::string, TrainingJob> manifests_;
  Items<StoredJob> jobs_;
  Items<kube::Pod> pods_;
  Items<kube::Node> nodes_;
  Items<PodUse> foreign_;

 public:
  WallTime now{std::chrono::seconds(1'800'000'000)};
};

// Whatever comes and goes, in whatever order, with rounds in between whose grants are taken or
// given back: what is known then is what somebody would know who came last.
TEST(Allocator, IsAfterAnyEventsWhatAFreshOneIs) {
  int64_t taken_count = 0;
  int64_t returned_count = 0;
  int64_t claiming_count = 0;
  int64_t leaving_count = 0;
  int64_t given_up_count = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    FakeStore store(seed);
    Prng prng(seed + 1'000'000);
    ClusterView view;
    for (int step = 0; step < 60; ++step) {
      store.Happen(&view);
      if (prng.Below(3) != 0) {
        continue;
      }
      Allocator& allocator = view.Scheduling(store.now);
      const RoundResult result = allocator.Ask(nullptr, store.now).value();
      for (const Grant& grant : result.grants) {
        if (prng.Below(2) == 0) {
          store.Place(JobOfGang(grant.gang), grant.pods, &view);
          ++taken_count;
        } else {
          ++returned_count;
        }
      }
      for (const Operation& operation : result.log) {
        if (operation.kind == OperationKind::kUnclaim) {
          store.GiveUpClaim(JobOfGang(operation.gang), &view);
          ++given_up_count;
        }
      }
      view.Scheduling(store.now).Reset();
      for (const auto& [name, gang] : view.Scheduling(store.now).state().gangs()) {
        claiming_count += gang.state == GangState::kClaiming ? 1 : 0;
        leaving_count += gang.state == GangState::kLeaving ? 1 : 0;
      }
      ClusterView fresh;
      store.TellAll(&fresh);
      ASSERT_EQ(Describe(view.Scheduling(store.now).state()),
                Describe(fresh.Scheduling(store.now).state()))
          << "seed " << seed << " step " << step;
    }
  }
  EXPECT_GT(taken_count, 100);
  EXPECT_GT(returned_count, 100);
  EXPECT_GT(claiming_count, 20);
  EXPECT_GT(leaving_count, 100);
  EXPECT_GT(given_up_count, 100);
}

// Whoever leads next has claims in the order in which they were made.
TEST(Allocator, RoomIsKeptSinceWhenTheStatusSays) {
  const WallTime since = WallTime(std::chrono::seconds(1000));
  JobStand stand;
  stand.wants_place = true;
  stand.request.name = "default/mnist";
  stand.claim = RoomClaim{since, {}, {{"worker-0", "node-0"}}};
  Allocator allocator;
  allocator.SetJob({"default", "mnist"}, stand);
  const GangRecord* const gang = allocator.state().Find("default/mnist");
  ASSERT_EQ(gang->state, GangState::kClaiming);
  EXPECT_EQ(gang->claimed_at, since);
}

// Until its status says where it is, nobody else is to take that for free.
TEST(Allocator, RoomStaysKeptForAGangThatItIsGrantedTo) {
  const JobId key{"default", "mnist"};
  const WallTime since = WallTime(std::chrono::seconds(1000));
  JobStand stand;
  stand.wants_place = true;
  stand.request.name = "default/mnist";
  PodClass& worker = stand.request.gang.classes.emplace_back();
  worker.name = "worker";
  worker.pods = {"worker-0"};
  worker.request.gpu_count = 2;
  stand.claim = RoomClaim{since, {}, {{"worker-0", "node-0"}}};
  Allocator allocator;
  SnapshotNode node;
  node.name = "node-0";
  node.allocatable.gpu_count = 4;
  allocator.SetNode(node);
  allocator.SetJob(key, stand);
  const UsageByNode kept = {{"node-0", {{0, 0, 2}, 1}}};
  EXPECT_EQ(allocator.RoomKept(), kept);

  allocator.Ask(nullptr, since);
  ASSERT_TRUE(std::holds_alternative<Plan>(allocator.AnswerFor(key)));
  EXPECT_EQ(allocator.RoomKept(), kept);
  allocator.Reset();
  EXPECT_EQ(allocator.RoomKept(), kept);
  EXPECT_EQ(allocator.state().Find("default/mnist")->claimed_at, since) << "not before all others";

  stand.is_placed = true;
  stand.wants_place = false;
  allocator.SetJob(key, stand);
  EXPECT_TRUE(allocator.RoomKept().empty());
}

}  // namespace
}  // namespace lockstep::control
