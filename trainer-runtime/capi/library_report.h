#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/contract/status/control_message.h"
#include "trainer-runtime/capi/library_environment.h"
#include "trainer-runtime/collectives/reduce/gradient_reducer.h"
#include "trainer-runtime/rendezvous/mesh.h"
#include "trainer-runtime/telemetry/metrics.h"
#include "trainer-runtime/telemetry/process_reporter.h"
#include "trainer-runtime/telemetry/status_board.h"

namespace lockstep::runtime {

// What the pod's status and metrics show of a program's session, told to its supervisor; to nobody
// where there is none. Thread: that of the session's calls, but PeerLost from any.
class LibraryReport {
 public:
  // Rank r of the mesh stands for the job's ranks from r * `processes_per_rank` on, which are those
  // that are shown. `logger` outlives it. `on_control` is called on a thread of its own with what
  // the operator says.
  LibraryReport(const LibraryEnvironment& environment,
                int processes_per_rank,
                Logger* logger,
                std::function<void(const ControlMessage&)> on_control);

  // Shows the mesh's view of the peers, and calls `also`, ten times a second until
  // StopWatchingPeers. `mesh` outlives that.
  void WatchPeers(const Mesh* mesh, std::function<void()> also);
  void StopWatchingPeers();

  void RendezvousBegins();
  // `reducer` tells how the meeting's sums travel.
  void Joined(Epoch epoch, const GradientReducer& reducer);
  void PeerLost(const PeerLoss& loss);

  void SetPhase(Phase phase) { board_.SetPhase(phase); }

  // The newest that was reported since the last meeting was called; 0: none.
  Step newest_step() const { return newest_step_; }

  // `change` writes into the document where the program goes on from, and how far it is to go. Told
  // at once, as below.
  void Begins(const std::function<void(StatusDocument&)>& change);

  // `change` writes the figures of a step into the document.
  void Progressed(const CompletedStep& step, const std::function<void(StatusDocument&)>& change);

  // Ranks called different things, as `sentence` says. Until a meeting is joined, an end of this
  // process with 0 is no success. Told at once, as below.
  void Differed(const std::string& sentence);

  // All work is done. Told at once: the process may end at any moment.
  void Finished();

  // The process goes on without a session.
  void SayGoodbye();

 private:
  void TellNow();

  const int processes_per_rank_;
  StatusBoard board_;
  Metrics metrics_;
  Logger* logger_;
  std::optional<Step> last_step_;
  Step newest_step_;
  bool is_first_step_due_ = false;
  std::mutex loss_mutex_;
  std::optional<TimePoint> lost_at_;  // guarded by loss_mutex_; set until a step is reported
  RecoveryCause lost_cause_ = RecoveryCause::kCollectiveFailed;  // guarded by loss_mutex_
  std::optional<ProcessReporter> reporter_;
  std::jthread peer_watch_;  // last: ends before what it uses
};

}  // namespace lockstep::runtime
