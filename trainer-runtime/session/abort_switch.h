#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "common/base/error.h"
#include "common/base/strong_id.h"
#include "trainer-runtime/collectives/communicator.h"

namespace lockstep::runtime {

// Ends the collective in progress when the mesh reports a loss. The report may come before the
// training thread has built its communicator: it is kept, and strikes as soon as one is set.
// Thread: any.
class AbortSwitch {
 public:
  // Makes `communicator` (null: none) the one to abort. It must outlive the next Set().
  void Set(Communicator* communicator, Epoch epoch);

  // The meeting of `epoch`, and every older one, is over because of `reason`.
  void Trip(Epoch epoch, const Error& reason);

 private:
  std::mutex mutex_;
  Communicator* communicator_ = nullptr;  // all guarded by mutex_
  Epoch epoch_;
  std::unique_ptr<const Error> lost_reason_;
  Epoch lost_epoch_;
};

}  // namespace lockstep::runtime
