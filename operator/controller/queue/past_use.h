#pragma once

#include <chrono>
#include <map>
#include <string>

#include "common/base/time.h"
#include "common/json/json.h"
#include "operator/api/queue/training_queue.h"
#include "operator/scheduler/queue/half_life.h"
#include "operator/scheduler/queue/queue_tree.h"

namespace lockstep::control {

// What queues have held of late, devices and cores, by a half-life; as `pastUse` and `pastUseAt` of
// their statuses keep it from one leader to the next. While nobody leads it decays as if nothing
// had been held.
// Thread: one.
class PastUse {
 public:
  // 0: none is kept.
  explicit PastUse(std::chrono::milliseconds half_life = {}) : half_life_(half_life) {}

  bool is_kept() const { return half_life_.count() > 0; }

  // We lead from now on: what queues of these statuses say counts. What cannot be read there counts
  // as nothing.
  void Lead(TimePoint now, WallTime wall_now, const std::map<std::string, Json>& statuses);

  // Queues hold these amounts from now on. What was told before has been held until now. What a
  // queue has held that is not told of any more is forgotten.
  void Note(TimePoint now, std::map<std::string, QueueAmounts> used);

  // Whether some queue has held anything of late.
  bool is_decaying() const { return !means_.empty(); }

  // For rounds; queues that have held nothing are left out.
  PastUseByQueue Means() const;

  // `pastUse` for the queue's status.
  Json StatusOf(const std::string& queue) const;

 private:
  std::chrono::milliseconds half_life_;
  TimePoint noted_at_{};
  std::map<std::string, QueueAmounts> used_;
  std::map<std::string, std::map<std::string, DecayingMean>> means_;  // by queue and resource
};

}  // namespace lockstep::control
