#include "tests/sim/casualties.h"

#include <algorithm>

#include "operator/reconcile/failure/budget.h"

namespace lockstep::control::sim {

int Casualties::Begin(bool is_free) {
  if (is_free) {
    free_acts_.insert(next_act_);
  }
  return next_act_++;
}

void Casualties::NoteAlone(const std::string& pod_uid, bool is_free) {
  const std::set<int>& acts = acts_[pod_uid];
  const bool is_known = std::any_of(
      acts.begin(), acts.end(), [&](int act) { return (free_acts_.count(act) > 0) == is_free; });
  if (!is_known) {
    Note(pod_uid, Begin(is_free));
  }
}

void Casualties::NoteHeld(const std::string& pod_uid, int64_t relaunches) {
  if (held_.emplace(pod_uid, relaunches).second) {
    Note(pod_uid, Begin(/*is_free=*/false));
  }
}

void Casualties::OfferPod(const std::string& job_uid, const std::string& pod_uid) {
  const auto acts = acts_.find(pod_uid);
  if (acts == acts_.end()) {
    return;
  }
  for (const int act : acts->second) {
    if (free_acts_.count(act) == 0) {
      offered_[job_uid].insert("act " + std::to_string(act));
    }
  }
}

void Casualties::NoteWithNode(const std::string& pod_uid, const std::string& node) {
  const auto act = node_acts_.find(node);
  if (act != node_acts_.end()) {
    Note(pod_uid, act->second);
  }
}

void Casualties::OfferLate(const std::string& job_uid, const std::string& pod_uid, TimePoint now) {
  const auto acts = acts_.find(pod_uid);
  if (acts == acts_.end()) {
    return;
  }
  for (const int act : acts->second) {
    const auto [answered, is_first] = answered_.try_emplace({job_uid, act}, now);
    if (!is_first && free_acts_.count(act) == 0 && now - answered->second > kIncidentWindow) {
      offered_[job_uid].insert("act " + std::to_string(act) + " again, pod " + pod_uid);
    }
  }
}

void Casualties::OfferName(const std::string& job_uid, const std::string& pod_name) {
  offered_[job_uid].insert("pod " + pod_name);
}

std::size_t Casualties::OfferedTo(const std::string& job_uid) const {
  const auto offered = offered_.find(job_uid);
  return offered == offered_.end() ? 0 : offered->second.size();
}

}  // namespace lockstep::control::sim
