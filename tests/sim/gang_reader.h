#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/time.h"
#include "tests/sim/pod_reader.h"

// What checks read of TrainingJobs and sum up, straight from the documents, never through the
// operator's decoders.
namespace lockstep::control::sim {

// What is free, or held, by node.
using AmountsByNode = std::map<std::string, Amounts>;

// Who came first: by time, then by name.
bool IsOlder(const Json& a, const Json& b);

// The time at a dotted path; null when absent.
std::optional<WallTime> TimeAt(const Json& object, std::string_view path);

bool HasPlaces(const Json& job);

// Whether it wants places: it has none, has not ended, and is neither suspended nor about to go.
bool WantsPlaces(const Json& job);

// Whether its gang holds what its places take.
bool HoldsPlaces(const Json& job);

// Of how many of its places the workers are done: these hold nothing.
int64_t CompletedCount(const Json& job);

// Whether it rests before it is looked at again.
bool IsPausing(const Json& job, WallTime now);

// The condition Scheduled, which is false; null: there is none, or it is true.
const Json* WhyUnscheduled(const Json& job);

// Whether the pods of all its replicas fit what is free. Precondition: the job has one role.
bool FitsGang(const AmountsByNode& free, const Json& job);

// Takes from what is free what the job's places hold, or gives it back. Nodes that are not in it
// are left out.
void TakePlaces(const Json& job, AmountsByNode* free);
void GiveBackPlaces(const Json& job, AmountsByNode* free);

// Whether the manifest says what this version of the operator does not read, as bad users write it.
bool IsUnreadable(const Json& job);

// The job without that.
Json WithoutUnreadable(Json job);

}  // namespace lockstep::control::sim
