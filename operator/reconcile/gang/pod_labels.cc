#include "operator/reconcile/gang/pod_labels.h"

#include <charconv>
#include <limits>
#include <string_view>

namespace lockstep::control {
namespace {

const std::string* Find(const Labels& labels, const char* key) {
  const auto found = labels.find(key);
  return found == labels.end() ? nullptr : &found->second;
}

// A number written as we write it: digits only, no sign, no leading zeros.
std::optional<int64_t> ParseCount(const std::string* text, int64_t max) {
  if (text == nullptr || text->empty()) {
    return std::nullopt;
  }
  int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || value < 0 || value > max ||
      std::to_string(value) != *text) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

Labels EncodePodLabels(const PodIdentityLabels& identity) {
  Labels labels;
  labels[label::kJob] = identity.job;
  labels[label::kJobUid] = identity.job_uid;
  labels[label::kRole] = RoleName(identity.task.role);
  labels[label::kIndex] = std::to_string(identity.task.index);
  if (identity.rank.has_value()) {
    labels[label::kRank] = std::to_string(*identity.rank);
  }
  labels[label::kAttempt] = std::to_string(identity.number.attempt.value());
  labels[label::kIncarnation] = std::to_string(identity.number.incarnation.value());
  return labels;
}

std::optional<PodIdentityLabels> ParsePodLabels(const Labels& labels) {
  constexpr int64_t kNumberMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kRankMax = int64_t{kReplicasMax} * kProcessesMax;
  const std::string* const job = Find(labels, label::kJob);
  const std::string* const job_uid = Find(labels, label::kJobUid);
  const std::string* const role_name = Find(labels, label::kRole);
  const auto index = ParseCount(Find(labels, label::kIndex), kReplicasMax);
  const auto attempt = ParseCount(Find(labels, label::kAttempt), kNumberMax);
  const auto incarnation = ParseCount(Find(labels, label::kIncarnation), kNumberMax);
  if (job == nullptr || job_uid == nullptr || role_name == nullptr) {
    return std::nullopt;
  }
  if (!index.has_value() || !attempt.has_value() || !incarnation.has_value()) {
    return std::nullopt;
  }
  const std::optional<Role> role = ParseRole(*role_name);
  if (!role.has_value()) {
    return std::nullopt;
  }
  PodIdentityLabels identity;
  if (const std::string* const rank_text = Find(labels, label::kRank)) {
    const auto rank = ParseCount(rank_text, kRankMax);
    if (!rank.has_value()) {
      return std::nullopt;
    }
    identity.rank = static_cast<int>(*rank);
  }
  identity.job = *job;
  identity.job_uid = *job_uid;
  identity.task = {*role, static_cast<int>(*index)};
  identity.number = {Attempt(*attempt), Incarnation(*incarnation)};
  return identity;
}

std::optional<PodIdentityLabels> IdentityOf(const kube::Pod& pod) {
  std::optional<PodIdentityLabels> labelled = ParsePodLabels(pod.labels);
  const auto name = ParsePodName(pod.name);
  if (name.has_value() && name->job == pod.owner_job && !pod.owner_uid.empty()) {
    PodIdentityLabels identity;
    identity.job = pod.owner_job;
    identity.job_uid = pod.owner_uid;
    identity.task = name->task;
    identity.number = name->number;
    if (labelled.has_value() && labelled->task == name->task) {
      identity.rank = labelled->rank;
    }
    return identity;
  }
  if (!labelled.has_value() || labelled->job_uid != pod.owner_uid) {
    return std::nullopt;
  }
  return labelled;
}

Labels LackingLabels(const kube::Pod& pod) {
  Labels lacking;
  if (const auto identity = IdentityOf(pod)) {
    for (const auto& [key, value] : EncodePodLabels(*identity)) {
      const auto found = pod.labels.find(key);
      if (found == pod.labels.end() || found->second != value) {
        lacking[key] = value;
      }
    }
  }
  return lacking;
}

bool IsDisowned(const kube::Pod& pod, const Metadata& job) {
  const auto identity = ParsePodLabels(pod.labels);
  const auto name = ParsePodName(pod.name);
  return identity.has_value() && identity->job == job.name && identity->job_uid == job.uid &&
         pod.owner_uid != job.uid && pod.namespace_name == job.namespace_name && name.has_value() &&
         name->job == job.name && name->task == identity->task;
}

}  // namespace lockstep::control
