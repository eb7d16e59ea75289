#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/kubeclient/kube/event_recorder.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {

struct EventSenderOptions {
  kube::EventRecorderOptions recorder;
  kube::ApiCaller* api = nullptr;  // required; outlives the sender
  const Clock* clock = nullptr;    // required; outlives the sender
  Logger* logger = nullptr;        // required; outlives the sender
  std::size_t waiting_max = 1000;  // source: client-go's queue; more are dropped and counted
};

// Writes Events on a thread of its own, so that no turn ever waits for one.
class EventSender {
 public:
  explicit EventSender(EventSenderOptions options);

  // Sends what waits, for at most a moment, and ends the thread.
  ~EventSender();

  EventSender(const EventSender&) = delete;
  EventSender& operator=(const EventSender&) = delete;

  // Thread: any. Never blocks.
  void Send(kube::EventSubject subject, kube::EventText text);

  // How many were dropped because too many waited. Thread: any.
  int64_t dropped() const;

 private:
  struct Waiting {
    kube::EventSubject subject;
    kube::EventText text;
    TimePoint at{};
    WallTime wall_at{};
  };

  void Run(const std::stop_token& stop);
  std::vector<Waiting> Take(const std::stop_token& stop);
  void Deliver(std::vector<kube::EventRecorder::Outgoing> batch);

  EventSenderOptions options_;
  kube::EventRecorder recorder_;  // of the thread
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Waiting> waiting_;  // guarded by mutex_
  int64_t dropped_ = 0;          // guarded by mutex_
  std::jthread thread_;          // last: it uses everything above
};

}  // namespace lockstep::control
