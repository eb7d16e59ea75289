#pragma once

#include <optional>
#include <string>

#include "common/base/time.h"
#include "operator/api/job/claim.h"
#include "operator/api/job/job_id.h"
#include "operator/resources/node_usage.h"
#include "operator/scheduler/state/gang_request.h"

namespace lockstep::control {

// What scheduling rounds have to know of one job.
struct JobStand {
  bool wants_place = false;  // `request` says for what
  bool is_placed = false;    // it has its places, or is about to have them; `request` has no pods
  bool is_promised = false;  // of one that is placed: it is about to
  GangRequest request;
  std::string uid;
  Attempt attempt;                 // of the gang with its places, or of the next one
  RunTerms run;                    // of the gang with its places
  std::optional<RoomClaim> claim;  // that its status names, or is about to
  bool is_claim_stored = false;    // it does already
  // By its own pods, of earlier attempts too, and by places that it was promised; of pods that
  // stay.
  UsageByNode held;
  UsageByNode
      going;  // by its pods, and by those of earlier jobs of its name, that go by themselves
  UsageByNode stuck;                        // by those that should have gone by now, and stay
  std::optional<WallTime> stuck_from;       // when more of them are
  std::optional<WallTime> awaited_until{};  // when `request` is not AskStage::kAwaited any more
};

// What a job's gang is called in rounds, "namespace/name", and back.
std::string GangNameOf(const JobId& key);
JobId JobOfGang(const std::string& gang);

}  // namespace lockstep::control
