#include "operator/cli/pods/pod_silence.h"

#include <algorithm>

namespace lockstep::control {
namespace {

// What one question counts for at most: between two of them this process may have been stopped.
constexpr Duration kQuestionMax = std::chrono::seconds(1);

}  // namespace

void PodSilence::Keep(const std::map<std::string, bool>& pods, double core_count) {
  limits_ = LimitsOf(kSilentAfter, static_cast<double>(pods.size()) / core_count);
  std::erase_if(pods_, [&](const auto& entry) { return pods.count(entry.first) == 0; });
  for (const auto& [pod, must_listen] : pods) {
    pods_[pod].must_listen = must_listen;
  }
}

void PodSilence::Note(const std::string& pod,
                      const StatusPoller::Finding& finding,
                      TimePoint received) {
  const auto entry = pods_.find(pod);
  if (entry == pods_.end()) {
    return;
  }
  Pod& known = entry->second;
  known.has_answered = known.has_answered || finding.document.has_value();
  known.unanswered = finding.unanswered;
  known.sight = finding.unanswered == 0 ? Sight::kUnseen : known.sight;
  if (known.newest) {
    known.silent += std::min(received - *known.newest, kQuestionMax);
  }
  known.newest = received;
}

bool PodSilence::IsSilent(const std::string& pod) const {
  const auto entry = pods_.find(pod);
  return entry != pods_.end() && entry->second.unanswered * kQuestion >= limits_.suspect;
}

void PodSilence::See(const std::string& pod, Sight sight) {
  if (const auto entry = pods_.find(pod); entry != pods_.end()) {
    entry->second.sight = sight;
  }
}

bool PodSilence::IsMute(const Pod& pod) const {
  return pod.has_answered ? IsGivenUp(pod.unanswered * kQuestion, limits_, pod.sight)
                          : pod.must_listen && pod.silent >= kStartPatience;
}

std::set<std::string> PodSilence::Mute() const {
  std::set<std::string> mute;
  for (const auto& [name, pod] : pods_) {
    if (IsMute(pod)) {
      mute.insert(name);
    }
  }
  return mute;
}

}  // namespace lockstep::control
