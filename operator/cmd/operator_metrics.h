#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"
#include "operator/api/job/training_job.h"
#include "operator/api/queue/training_queue.h"
#include "operator/controller/controller.h"
#include "operator/kubeclient/api_client/call_observer.h"
#include "operator/reconcile/decision.h"

namespace lockstep::control {

// How many there are of everything that the operator keeps in memory.
struct CacheCounts {
  std::size_t jobs = 0;
  std::size_t pods = 0;
  std::size_t foreign_pods = 0;
  std::size_t nodes = 0;
  std::size_t services = 0;
};

// The numbers behind GET /metrics, with the names that users of controller-runtime know where there
// are such. Source: prometheus-cpp's registry and text format.
// Every series is there from the start but those of queues, of which there are as many as somebody
// has written; label sets are closed otherwise, and no label holds a job's name.
// Counters move when the caller says that the fact is durable. Thread: any.
class OperatorMetrics final : public CallObserver {
 public:
  // `host` is the API server's, as rest_client_* name it. `lease` is the name of the lease that the
  // replicas of this operator compete for: it tells operators of one namespace apart.
  OperatorMetrics(const std::string& host, const std::string& lease);
  ~OperatorMetrics() override;
  OperatorMetrics(const OperatorMetrics&) = delete;
  OperatorMetrics& operator=(const OperatorMetrics&) = delete;

  void OnCall(const CallRecord& record) override;

  void TurnDone(const TurnReport& turn);
  void SetQueue(std::size_t depth, int64_t adds, int64_t retries);
  void SetCache(const CacheCounts& counts);
  void SetUnreadable(std::size_t jobs, std::size_t queues);

  // Fields of ours that the API server does not know, of "TrainingJob" or "TrainingQueue".
  void SetMissingFields(const std::string& kind, std::size_t count);

  // The operator's clock less the API server's.
  void SetClockOffset(Duration offset);

  void SetLeading(bool is_leading);
  void SetEventsDropped(int64_t count);

  // A pod did not take the operator's key.
  void StatusRefused();

  // Jobs by the word that tables show for their state (StateWord).
  void SetJobs(const std::vector<std::string_view>& states);

  // How queues stand at `now`, by their names.
  void SetQueues(const std::map<std::string, QueueStatus>& queues, WallTime now);

  // Nodes that jobs avoid for a while.
  void SetSuspectNodes(std::size_t count);

  // Rounds of scheduling so far.
  void SetRounds(int64_t count);

  void Count(const MetricDelta& delta);

  // One of them took so long.
  void RoundDone(Duration taken);

  // A gang of the queue got its places so long after it began to wait; all its pods ran so long
  // after that; a gang that had been broken ran again so long after that was noticed, for which
  // `cause` is to blame: one of RestartCauses().
  void GangPlaced(const std::string& queue, Duration waited);
  void GangLaunched(Duration taken);
  void GangRecovered(const std::string& cause, Duration taken);

  // A gang that had asked autoscalers for room, and whose ask was open still, got its places so
  // long after it asked.
  void CapacityCame(const std::string& queue, ProvisioningClass ask_class, Duration waited);

  // The page in Prometheus' text format, version 0.0.4.
  std::string RenderText();

 private:
  struct Families;

  void AddCapacitySeries(const std::string& queue);

  std::unique_ptr<Families> families_;
};

}  // namespace lockstep::control
