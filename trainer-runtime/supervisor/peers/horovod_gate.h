#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/contract/environment/environment.h"

namespace lockstep::runtime {

// Holds a Horovod program back until all pods of its gang are there. The program itself tries its
// first request for a second and a half and waits for other ranks for 30 s, which is less than
// images take to be pulled. Pods meet as ranks do, by keys at the rendezvous: each says that it is
// there, then asks for one after the other.
class HorovodGate {
 public:
  // `pod` counts the pods that train, of which there are `pod_count`.
  HorovodGate(Attempt attempt, int pod, int pod_count);

  struct Request {
    std::string method;
    std::string path;
  };

  // What to ask next. Precondition (checked): not is_open().
  Request NextRequest() const;

  // Goes on after the answer's status; null where none came. Returns whether there is something to
  // ask at once; otherwise the same is asked again after a while.
  bool TakeAnswer(std::optional<int> status);

  bool is_open() const { return next_pod_ == pod_count_; }

  // The pod that is waited for; null as long as the rendezvous itself is.
  std::optional<int> awaited_pod() const;

 private:
  const std::string scope_;  // of this attempt: an older one's pods are not taken for these
  const int pod_;
  const int pod_count_;
  bool has_told_ = false;
  int next_pod_ = 0;
};

// How long a pod waits at the gate. Pods that do not come are the operator's to find, by
// scheduling.startTimeoutSeconds; this is for those that run and cannot reach each other.
std::chrono::seconds HorovodGatePatience(const WorkerEnvironment& environment);

// Waits at the gate, until `deadline` or until `is_asked_to_end` says so, which it is asked between
// tries: then the program starts all the same, and says itself what it lacks. Returns whether the
// gate has opened. Precondition (checked): the pod has a rank. Thread: any; blocks.
bool WaitAtHorovodGate(const WorkerEnvironment& environment,
                       Deadline deadline,
                       const std::function<bool()>& is_asked_to_end,
                       Logger* logger);

}  // namespace lockstep::runtime
