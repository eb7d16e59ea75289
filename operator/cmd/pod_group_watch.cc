#include "operator/cmd/pod_group_watch.h"

#include <functional>
#include <utility>

#include "common/base/digest.h"

namespace lockstep::control {

// Runs a kube::PodGroupSearch on the transport's thread.
class PodGroupWatch::Search final : public WatchMachine {
 public:
  explicit Search(WorkQueueOfUpdates* queue) : queue_(queue) {}

  Next NextRequest(TimePoint /*now*/) override {
    kube::PodGroupSearch::Next next = search_.NextRequest();
    return {next.not_before, std::move(next.request)};
  }

  void OnStatus(int http_status) override { search_.OnStatus(http_status); }

  StreamFlow OnBytes(std::string_view bytes) override {
    return search_.OnBytes(bytes) ? StreamFlow::kMore : StreamFlow::kStop;
  }

  void OnEnd(const std::optional<kube::Fault>& fault, TimePoint now) override {
    if (auto found = search_.OnEnd(fault, now)) {
      queue_->Push(WorkMessage(PodGroupsSeen{*std::move(found)}));
    }
  }

  std::string LastFailure() const override { return search_.last_failure(); }

  void SetResume(std::function<void()> /*resume*/) override {}  // it never pauses

 private:
  WorkQueueOfUpdates* const queue_;
  kube::PodGroupSearch search_;
};

PodGroupWatch::PodGroupWatch(const WatchLoopOptions& options,
                             std::string namespace_name,
                             WorkQueueOfUpdates* queue)
    : options_(options),
      namespace_name_(std::move(namespace_name)),
      queue_(queue),
      search_(options, std::make_shared<Search>(queue)) {}

void PodGroupWatch::Follow(const kube::PodGroupsFound& found) {
  const bool is_followed = found_ && found_->version == found.version && found.version;
  found_ = found;
  if (is_followed) {
    return;
  }
  groups_.reset();
  if (!found.version) {
    if (found.trouble.empty()) {  // else the search has said so
      options_.logger->Warn(
          "the API server serves no version of PodGroups that this operator knows", {});
    }
    return;
  }
  options_.logger->Info("watching PodGroups", {{"version", kube::ApiVersionOf(*found.version)}});
  kube::ReflectorOptions reflector;
  reflector.selection = {
      kube::PodGroupsIn(*found.version), namespace_name_, "lockstep.dev/job", ""};
  groups_ = std::make_unique<ReflectorDriver<StoredPodGroup>>(
      options_,
      std::move(reflector),
      DecodePodGroup,
      std::hash<std::string>()(RandomHex(8)),
      ReflectorDriver<StoredPodGroup>::Into(queue_));
}

// A server that cannot list them says so with 429 for ever: see
// docs/surprises/podgroups-across-versions.md.
bool PodGroupWatch::HasAnswer() const {
  return found_ && (groups_ == nullptr || groups_->has_synced() || groups_->counts().failures > 0);
}

}  // namespace lockstep::control
