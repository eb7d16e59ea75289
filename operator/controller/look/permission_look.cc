#include "operator/controller/look/permission_look.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/contract/text/text.h"
#include "operator/api/job/job_topology.h"
#include "operator/controller/errand/beyond_cure.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/pods/pod.h"
#include "operator/reconcile/pods/pod_manifest.h"

namespace lockstep::control {
namespace {

// A yes is used at once, by the next round. Choice: rounds are that far apart where thousands wait.
constexpr std::chrono::seconds kYesHolds{60};
// Choice: whoever raises a quota sees the job start within that time.
constexpr std::chrono::seconds kNoHolds{30};
// Of a server that could not say. Choice: it is back soon, or has more to do than this.
constexpr std::chrono::seconds kFailureHolds{10};

// The server's words where a webhook has side effects that it cannot leave out: the pod itself may
// well be allowed. Source: k8s.io/apiserver, NewDryRunUnsupportedErr.
bool CannotBeDryRun(const Error& error) {
  return error.message().ends_with("does not support dry run");
}

}  // namespace

PermissionLook::PermissionLook(const PermissionLookParts& parts,
                               TrainingJob job,
                               std::vector<JobId> victims)
    : parts_(parts),
      settings_(*parts.settings),
      job_(std::move(job)),
      key_{job_.metadata.namespace_name, job_.metadata.name},
      victims_(std::move(victims)),
      begun_(parts.notes->wall_now),
      quota_list_({kube::kResourceQuotas, key_.namespace_name, "", ""},
                  [this](std::string_view json) {
                    if (const auto object = ParseJson(json); object.ok()) {
                      quotas_.push_back(ReadResourceQuota(*object));
                    }
                  }) {
  for (const RoleSpec& role : job_.spec.roles) {
    if (role.replicas > 0) {
      pods_.push_back({{role.name, 0}, role.replicas});
    }
  }
}

std::vector<ErrandCall> PermissionLook::Next() {
  std::vector<ErrandCall> calls = Surroundings();
  if (calls.empty() && !std::exchange(has_begun_dry_runs_, true)) {
    calls = DryRuns();
  }
  return calls;
}

// Quotas that may not be listed are left to the dry run.
std::vector<ErrandCall> PermissionLook::Surroundings() {
  std::vector<ErrandCall> calls;
  if (!has_read_quotas_) {
    calls.push_back({[this] { return quota_list_.Next(); },
                     [this](kube::CallResult result) {
                       const Status read = quota_list_.Read(std::move(result));
                       has_read_quotas_ = !read.ok() || quota_list_.is_over();
                     }});
  }
  if (const auto level = parts_.levels->Of(key_.namespace_name, parts_.now)) {
    settings_.pod_security = *level;
  } else if (!std::exchange(has_asked_level_, true)) {
    calls.push_back({[this] { return kube::Get(kube::kNamespaces, "", key_.namespace_name); },
                     [this](kube::CallResult result) {
                       settings_.pod_security =
                           parts_.levels->Learn(key_.namespace_name, std::move(result), parts_.now);
                     }});
  }
  return calls;
}

std::vector<ErrandCall> PermissionLook::DryRuns() {
  std::vector<ErrandCall> calls;
  for (Part& part : pods_) {
    PodRequest request;
    request.task = part.first;
    request.number.attempt = job_.status.attempt;
    const auto pod = BuildPod(job_, request, settings_);
    if (!pod.ok()) {
      refusal_ = pod.error().ToString();
      return {};
    }
    part.manifest = PodManifest(job_, *pod, settings_);
    calls.push_back(
        {[this, &part] {
           return kube::DryRun(
               kube::Create(kube::kPods, key_.namespace_name, DumpJson(part.manifest)));
         },
         [this, &part](kube::CallResult result) { ReadDryRun(part, std::move(result)); }});
  }
  return calls;
}

// A name that is taken is no refusal: it is looked at when all else has been.
void PermissionLook::ReadDryRun(const Part& part, kube::CallResult result) {
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
  const Result<Json> admitted = reply.ok() ? ParseJson(reply->body) : Result<Json>(reply.error());
  AddTimes(QuotaUseOf(admitted.ok() ? *admitted : part.manifest), part.count, &asked_);
  if (reply.ok() || reply.error().code() == ErrorCode::kAlreadyExists ||
      CannotBeDryRun(reply.error())) {
    return;
  }
  const std::string words = CutText(reply.error().message(), ClusterNotes::kRefusalBytesMax);
  if (!IsRefusal(reply.error())) {
    failure_ = words;
  } else if (reply.error().code() == ErrorCode::kResourceExhausted) {
    quota_refusal_ = words;
  } else {
    refusal_ = words;
  }
}

// What the pods of the job's own namespace hold that would go.
QuotaAmounts PermissionLook::FreedByVictims() const {
  QuotaAmounts freed;
  for (const JobId& victim : victims_) {
    if (victim.namespace_name != key_.namespace_name) {
      continue;
    }
    for (const kube::Item<kube::Pod>* pod : parts_.view->PodsOf(victim)) {
      if (!HasEnded(*pod->object)) {
        AddTimes(QuotaUseOf(pod->object->spec.container.requests, 1), 1, &freed);
      }
    }
  }
  return freed;
}

// What gangs of the namespace ask for that have their places, or wait for others to go, and whose
// pods no quota has counted yet.
QuotaAmounts PermissionLook::PromisedToOthers() const {
  QuotaAmounts promised;
  const std::string own = GangNameOf(key_);
  for (const auto& [name, gang] : parts_.view->Scheduling(begun_).state().gangs()) {
    const bool is_uncounted = gang.state == GangState::kClaiming || gang.is_promised;
    if (is_uncounted && gang.space == key_.namespace_name && name != own) {
      AddTimes(QuotaUseOf(gang.total, gang.pod_count), 1, &promised);
    }
  }
  return promised;
}

// Where some of the namespace's pods would go, a quota that is full now may have room then: it is
// added up instead, unless it counts some pods only.
PodPermission PermissionLook::Judge() const {
  const auto no = [&](const std::string& words, std::chrono::seconds holds) {
    return PodPermission{
        PodsAllowed::kNo, begun_, begun_ + holds, CutText(words, ClusterNotes::kRefusalBytesMax)};
  };
  if (!refusal_.empty()) {
    return no("the API server refuses the job's pods: " + refusal_, kNoHolds);
  }
  const QuotaAmounts freed = FreedByVictims();
  QuotaAmounts asked = asked_;
  AddTimes(PromisedToOthers(), 1, &asked);
  if (const std::string why = WhyOverQuota(quotas_, asked, freed); !why.empty()) {
    return no(why, kNoHolds);
  }
  const bool is_added_up =
      !freed.empty() && !quotas_.empty() &&
      std::ranges::none_of(quotas_, [](const ResourceQuota& quota) { return quota.has_scopes; });
  if (!quota_refusal_.empty() && !is_added_up) {
    return no("the API server refuses the job's pods: " + quota_refusal_, kNoHolds);
  }
  if (!failure_.empty()) {
    return no("the API server could not say whether it accepts the job's pods: " + failure_,
              kFailureHolds);
  }
  return {PodsAllowed::kYes, begun_, begun_ + kYesHolds};
}

// Where the job is another meanwhile, nothing is known of it, and the next round asks again.
std::vector<Status> PermissionLook::TakeAnswers() {
  if (const StoredJob* const stored = parts_.view->FindJob(key_)) {
    const Metadata& now = stored->job.metadata;
    const bool is_same = now.uid == job_.metadata.uid && now.generation == job_.metadata.generation;
    parts_.view->LearnPermission(
        now, is_same ? Judge() : PodPermission{PodsAllowed::kUnasked, begun_}, &parts_.notes->news);
  }
  return {OkStatus()};
}

}  // namespace lockstep::control
