#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/base/time.h"
#include "common/process/silence.h"
#include "operator/pod_client/status_poller.h"

namespace lockstep::control {

// Which pods do not answer. Silence is counted in answers that did not come, and not by the clock
// alone, for this process may have been stopped itself. It is judged by common/process/silence.h,
// with the pod's leader as the process that should speak. A pod whose runtime is to listen from its
// first moment is heard of at the latest kStartPatience after it was first asked, whether its port
// is closed till then or open and silent; of any other pod nothing is expected until it has
// answered once. Pure bookkeeping. Thread: one.
class PodSilence {
 public:
  // Choice: no sooner than peers of a training suspect each other by default.
  static constexpr Duration kSilentAfter = std::chrono::milliseconds(1500);

  // What one question counts for: an answer has this long.
  static constexpr Duration kQuestion = std::chrono::milliseconds(500);

  // Choice: a runtime answers a few milliseconds after its start; a machine that swaps, or starts
  // many more pods than it has cores, is given longer before an attempt is spent on it. Measured:
  // of 64 on two busy cores six had not answered after 8 s, and were about to.
  static constexpr Duration kStartPatience = std::chrono::seconds(30);

  // The pods that are asked, each with whether a runtime is to listen in it. Others are forgotten.
  // `core_count`: that they share.
  void Keep(const std::map<std::string, bool>& pods, double core_count);

  // What came of a question to a pod that is kept.
  void Note(const std::string& pod, const StatusPoller::Finding& finding, TimePoint received);

  // Whether it is time to look at the processes of the pod.
  bool IsSilent(const std::string& pod) const;

  // What such a look has shown.
  void See(const std::string& pod, Sight sight);

  std::set<std::string> Mute() const;

 private:
  struct Pod {
    bool must_listen = false;
    bool has_answered = false;
    int unanswered = 0;  // in a row
    std::optional<TimePoint> newest;
    Duration silent{};  // since it was first asked, until it has answered
    Sight sight = Sight::kUnseen;
  };

  bool IsMute(const Pod& pod) const;

  SilenceLimits limits_ = LimitsOf(kSilentAfter, 1);
  std::map<std::string, Pod> pods_;
};

}  // namespace lockstep::control
