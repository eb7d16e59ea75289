#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/base/time.h"
#include "operator/pod_client/status_poller.h"

namespace lockstep::control {

// Which pods do not answer. Silence is counted in answers that did not come, and not by the clock
// alone, for this process may have been stopped itself. A pod whose runtime is to listen from its
// first moment is heard of at the latest kStartPatience after it was first asked, whether its port
// is closed till then or open and silent; of any other pod nothing is expected until it has
// answered once. Pure bookkeeping. Thread: one.
class PodSilence {
 public:
  // Choice: 5 s of silence, where each answer has 500 ms.
  static constexpr int kMuteAfter = 10;

  // Choice: a runtime answers a few milliseconds after its start; a machine that swaps, or starts
  // many more pods than it has cores, is given longer before an attempt is spent on it. Measured:
  // of 64 on two busy cores six had not answered after 8 s, and were about to.
  static constexpr Duration kStartPatience = std::chrono::seconds(30);

  // The pods that are asked, each with whether a runtime is to listen in it. Others are forgotten.
  void Keep(const std::map<std::string, bool>& pods);

  // What came of a question to a pod that is kept.
  void Note(const std::string& pod, const StatusPoller::Finding& finding, TimePoint received);

  std::set<std::string> Mute() const;

 private:
  struct Pod {
    bool must_listen = false;
    bool has_answered = false;
    int unanswered = 0;  // in a row
    std::optional<TimePoint> newest;
    Duration silent{};  // since it was first asked, until it has answered
  };

  static bool IsMute(const Pod& pod);

  std::map<std::string, Pod> pods_;
};

}  // namespace lockstep::control
