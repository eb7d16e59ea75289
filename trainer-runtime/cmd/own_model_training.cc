#include "trainer-runtime/cmd/own_model_training.h"

#include <memory>
#include <optional>
#include <utility>

#include "trainer-runtime/collectives/reduce/communicator_reducer.h"
#include "trainer-runtime/session/recovery_loop.h"
#include "trainer-runtime/strategy/rank_control.h"

namespace lockstep::runtime {
namespace {

// A few hundred bytes from every rank, all of whom wait for nothing else. Choice.
constexpr Duration kExchangeTimeout = std::chrono::seconds(60);

}  // namespace

Result<TrainerVerdict> TrainAlone(Trainer* trainer,
                                  TrainingObserver* observer,
                                  Epoch epoch,
                                  const std::atomic<bool>& stop_requested) {
  CommunicatorOptions options;
  options.epoch = epoch;
  const Deadline deadline = Deadline::After(SteadyNow(), kExchangeTimeout);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> alone,
                            MakeCommunicator(std::move(options), deadline));
  CommunicatorReducer reducer(alone.get());
  observer->TrainsAlone();
  observer->GradientsMeet(reducer);
  RankControl control(alone.get());
  return trainer->RunMeeting(std::nullopt, {&control, &reducer}, stop_requested);
}

Result<std::vector<ModelReport>> MeetModels(Session* session,
                                            TrainingObserver* observer,
                                            Trainer* trainer) {
  const ModelReport mine = ReportOf(trainer);
  std::vector<ModelReport> by_rank;
  MeetingSteps steps;
  steps.held = [trainer] { return HeldState{true, trainer->last_applied()}; };
  steps.on_waiting = [observer] { observer->RendezvousBegins(); };
  steps.prepare = [](const Meeting& /*meeting*/) { return OkStatus(); };
  steps.work = [&](const JoinedMeeting& meeting) -> Status {
    RankControl control(meeting.communicator);
    const Deadline deadline = Deadline::After(SteadyNow(), kExchangeTimeout);
    LOCKSTEP_ASSIGN_OR_RETURN(by_rank, ExchangeReports(mine, &control, deadline));
    // Whoever passes knows that all have all reports; one that fails here has them, too.
    LOCKSTEP_RETURN_IF_ERROR(control.Barrier(deadline));
    session->Finish();
    return OkStatus();
  };
  steps.on_broken = [observer](Epoch epoch, const Error& error) {
    observer->MeetingBroke(epoch, error);
  };
  LOCKSTEP_RETURN_IF_ERROR(RepeatMeetings(session, steps));
  return by_rank;
}

}  // namespace lockstep::runtime
