#include "trainer-runtime/capi/library_report.h"

#include <algorithm>
#include <condition_variable>
#include <unistd.h>
#include <utility>

#include "common/contract/status/initial_status.h"

namespace lockstep::runtime {
namespace {

constexpr Duration kPeerWatchPeriod = std::chrono::milliseconds(100);  // as the built-in trainer's

StatusDocument InitialDocument(const WorkerEnvironment& worker) {
  StatusDocument document = InitialStatus(worker);
  document.pid = ::getpid();
  return document;
}

RecoveryCause CauseOf(LossReason reason) {
  switch (reason) {
    case LossReason::kClosed:
    case LossReason::kGone:
      return RecoveryCause::kPeerClosed;
    case LossReason::kSilent:
      return RecoveryCause::kPeerSilent;
    case LossReason::kReplaced:
      return RecoveryCause::kPeerReplaced;
    case LossReason::kMovedOn:
      return RecoveryCause::kCollectiveFailed;
  }
  return RecoveryCause::kCollectiveFailed;
}

}  // namespace

LibraryReport::LibraryReport(const LibraryEnvironment& environment,
                             int processes_per_rank,
                             Logger* logger,
                             std::function<void(const ControlMessage&)> on_control)
    : processes_per_rank_(processes_per_rank),
      board_(InitialDocument(environment.worker)),
      logger_(logger) {
  board_.Record(TimelineEventKind::kProcessStart, SteadyNow());
  if (environment.channel_fd >= 0) {
    reporter_.emplace(environment.channel_fd, &board_, &metrics_, logger, std::move(on_control));
  } else if (environment.closed_fd >= 0) {
    const std::string fd = std::to_string(environment.closed_fd);
    logger->Warn(
        "a parent process closed the descriptor to lockstep-runtime, so this process reports "
        "nothing and cannot be replaced within its pod. A stop also ends the helper processes of "
        "this process, so it may be unable to save",
        {{"LOCKSTEP_CHANNEL_FD", fd},
         {"expected",
          "an open descriptor, as Python's subprocess passes it with pass_fds=[" + fd + "]"}});
  }
}

void LibraryReport::WatchPeers(const Mesh* mesh, std::function<void()> also) {
  peer_watch_ = std::jthread([this, mesh, also = std::move(also)](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any ending;
    std::unique_lock<std::mutex> lock(mutex);
    while (!stop.stop_requested()) {
      std::vector<PeerStatus> peers = mesh->Peers();
      for (PeerStatus& peer : peers) {
        peer.rank *= processes_per_rank_;
      }
      metrics_.SetPeers(CountPeers(peers));
      board_.Update([&](StatusDocument& document) { document.peers = peers; });
      also();
      ending.wait_for(lock, stop, kPeerWatchPeriod, [] { return false; });
    }
  });
}

void LibraryReport::StopWatchingPeers() {
  peer_watch_ = std::jthread();  // asks the thread to stop and waits for it
}

void LibraryReport::RendezvousBegins() {
  newest_step_ = Step();
  board_.SetPhase(Phase::kRendezvous);
  board_.Record(TimelineEventKind::kRendezvousBegin, SteadyNow());
}

void LibraryReport::Joined(Epoch epoch, const GradientReducer& reducer) {
  board_.Update([&](StatusDocument& document) {
    document.epoch = epoch;
    document.backend = reducer.BackendName();
    document.backend_detail = reducer.Detail();
    document.phase = Phase::kTraining;
    document.mismatch.clear();
  });
  board_.Record(TimelineEventKind::kRendezvousEnd, SteadyNow());
  metrics_.SetEpoch(epoch);
  is_first_step_due_ = true;
  TellNow();  // from here on a successor would be met
}

void LibraryReport::PeerLost(const PeerLoss& loss) {
  const TimePoint now = SteadyNow();
  {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    if (!lost_at_.has_value()) {
      lost_at_ = now;
      lost_cause_ = CauseOf(loss.reason);
    }
  }
  const int rank = loss.rank * processes_per_rank_;
  board_.Record(TimelineEventKind::kPeerLost, now, rank);
  logger_->Info(
      "peer lost",
      {{"peer", rank}, {"reason", LossReasonName(loss.reason)}, {"epoch", loss.epoch.value()}});
}

void LibraryReport::Begins(const std::function<void(StatusDocument&)>& change) {
  board_.Update(change);
  TellNow();
}

void LibraryReport::Progressed(const CompletedStep& step,
                               const std::function<void(StatusDocument&)>& change) {
  board_.Update(change);
  newest_step_ = std::max(newest_step_, step.step);
  if (last_step_.has_value() && step.step <= *last_step_) {
    return;  // the same step again: with a better figure, or in another phase
  }
  last_step_ = step.step;
  metrics_.StepCompleted(step);
  if (!std::exchange(is_first_step_due_, false)) {
    return;
  }
  const TimePoint now = SteadyNow();
  board_.Record(TimelineEventKind::kFirstStep, now);
  TellNow();  // how far the program is to go
  const std::lock_guard<std::mutex> lock(loss_mutex_);
  if (lost_at_.has_value()) {
    metrics_.Recovered(lost_cause_, now - *lost_at_);
    lost_at_.reset();
  }
}

void LibraryReport::Differed(const std::string& sentence) {
  board_.Update([&](StatusDocument& document) { document.mismatch = sentence; });
  TellNow();
}

void LibraryReport::Finished() {
  board_.SetPhase(Phase::kSucceeded);
  TellNow();
}

void LibraryReport::TellNow() {
  if (reporter_.has_value()) {
    reporter_->TellNow();
  }
}

void LibraryReport::SayGoodbye() {
  if (reporter_.has_value()) {
    reporter_->SayGoodbye();
  }
}

}  // namespace lockstep::runtime
