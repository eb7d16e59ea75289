#include "trainer-runtime/train/ending.h"

#include <csignal>

#include "common/contract/status/exit_code.h"

namespace lockstep::runtime {
namespace {

constexpr int kExitAskedToStop = kExitSignalBase + SIGTERM;

int ExitCodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
    case ErrorCode::kMismatch:
      return kExitUserError;
    case ErrorCode::kAlreadyExists:  // a port; of a folder it is AsOwnFault's
      return kExitPortTaken;
    case ErrorCode::kStale:
      return kExitSuperseded;
    case ErrorCode::kInternal:
    case ErrorCode::kIo:  // of this machine: no word about the peers
    case ErrorCode::kResourceExhausted:
      return kExitInternal;
    default:
      return kExitRetryable;
  }
}

}  // namespace

Ending EndOf(TrainerVerdict verdict, const VerdictFacts& facts) {
  switch (verdict) {
    case TrainerVerdict::kFinished:
      if (!facts.has_trained_to_the_end) {
        return {EndingKind::kStopped, kExitSuccess, "the other ranks had finished the training"};
      }
      return {EndingKind::kFinished, kExitSuccess, "training finished"};
    case TrainerVerdict::kStopped:
      return {EndingKind::kStopped,
              kExitPreempted,
              facts.keeps_checkpoints ? "stopped on request after a checkpoint"
                                      : "stopped on request; this job keeps no checkpoints"};
    case TrainerVerdict::kStoppedUnsaved:
      return {EndingKind::kStopped, kExitAskedToStop, "stopped on request; " + facts.trouble};
    case TrainerVerdict::kNotSaved:
      return {EndingKind::kFailed, kExitNotSaved, facts.trouble};
    case TrainerVerdict::kDiverged:
      return {EndingKind::kFailed, kExitDiverged, facts.trouble};
    case TrainerVerdict::kInexact:
      return {EndingKind::kFailed, kExitInexact, facts.trouble};
    case TrainerVerdict::kLeft:
      return {
          EndingKind::kStopped, kExitAskedToStop, "asked to stop while the other ranks continue"};
  }
  return {EndingKind::kFailed, kExitInternal, "the training ended without a result"};
}

Ending EndOf(const Error& error) {
  return {EndingKind::kFailed, ExitCodeOf(error.code()), error.ToString()};
}

Saver SaverAtStop(StopMoment moment, const StopFacts& facts) {
  if (!facts.holds_state || !facts.keeps_checkpoints) {
    return Saver::kNobody;
  }
  if (moment == StopMoment::kGangIsBroken) {
    return Saver::kFirstOfTheHolders;
  }
  return facts.is_chief ? Saver::kThisRank : Saver::kNobody;
}

Ending EndOfBrokenGang(bool is_mine, const Status& saved) {
  if (!saved.ok()) {
    return {EndingKind::kStopped,
            kExitAskedToStop,
            "stopped on request; the last checkpoint could not be written: " +
                saved.error().ToString()};
  }
  if (is_mine) {
    return {EndingKind::kStopped, kExitPreempted, "stopped on request after a checkpoint"};
  }
  return {EndingKind::kStopped, kExitAskedToStop, "stopped on request"};
}

Error AsOwnFault(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kResourceExhausted:  // larger than what is read
      return Error(ErrorCode::kInvalidArgument, error.ToString());
    default:
      return error;
  }
}

Error AsFolderFault(const Error& error) {
  return error.code() == ErrorCode::kResourceExhausted ? error : AsOwnFault(error);
}

}  // namespace lockstep::runtime
