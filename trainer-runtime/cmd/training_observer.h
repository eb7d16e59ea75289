#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/base/log.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/nccl/nccl_agreement.h"
#include "trainer-runtime/collectives/reduce/gradient_reducer.h"
#include "trainer-runtime/data/sample_ledger.h"
#include "trainer-runtime/rendezvous/mesh.h"
#include "trainer-runtime/telemetry/metrics.h"
#include "trainer-runtime/telemetry/progress_log.h"
#include "trainer-runtime/telemetry/status_board.h"
#include "trainer-runtime/train/own_models.h"
#include "trainer-runtime/train/trainer.h"

namespace lockstep::runtime {

// Tells the world what the training process does: status board, metrics and log lines from one
// place, so that they never contradict each other. `board`, `metrics` and `logger` outlive it.
// Thread: the training thread, but PeerLost from any.
class TrainingObserver {
 public:
  TrainingObserver(StatusBoard* board, Metrics* metrics, Logger* logger, int rank);

  // Copies the mesh's view of the peers to the board and the metrics, several times a second, until
  // StopWatchingPeers or destruction. `mesh` outlives that.
  void WatchPeers(const Mesh* mesh);
  void StopWatchingPeers();

  void EngineReady(const std::string& description, int replica_count);
  void LengthKnown(int64_t step_count_total);
  void RendezvousBegins();
  void RendezvousEnds(const Meeting& meeting);
  // From here on steps are this rank's alone.
  void TrainsAlone();
  void GradientsMeet(const GradientReducer& reducer);
  // After GradientsMeet, where the job would have had NCCL for the gradients of its GPUs.
  void NcclIsMissed(const NcclObstacle& obstacle);
  // After GradientsMeet, where NCCL goes by TCP beside these cards of the node.
  void CardsAreUnused(const std::string& cards);
  void PeerLost(const PeerLoss& loss);
  void MeetingBroke(Epoch epoch, const Error& error);
  void Finished(const std::optional<EvaluationResult>& result, const SampleTotals& totals);
  // After Finished, of a rank that has trained a model of its own: what all have come to.
  void ModelsMet(const ModelsTogether& all);
  void SamplesCounted(const SampleTotals& totals);
  // A data epoch is over whose steps this rank has taken a share of. Its seconds are added: since
  // the one before, or since this rank held a state.
  void DataEpochOver(DataEpochResult result);
  void NotSaved(Step step, const Error& error);
  void Stopped();
  void Failed();

  // What the trainer calls while it runs.
  TrainerHooks Hooks();

 private:
  void OnPhase(TrainerPhase phase);
  void OnStep(const StepReport& report);
  void AddToDataEpoch(const StepReport& report, TimePoint now);
  void CloseDataEpoch();
  void AddToHistory(const DataEpochResult& result);
  void OnCheckpoint(const SaveOutcome& outcome);
  void ShowPeers(const Mesh& mesh);
  void LogProgress(const std::optional<TrainingProgress>& progress);

  StatusBoard* board_;
  Metrics* metrics_;
  Logger* logger_;
  int rank_;
  // Of each step's samples, which part is this rank's.
  int share_index_ = 0;
  int share_count_ = 1;
  ProgressLog progress_log_;
  bool is_first_step_due_ = false;
  double samples_per_second_ = 0;
  int64_t samples_consumed_ = 0;  // up to the last step that was told
  TimePoint last_step_at_;
  // The running data epoch as of its newest step; empty before the first.
  std::optional<DataEpochResult> data_epoch_;
  int64_t samples_of_others_ = 0;  // of that epoch, used before this process held the state
  TimePoint data_epoch_began_at_;
  std::atomic<bool> has_concluded_{false};  // written by the training thread, read by the mesh's

  std::mutex loss_mutex_;
  std::optional<TimePoint> lost_at_;  // guarded by loss_mutex_; set until training goes on
  RecoveryCause lost_cause_ = RecoveryCause::kCollectiveFailed;  // guarded by loss_mutex_

  std::mutex peer_mutex_;
  std::condition_variable_any peer_news_;
  bool has_peer_news_ = false;  // guarded by peer_mutex_
  std::jthread peer_watch_;     // last: ends before what it uses
};

}  // namespace lockstep::runtime
