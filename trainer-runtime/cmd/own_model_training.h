#pragma once

#include <atomic>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "trainer-runtime/cmd/training_observer.h"
#include "trainer-runtime/session/session.h"
#include "trainer-runtime/train/own_models.h"
#include "trainer-runtime/train/trainer.h"

namespace lockstep::runtime {

// How a rank takes part in a job of a model for each rank. It trains without the others, so that
// nothing that becomes of them reaches it; only then it meets them. Nobody ends before all are
// trained: a rank that is lost late is replaced alone, as one that is lost early.

// How long a rank that is done waits for the others: for as long as the slowest trains. Those that
// hang or never come are the operator's to find, and the job's deadline ends the wait. Choice.
inline constexpr Duration kOtherModelsTimeout = std::chrono::hours(24 * 365);

// Trains this rank's model to its end, a stop or an error. Errors: those of Trainer::RunMeeting.
// Thread: the training thread.
Result<TrainerVerdict> TrainAlone(Trainer* trainer,
                                  TrainingObserver* observer,
                                  Epoch epoch,
                                  const std::atomic<bool>& stop_requested);

// Waits until all ranks have trained their models, and returns what each came to, by rank. Empty
// where the others had finished before this rank, which was replaced, was back. Errors: those of
// RepeatMeetings. Thread: the training thread.
Result<std::vector<ModelReport>> MeetModels(Session* session,
                                            TrainingObserver* observer,
                                            Trainer* trainer);

}  // namespace lockstep::runtime
