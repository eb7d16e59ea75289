#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/json/json.h"
#include "operator/api/queue/training_queue.h"

namespace lockstep::control {

// By resource, as a status says it: a decimal with three digits at most.
using UsedHours = std::map<std::string, std::string>;

// What `usedHours` of the status says; what is not a text there is left out.
UsedHours UsedHoursIn(const Json& status);

// How much gangs of each queue have held for how long, as `usedHours` of the queues' statuses keeps
// it from one leader to the next: amounts times hours, of devices and cores.
//
// The stored status is what counts; here is only what has come since. What was tried to be written
// is taken off when the stored status is seen to say it, so that an answer that is lost counts
// nothing twice. Whoever leads no more forgets what was not stored.
// Thread: one.
class QueueHours {
 public:
  // Queues hold these amounts from now on. What was told before has been held until now.
  void Note(TimePoint now, std::map<std::string, QueueAmounts> used);

  // What the queue's status is to say where it is `stored` now, rounded down. What is not a number
  // there counts as none.
  UsedHours Total(const std::string& queue, const Json& stored);

  // That is about to be written.
  void NoteWrite(const std::string& queue, const Json& stored, const UsedHours& total);

  // Whether anything is held, so that the hours grow.
  bool is_counting() const { return is_counting_; }

  void Clear() { *this = QueueHours(); }

 private:
  using Thousandths = std::map<std::string, int64_t>;  // of hours, by resource

  struct Write {
    UsedHours total;
    Thousandths added;
  };

  struct Row {
    std::map<std::string, int64_t> held;  // amounts times milliseconds, not stored yet
    std::vector<Write> writes;            // since the stored status was seen to change
  };

  static Thousandths Pending(const Row& row);
  static void Settle(const Json& stored, Row* row);

  std::map<std::string, QueueAmounts> used_;
  TimePoint noted_at_{};
  bool is_counting_ = false;
  std::map<std::string, Row> rows_;  // by queue
};

}  // namespace lockstep::control
