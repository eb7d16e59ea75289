#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <sys/types.h>

namespace lockstep::runtime {

// What is seen of torchrun among the processes of a pod.
struct TorchrunSight {
  int count = 0;             // of torchruns
  bool is_alone = false;     // one was told --standalone
  std::optional<int> world;  // the smallest that processes of theirs are in; absent: none runs yet
  bool waits_alone = false;  // one of these waits for pods that it will never hear of

  friend bool operator==(const TorchrunSight&, const TorchrunSight&) = default;
};

// Looks at all that descends from `ancestor`. Reads the command of each process, and the
// environment of those that a torchrun has started. `folder`: where proc(5) is mounted.
TorchrunSight LookForTorchrun(pid_t ancestor, const std::string& folder = "/proc");

// What a pod may expect of a torchrun that its command starts.
struct TorchrunExpectation {
  int process_count = 1;  // that the command was started as
  int world_size = 1;     // of the job
};

// What is wrong with what is seen, in one sentence, and whether the pod must end for it: processes
// of the pod that each start a torchrun take each other's ports. Null: nothing so far.
struct TorchrunFault {
  std::string what;
  bool is_fatal = false;

  friend bool operator==(const TorchrunFault&, const TorchrunFault&) = default;
};

std::optional<TorchrunFault> FaultOf(const TorchrunSight& sight,
                                     const TorchrunExpectation& expected);

// Looks at the processes below this one, ever more rarely, until a torchrun's processes run,
// something is wrong, or a while has passed: then the program has started what it starts. Thread:
// its own, which calls `tell` once at most.
class TorchrunWatch {
 public:
  TorchrunWatch(TorchrunExpectation expected, std::function<void(const TorchrunFault&)> tell);

 private:
  void Run(const std::stop_token& stop) const;

  const TorchrunExpectation expected_;
  const std::function<void(const TorchrunFault&)> tell_;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace lockstep::runtime
