#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/time.h"

namespace lockstep::control {

// What the transport's thread has for the thread that decides, in order, bounded by back-pressure:
// a producer that is told "full" stops reading from its socket until there is room, and nothing is
// ever dropped. A producer may go over the capacity by what one read brought.
template <typename Message>
class UpdateQueue {
 public:
  // Called once, on the taker's thread, when there is room again; must not block.
  using OnRoom = std::function<void()>;

  explicit UpdateQueue(std::size_t capacity) : capacity_(capacity) {}

  UpdateQueue(const UpdateQueue&) = delete;
  UpdateQueue& operator=(const UpdateQueue&) = delete;

  // Adds all of them, converted to Message, and wakes the taker. Returns whether there is room for
  // more; if not, `on_room` is kept. Thread: any.
  template <typename Update>
  bool Push(std::vector<Update> updates, OnRoom on_room) {
    bool has_room = true;
    {
      const std::lock_guard lock(mutex_);
      for (Update& update : updates) {
        messages_.emplace_back(std::move(update));
      }
      has_room = messages_.size() < capacity_;
      if (!has_room) {
        waiting_.push_back(std::move(on_room));
      }
    }
    changed_.notify_one();  // without the lock, which the taker wants at once
    return has_room;
  }

  // Adds one message that cannot wait for room: a lost lease, a stop. Thread: any.
  void Push(Message message) {
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back(std::move(message));
    }
    changed_.notify_one();
  }

  // Waits for a message, Wake, or the deadline; then takes everything there is. Thread: one.
  std::vector<Message> TakeAll(Deadline deadline) {
    std::vector<Message> taken;
    std::vector<OnRoom> waiting;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(
          lock, deadline.when(), [this] { return is_woken_ || !messages_.empty(); });
      is_woken_ = false;
      taken.swap(messages_);
      waiting.swap(waiting_);
    }
    for (const OnRoom& on_room : waiting) {
      on_room();
    }
    return taken;
  }

  // Ends the present or next TakeAll. Thread: any.
  void Wake() {
    {
      const std::lock_guard lock(mutex_);
      is_woken_ = true;
    }
    changed_.notify_one();
  }

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Message> messages_;
  std::vector<OnRoom> waiting_;
  bool is_woken_ = false;
};

}  // namespace lockstep::control
