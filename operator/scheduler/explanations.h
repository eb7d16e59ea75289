#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/scheduler/placement/reservation_book.h"
#include "operator/scheduler/round.h"

namespace lockstep::control {

// What a gang waits for, before it is put into words.
enum class Obstacle { kPriorityClass, kQueueName, kNamespace, kTurn, kQuota, kRoom };

struct Wait {
  const GangRecord* gang = nullptr;
  Obstacle obstacle = Obstacle::kRoom;
  std::string text{};  // of kRoom and kQuota: what there is to add; else all
  bool reached_limit = false;
  bool is_first = false;     // of its queue, and is told when it starts
  bool is_left_out = false;  // whether others might go for it is not looked at in this round
};

// Why the gang cannot start in its queue at all; empty: it is served there.
std::optional<Wait> ProblemOfQueue(const ClusterState& state, const GangRecord& gang);

// Puts into words what gangs wait for, by the state at the end of a round: what others were granted
// meanwhile is not free any more.
class Explanations {
 public:
  // All outlive it.
  Explanations(const Statement* statement,
               ReservationBook* reservations,
               const RoundOptions& options)
      : statement_(*statement),
        state_(statement->state()),
        reservations_(*reservations),
        options_(options) {}

  // Adds to the result what is new, and some of those that wait for something else now, or whose
  // figures may have changed: those first that were looked at longest ago. `news`: the state's
  // before the round.
  void Explain(const std::vector<Wait>& waits, uint64_t news, RoundResult* result);

 private:
  void FindWhoMayNotAsk(const std::vector<Wait>& waits);
  bool IsOver(const std::optional<WallTime>& start) const;
  void LookWhenOver(const Unschedulable& told, RoundResult* result) const;
  Unschedulable InWords(const Wait& wait);

  const Statement& statement_;
  const ClusterState& state_;
  ReservationBook& reservations_;
  const RoundOptions& options_;
  std::map<std::string, std::string> may_not_ask_;  // gangs that lack room, with why
};

// Whether the gang asks autoscalers for room.
bool Asks(const GangRequest& request);

// When time alone may change an answer.
void LookAgainAt(std::optional<WallTime> when, RoundResult* result);

}  // namespace lockstep::control
