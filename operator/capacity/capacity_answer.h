#pragma once

#include <algorithm>
#include <chrono>

#include "common/json/enum_names.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Whoever was answered, and has no room by then, asks anew. Choice: twice what Kubernetes'
// autoscaler gives a node to join, so that it has given up first.
inline constexpr std::chrono::minutes kRoomTimeout{30};

// What became of an ask, as it is counted (lockstep_capacity_answers_total). One whose gang was
// edited, suspended or given its places is not answered.
enum class CapacityAnswer {
  kRoom,       // there is, or nodes are on their way
  kNoRoom,     // a check found none
  kFailed,     // the autoscaler gave up
  kRevoked,    // what it had found is gone, or is kept no longer
  kNoAnswer,   // nobody took it up in time
  kNoNodes,    // nothing came of the answer in time
  kNotMade,    // an object could not be made, or is not what autoscalers look at
  kEdited,     // somebody has changed what was asked
  kTakenBack,  // the gang may not start now
};

inline constexpr EnumNames<CapacityAnswer, 9> kCapacityAnswerNames = {{
    {CapacityAnswer::kRoom, "room"},
    {CapacityAnswer::kNoRoom, "no_room"},
    {CapacityAnswer::kFailed, "failed"},
    {CapacityAnswer::kRevoked, "revoked"},
    {CapacityAnswer::kNoAnswer, "no_answer"},
    {CapacityAnswer::kNoNodes, "no_nodes"},
    {CapacityAnswer::kNotMade, "not_made"},
    {CapacityAnswer::kEdited, "edited"},
    {CapacityAnswer::kTakenBack, "taken_back"},
}};

// Whether a gang of the job asks autoscalers for room that it lacks. They do not know the domains
// of a topology: nodes that they make for a gang that must stand within one, or apart, may be of no
// use to it.
inline bool MayAskForCapacity(const TrainingJobSpec& spec) {
  return spec.scheduling.provisioning != Provisioning::kNone &&
         spec.scheduling.topology.required.empty() &&
         std::all_of(spec.roles.begin(), spec.roles.end(), [](const RoleSpec& role) {
           return role.pod.pod_terms.empty();
         });
}

}  // namespace lockstep::control
