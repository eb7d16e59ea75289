#pragma once

#include <string>

#include "common/base/result.h"
#include "trainer-runtime/train/trainer.h"

namespace lockstep::runtime {

// How training ends on one rank, as functions of values: who writes what the gang has trained, what
// the process exits with, and what it says.

// What people see of an end.
enum class EndingKind { kFinished, kStopped, kFailed };

struct Ending {
  EndingKind kind = EndingKind::kFailed;
  int exit_code = 0;
  std::string reason;

  friend bool operator==(const Ending&, const Ending&) = default;
};

// What an end by a verdict depends on besides the verdict.
struct VerdictFacts {
  bool has_trained_to_the_end = false;  // false for a replacement that came after it
  bool keeps_checkpoints = false;
  std::string trouble;  // Trainer::trouble()
};

Ending EndOf(TrainerVerdict verdict, const VerdictFacts& facts);

// The end by an error that nobody asked for.
Ending EndOf(const Error& error);

// When a rank is asked to stop and the others are not, or not with it.
enum class StopMoment {
  kGangGoesOn,   // the others hold the state and go on without this rank
  kGangIsBroken  // a rank is gone and there is no meeting
};

struct StopFacts {
  bool is_chief = false;
  bool holds_state = false;
  bool keeps_checkpoints = false;
};

enum class Saver {
  kNobody,            // or somebody else
  kThisRank,          // as the writer that it is
  kFirstOfTheHolders  // the lowest rank that is left with a state, in the name of their chief
};

// Who writes what is trained before this rank leaves. A chief leaves alone: the others hold the
// state, but nobody writes it until there is a new chief; should they be asked to leave one by one,
// this is the newest checkpoint. Of a broken gang each waits for the lower ranks to leave, and
// saves what they have not.
Saver SaverAtStop(StopMoment moment, const StopFacts& facts);

// The end of a rank that was asked to stop while its gang was broken. `is_mine`: it was the saver,
// and `saved` says how that went.
Ending EndOfBrokenGang(bool is_mine, const Status& saved);

// What a rank finds wrong with its own files before it trains stays wrong: trying again, here or on
// another node, reads the same file. Only what the system may mend is left to another try.
Error AsOwnFault(const Error& error);

// As above, of the folder that checkpoints are written to: that there is no room may pass.
Error AsFolderFault(const Error& error);

}  // namespace lockstep::runtime
