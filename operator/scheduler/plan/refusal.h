#pragma once

#include <optional>
#include <vector>

#include "operator/scheduler/plan/plan.h"
#include "operator/scheduler/plan/room.h"

namespace lockstep::control {

// The tightest counting bound that the gang breaks, without any search; empty when all hold.
// A bound that is broken proves that no arrangement exists. Bounds, in order: some node accepts
// pods; some node carries each class's labels, and no taint that it does not tolerate; one pod of
// each class fits a node (skipped on one machine, where the sum says more); the sum of requests;
// the number of pods; the pods of each class alone; domains enough where each takes one pod.
// Cost: some passes over the rooms; those that stand for many nodes count as many.
std::optional<Unschedulable> BrokenBound(const RoomSurvey& survey,
                                         const std::vector<PodClass>& classes);

// The refusal of a gang that keeps all bounds: kFragmentation when `is_proved`, else kSearchLimit.
Unschedulable NoArrangement(const std::vector<PodClass>& classes, bool is_proved);

}  // namespace lockstep::control
