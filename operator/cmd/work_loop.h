#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/cmd/clock_watch.h"
#include "operator/cmd/key_watch.h"
#include "operator/cmd/operator_metrics.h"
#include "operator/cmd/right_of_way.h"
#include "operator/cmd/served_schema.h"
#include "operator/controller/control_loop.h"
#include "operator/kubeclient/api_client/update_queue.h"
#include "operator/kubeclient/kube/event_recorder.h"
#include "operator/kubeclient/transport/server_clock.h"
#include "operator/pod_client/status_poller.h"

namespace lockstep::control {

// This process leads now.
struct LeadershipWon {};

// It does not any more.
struct LeadershipLost {};

// The answers to WorkLoopOptions::look_for_others.
struct OthersSeen {
  int64_t look = 0;
  std::vector<kube::CallResult> answers;
};

// The answer to WorkLoopOptions::look_around: the operator's key, empty where it is not there.
struct MasterKeySeen {
  int64_t look = 0;
  Result<std::string> found;
};

// The other answer to it: whether this process may read what it follows.
struct RightsSeen {
  Status judgement;
};

// Now and then beside them: our kinds as the API server knows them.
struct SchemaSeen {
  Result<std::vector<ServedKind>> kinds;
};

// In which version PodGroups are served, where that is news.
struct PodGroupsSeen {
  kube::PodGroupsFound found;
};

// Checks of whether this process is ready that the loop knows about.
inline constexpr const char* kCanLeadCheck = "can-lead";
inline constexpr const char* kRightsCheck = "rights";
inline constexpr const char* kSchemaCheck = "schema";
inline constexpr const char* kClockCheck = "clock";
inline constexpr const char* kStatusCheck = "status-writes";

using WorkMessage = std::variant<WatchUpdate,
                                 kube::CallsAnswered,
                                 StatusAnswer,
                                 LeadershipWon,
                                 LeadershipLost,
                                 OthersSeen,
                                 MasterKeySeen,
                                 RightsSeen,
                                 SchemaSeen,
                                 PodGroupsSeen>;
using WorkQueueOfUpdates = UpdateQueue<WorkMessage>;

struct WorkLoopOptions {
  // All outlive the loop.
  WorkQueueOfUpdates* queue = nullptr;
  ControlLoop* loop = nullptr;
  StatusPoller* poller = nullptr;
  OperatorMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  const ServerClock* server_clock = nullptr;
  Logger* logger = nullptr;

  // Whether every watch has delivered its first state. Thread: the loop's.
  std::function<bool()> has_synced;
  // Follows PodGroups as they are served. Thread: the loop's.
  std::function<void(const kube::PodGroupsFound& found)> follow_pod_groups;
  // Begins to look for other releases at work on the same jobs; OthersSeen with this number follows
  // once. Thread: the loop's.
  std::function<void(int64_t look)> look_for_others;
  // What those answers come to. Thread: the loop's.
  std::function<Result<OthersFinding>(const std::vector<kube::CallResult>& answers)> judge_others;
  // Tells our lease, and whoever asks whether we are ready, what stands with other releases.
  // Thread: the loop's.
  std::function<void(bool gives_way, bool is_superfluous)> tell_way;
  // How long a write that was sent may still take effect.
  Duration writes_end{};
  // What else a leader needs. Thread: the loop's.
  std::function<Result<std::string>()> find_master_key;
  // Begins to look whether that could be had, or is still there, and what this process may do;
  // MasterKeySeen with this number follows once, RightsSeen, and now and then SchemaSeen.
  // Thread: the loop's.
  std::function<void(int64_t look)> look_around;
  // What a leader does when it sees its key: puts it back where it is gone (`found` is empty), and
  // says what is wrong where it is another. Thread: the loop's.
  std::function<Status(const std::string& found, const std::string& held)> keep_master_key;
  // Tells whoever asks whether we are ready what that check finds wrong; empty: nothing, as far as
  // is known. Thread: the loop's.
  std::function<void(const std::string& check, const std::string& why)> tell_trouble;
  // Writes an Event about this operator. Thread: the loop's.
  std::function<void(kube::EventText event)> send_event;
  // Leadership was lost, and no turn of its time goes on. Null: it never is. Thread: the loop's.
  std::function<void()> on_stand_by;
};

// The controller's thread: takes what watches and replies say, leads when it may, and gives jobs
// their turns. It waits for messages alone.
class WorkLoop {
 public:
  explicit WorkLoop(WorkLoopOptions options);

  // Begins no more turns, and ends the thread when those under way are over, or after a while.
  ~WorkLoop();

  WorkLoop(const WorkLoop&) = delete;
  WorkLoop& operator=(const WorkLoop&) = delete;

  // When the thread last came by. Thread: any.
  TimePoint last_turn() const { return TimePoint(Duration(last_turn_ns_.load())); }

 private:
  void Run(const std::stop_token& stop);
  void Turn();
  void TakeIn(TimePoint until);
  void TakeIn(WorkMessage message);
  void TakeTurns();
  void EndTurns();
  void Poll();
  void Measure();
  void LookForOthers();
  void SettleWay();

  // Not while it tries to lead, which looks at the key as well.
  bool MayLookAround() const { return !right_.may_work() || options_.loop->is_leading(); }

  void LookAround();
  Status JudgeKey(const Result<std::string>& found);
  void SettleRights(const Status& judgement);
  void SettleKey();
  void SettleSchema(const Result<std::vector<ServedKind>>& kinds);
  void SettleClock();
  void SettleStatusWrites();
  bool Tell(const std::string& check, const std::string& why);
  void TryToLead();

  WorkLoopOptions options_;
  RightOfWay right_;
  std::pair<bool, bool> told_way_{};  // by tell_way, last
  TimePoint next_try_{};
  KeyWatch key_;
  ClockWatch clock_watch_;
  std::string told_why_;                     // the right of way's, as last logged
  std::string held_key_;                     // the operator's, while this process leads
  std::map<std::string, std::string> told_;  // by tell_trouble, last
  std::string unread_schema_;                // why, as last logged
  bool clock_was_off_ = false;               // as last logged
  std::string failed_try_;  // why this replica did not come to lead, as last logged
  TimePoint next_measure_{};
  std::atomic<Duration::rep> last_turn_ns_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace lockstep::control
