#include "operator/controller/errand/cluster_notes.h"

#include <algorithm>

#include "common/contract/text/text.h"

namespace lockstep::control {

void ClusterNotes::NoteRefusal(const JobId& job,
                               const std::string& pod,
                               const std::string& words,
                               bool is_invalid) {
  PodRefusal& refusal = refused_pods[job].try_emplace(pod, PodRefusal{"", false, 0}).first->second;
  refusal = {CutText(words, kRefusalBytesMax), is_invalid, refusal.count + 1, wall_now};
}

void ClusterNotes::NoteFailure(const JobId& job, const std::string& pod, const std::string& words) {
  CreationOutage& outage =
      outages.try_emplace(job, CreationOutage{wall_now, wall_now}).first->second;
  if (wall_now - outage.last > kFailureMemory) {
    outage.since = wall_now;
  }
  outage.since = std::min(outage.since, wall_now);  // the clock may have been set back
  outage.last = wall_now;
  if (wall_now - outage.since >= kFailurePatience) {
    NoteRefusal(job, pod, words, false);
  }
}

void ClusterNotes::NoteCreated(const JobId& job, const std::string& pod) {
  outages.erase(job);
  const auto refused = refused_pods.find(job);
  if (refused == refused_pods.end()) {
    return;
  }
  refused->second.erase(pod);
  if (refused->second.empty()) {
    refused_pods.erase(refused);
  }
}

}  // namespace lockstep::control
