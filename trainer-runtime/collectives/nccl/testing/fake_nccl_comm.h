#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "trainer-runtime/collectives/nccl/nccl_api.h"
#include "trainer-runtime/collectives/nccl/testing/fake_nccl_world.h"

namespace lockstep::runtime::nccl {

// One rank's end of a communicator, in the double.
struct Comm {
  int rank = 0;
  int world_size = 1;
  std::unique_ptr<FakeNcclWorld> world;  // of the joining thread until state is kSuccess
  std::atomic<Result> state{kInProgress};
  std::string words;  // written before a failed state
  std::atomic<bool> is_stopped{false};
  void* context = nullptr;  // of the device that it was made on
  // Ends of one communicator in this process: a thread that calls several has to group them.
  std::atomic<bool> has_siblings{false};
  int call_count = 0;
  std::mutex mutex;
  std::condition_variable news;
  int kernel_count = 0;  // in a stream; guarded by mutex
  std::thread joining;

  void Fail(Result code, const char* what) {
    words = what;
    state.store(code);
  }

  // Returns when nothing of the communicator runs any more.
  void Stop() {
    is_stopped.store(true);
    if (joining.joinable()) {
      joining.join();
    }
    std::unique_lock lock(mutex);
    news.wait(lock, [this] { return kernel_count == 0; });
  }
};

}  // namespace lockstep::runtime::nccl
