#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/communicator/communicator.h"

namespace lockstep::runtime {

// Ends joining and the collective in progress when the mesh reports a loss, and joining also when
// this process is asked to stop. The report may come before there is anything to end: it is kept,
// and strikes as soon as there is. Thread: any.
class AbortSwitch {
 public:
  // The meeting of `epoch` is being joined over `links`: from here to the next Arm or Disarm its
  // end shuts them down, whoever owns them. Errors: kResourceExhausted (no descriptors left).
  Status ArmLinks(const std::vector<UniqueFd>& links, Epoch epoch);

  // The meeting is joined: its end aborts `communicator`, which must outlive the next Disarm().
  void ArmCommunicator(Communicator* communicator, Epoch epoch);

  void Disarm();

  // The meeting of `epoch`, and every older one, is over because of `reason`.
  void Trip(Epoch epoch, const Error& reason);

  // The same of the meeting that is armed, or was last.
  void TripNewest(const Error& reason);

  // No meeting is joined any more. What is joined goes on.
  void Stop();

  // Why the meeting of `epoch` cannot be joined; empty: it can.
  std::optional<Error> Reason(Epoch epoch) const;

  // Waits until the meeting of `epoch` is over, and returns why; empty: the deadline has passed.
  std::optional<Error> AwaitReason(Epoch epoch, Deadline deadline) const;

 private:
  std::optional<Error> ReasonLocked(Epoch epoch) const;
  void TripLocked(Epoch epoch, const Error& reason);
  void StrikeLocked();

  mutable std::mutex mutex_;
  mutable std::condition_variable has_struck_;
  Communicator* communicator_ = nullptr;  // all guarded by mutex_
  std::vector<UniqueFd> links_;           // copies: the owner may close its own at any time
  Epoch epoch_;                           // of what is armed
  bool is_stopped_ = false;
  std::optional<Error> lost_reason_;
  Epoch lost_epoch_;
};

}  // namespace lockstep::runtime
