#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/kubeclient/api_client/call_observer.h"
#include "operator/kubeclient/api_client/update_queue.h"
#include "operator/kubeclient/kube/reflector.h"
#include "operator/kubeclient/transport/transport.h"

namespace lockstep::control {

// What a WatchLoop drives, whatever it reads. Called on the transport's thread.
class WatchMachine {
 public:
  struct Next {
    TimePoint not_before{};
    kube::Request request;
  };

  virtual ~WatchMachine() = default;
  virtual Next NextRequest(TimePoint now) = 0;
  virtual void OnStatus(int http_status) = 0;
  virtual StreamFlow OnBytes(std::string_view bytes) = 0;
  virtual void OnEnd(const std::optional<kube::Fault>& fault, TimePoint now) = 0;

  // Why the last exchange failed, or was not wholly understood; for logs. Empty: never.
  virtual std::string LastFailure() const = 0;

  // `resume` reads on after OnBytes said kPause; may be called from any thread, at any time.
  virtual void SetResume(std::function<void()> resume) = 0;
};

struct WatchLoopOptions {
  // All outlive the loop.
  Transport* transport = nullptr;    // required
  const Clock* clock = nullptr;      // required
  Logger* logger = nullptr;          // required
  CallObserver* observer = nullptr;  // null: nobody

  // See ReadPace. Choice: nobody misses 10 ms, and a busy server has several events in them.
  Duration read_interval = std::chrono::milliseconds(10);
};

// Sends what a machine wants sent, when it wants it, for ever: waits, streams, waits, ...
class WatchLoop {
 public:
  WatchLoop(const WatchLoopOptions& options, std::shared_ptr<WatchMachine> machine);

  // Ends the stream; no callback of the machine runs when this returns.
  // Thread: any but the transport's.
  ~WatchLoop();

  WatchLoop(const WatchLoop&) = delete;
  WatchLoop& operator=(const WatchLoop&) = delete;

 private:
  class Core;

  std::shared_ptr<Core> core_;  // shared with the transport's callbacks
  Transport* transport_;
};

// Keeps one kube::Reflector running on the transport's thread, from construction to destruction.
// What it learns goes to `deliver`, in order, on that thread.
template <typename T>
class ReflectorDriver {
 public:
  using Updates = std::vector<kube::ObjectUpdate<T>>;

  // Takes updates in. Returns false to stop the reading until `on_room` is called.
  using Deliver = std::function<bool(Updates updates, std::function<void()> on_room)>;

  ReflectorDriver(const WatchLoopOptions& options,
                  kube::ReflectorOptions reflector_options,
                  typename kube::Reflector<T>::Decode decode,
                  uint64_t seed,
                  Deliver deliver)
      : machine_(std::make_shared<Machine>(
            std::move(reflector_options), decode, seed, std::move(deliver))),
        loop_(options, machine_) {}

  // Delivers into a queue whose Message can be made of an ObjectUpdate<T>. `queue` outlives the
  // driver.
  template <typename Message>
  static Deliver Into(UpdateQueue<Message>* queue) {
    return [queue](Updates updates, std::function<void()> on_room) {
      return queue->Push(std::move(updates), std::move(on_room));
    };
  }

  // Whether the first whole state was delivered. Thread: any.
  bool has_synced() const { return machine_->Look().has_synced; }

  // As of kube::Reflector. Thread: any.
  std::string refusal() const { return machine_->Look().refusal; }

  bool is_kind_unknown() const { return machine_->Look().is_kind_unknown; }

  // Thread: any.
  kube::ReflectorCounts counts() const { return machine_->Look().counts; }

 private:
  struct View {
    bool has_synced = false;
    std::string refusal;
    bool is_kind_unknown = false;
    kube::ReflectorCounts counts;
  };

  class Machine final : public WatchMachine {
   public:
    Machine(kube::ReflectorOptions options,
            typename kube::Reflector<T>::Decode decode,
            uint64_t seed,
            Deliver deliver)
        : reflector_(std::move(options), decode, seed), deliver_(std::move(deliver)) {}

    Next NextRequest(TimePoint now) override {
      auto next = reflector_.NextRequest(now);
      return Next{next.not_before, std::move(next.request)};
    }

    void OnStatus(int http_status) override { reflector_.OnStatus(http_status); }

    StreamFlow OnBytes(std::string_view bytes) override {
      Updates updates;
      const bool goes_on = reflector_.OnBytes(bytes, &updates);
      const bool has_room = HandOver(std::move(updates));
      if (!goes_on) {
        return StreamFlow::kStop;
      }
      return has_room ? StreamFlow::kMore : StreamFlow::kPause;
    }

    void OnEnd(const std::optional<kube::Fault>& fault, TimePoint now) override {
      Updates updates;
      reflector_.OnEnd(fault, now, &updates);
      HandOver(std::move(updates));
    }

    std::string LastFailure() const override { return reflector_.last_failure(); }

    void SetResume(std::function<void()> resume) override { resume_ = std::move(resume); }

    View Look() const {
      const std::lock_guard lock(mutex_);
      return view_;
    }

   private:
    bool HandOver(Updates updates) {
      const bool has_room = updates.empty() || deliver_(std::move(updates), resume_);
      const std::lock_guard lock(mutex_);
      view_ = View{reflector_.has_synced(),
                   reflector_.refusal(),
                   reflector_.is_kind_unknown(),
                   reflector_.counts()};
      return has_room;
    }

    kube::Reflector<T> reflector_;
    Deliver deliver_;
    std::function<void()> resume_;
    mutable std::mutex mutex_;
    View view_;  // guarded by mutex_
  };

  std::shared_ptr<Machine> machine_;  // shared with the transport's callbacks
  WatchLoop loop_;                    // last: it ends before what it drives
};

}  // namespace lockstep::control
