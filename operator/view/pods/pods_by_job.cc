#include "operator/view/pods/pods_by_job.h"

#include "operator/api/fields/pod_label_names.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

const std::set<std::string> kNone;

}  // namespace

bool IsRunning(const kube::Pod& pod) {
  return pod.status.phase == kube::PodPhase::kRunning;
}

JobId JobOf(const kube::Pod& pod, const std::string& namespace_name) {
  if (!pod.owner_job.empty()) {
    return {namespace_name, pod.owner_job};
  }
  const auto found = pod.labels.find(label::kJob);
  return {namespace_name, found == pod.labels.end() ? std::string() : found->second};
}

void PodsByJob::Add(const JobId& job, const std::string& name, const kube::Pod& pod) {
  Entry& entry = entries_[job];
  entry.names.insert(name);
  if (!LackingLabels(pod).empty()) {
    entry.mislabelled.insert(name);
  }
  entry.running_count += IsRunning(pod) ? 1 : 0;
}

bool PodsByJob::Remove(const JobId& job, const std::string& name, const kube::Pod& pod) {
  Entry& entry = entries_[job];
  entry.names.erase(name);
  entry.mislabelled.erase(name);
  entry.running_count -= IsRunning(pod) ? 1 : 0;
  return entry.names.empty() && entries_.erase(job) > 0;
}

const std::set<std::string>& PodsByJob::NamesOf(const JobId& job) const {
  const auto found = entries_.find(job);
  return found == entries_.end() ? kNone : found->second.names;
}

const std::set<std::string>& PodsByJob::MislabelledOf(const JobId& job) const {
  const auto found = entries_.find(job);
  return found == entries_.end() ? kNone : found->second.mislabelled;
}

std::size_t PodsByJob::RunningCountOf(const JobId& job) const {
  const auto found = entries_.find(job);
  return found == entries_.end() ? 0 : found->second.running_count;
}

}  // namespace lockstep::control
