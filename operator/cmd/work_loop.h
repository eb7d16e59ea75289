#pragma once

#include <atomic>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/api_client/update_queue.h"
#include "operator/cmd/operator_metrics.h"
#include "operator/controller/control_loop.h"
#include "operator/pod_client/status_poller.h"

namespace lockstep::control {

// This process leads now.
struct LeadershipWon {};

// It does not any more.
struct LeadershipLost {};

using WorkMessage = std::variant<WatchUpdate, StatusAnswer, LeadershipWon, LeadershipLost>;
using WorkQueueOfUpdates = UpdateQueue<WorkMessage>;

struct WorkLoopOptions {
  // All outlive the loop.
  WorkQueueOfUpdates* queue = nullptr;
  ControlLoop* loop = nullptr;
  StatusPoller* poller = nullptr;
  OperatorMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  Logger* logger = nullptr;

  // Whether every watch has delivered its first state. Thread: the loop's.
  std::function<bool()> has_synced;
  // Reads or makes the master key, once this process leads. Thread: the loop's.
  std::function<Result<std::string>()> master_key;
  // Leadership was lost, and no pass of its time goes on. Null: it never is. Thread: the loop's.
  std::function<void()> on_stand_by;
};

// The controller's thread: takes what the watches say, leads when it may, and makes passes.
class WorkLoop {
 public:
  explicit WorkLoop(WorkLoopOptions options);

  // Ends the thread after the pass under way.
  ~WorkLoop();

  WorkLoop(const WorkLoop&) = delete;
  WorkLoop& operator=(const WorkLoop&) = delete;

  // When the thread last came by. Thread: any.
  TimePoint last_turn() const { return TimePoint(Duration(last_turn_ns_.load())); }

 private:
  void Run(const std::stop_token& stop);
  void Turn();
  void TakeIn(TimePoint until);
  void TakeIn(const WorkMessage& message);
  void MakePasses();
  void Poll();
  void Measure();
  void TryToLead();

  WorkLoopOptions options_;
  bool may_lead_ = false;
  TimePoint next_try_{};
  TimePoint next_measure_{};
  std::atomic<Duration::rep> last_turn_ns_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace lockstep::control
