#include "operator/reconcile/lifecycle/evict_gang.h"

#include <string>

#include "operator/capacity/capacity_sources.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/recovery/gang_restart.h"

namespace lockstep::control {
namespace {

// Processes hear of it at once and by our signature; the kubelet's signal may be late.
void TellRanks(const GangView& view, DecisionBuilder* builder) {
  for (const Member& member : view.members) {
    if (!member.rank.has_value() || member.state != MemberState::kRunning) {
      continue;
    }
    ControlMessage message;
    message.job_uid = builder->job().metadata.uid;
    message.attempt = builder->status().attempt;
    message.counter = ++builder->mutable_recovery()->control_counter;
    message.kind = ControlKind::kStop;
    builder->Do(SendControl{member.pod_name, message});
  }
}

// The gang goes for what is not its own fault, of which `message` tells. Its ranks are told to save
// what they have, and its pods get their whole grace; attempt and epoch rise and the placement is
// given up, which makes every pod stale. No restart is counted and no budget spent: the job waits
// for its turn as before, and goes on from its checkpoint. Precondition: it has its places.
void SendGangAway(const GangView& view, const std::string& message, DecisionBuilder* builder) {
  TellRanks(view, builder);
  GiveUpGang(builder);
  WaitingStatus* const waiting = builder->mutable_waiting();
  ++waiting->preemptions;
  waiting->preempted_at = builder->now();
  const ConditionChange change = {
      ConditionType::kScheduled, false, std::string(kReasonPreempted), message};
  builder->Set(change, EventType::kWarning);
  for (const ConditionType activity : {ConditionType::kRunning, ConditionType::kRestarting}) {
    if (IsTrue(builder->status(), activity)) {
      builder->SetQuietly({activity, false, change.reason, change.message});
    }
  }
}

}  // namespace

std::string DescribeOrder(const EvictionOrder& order) {
  return order.is_reclaim ? "preempted by " + order.beneficiary + ", whose queue " + order.queue +
                                " takes back what other queues borrowed"
                          : "preempted by " + order.beneficiary + " of priority " +
                                std::to_string(order.priority);
}

bool EvictIfAsked(const GangView& view, DecisionBuilder* builder) {
  const std::string queue = QueueOf(builder->spec(), builder->job().status);
  if (const auto& order = builder->observed().eviction) {
    SendGangAway(view, DescribeOrder(*order), builder);
    builder->Count(Metric::kPreemptions, order->is_reclaim ? "borrowed" : "priority", queue);
    return true;
  }
  const std::string why = LoseCapacity(builder);
  if (why.empty()) {
    return false;
  }
  SendGangAway(view, why, builder);
  builder->Count(Metric::kPreemptions, "kueue", queue);
  return true;
}

}  // namespace lockstep::control
