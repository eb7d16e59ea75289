#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/quantity.h"
#include "common/base/result.h"

// The bounds of fields that the definitions (crds/) and the decoders of this folder have in common:
// crd_schema_test.cc fails where they differ. What is common with the trainer stands in
// common/contract. Choices unless said otherwise: above any honest manifest, a slip of the pen
// beyond, and small enough that the API server can afford the rules about what they bound.

namespace lockstep::control {

// Of jobs.
inline constexpr std::size_t kRolesMax = 4;         // one of each kind
inline constexpr int64_t kGpusMax = 64;             // the largest machines have 16
inline constexpr std::size_t kWarmModulesMax = 16;  // above what programs import on purpose
inline constexpr int64_t kRestartsMax = 10'000;
inline constexpr int64_t kSecondsMax = int64_t{3650} * 24 * 3600;  // ten years
inline constexpr double kRecoverySecondsMin = 0.2;  // below it a busy machine looks dead
inline constexpr double kRecoverySecondsMax = 24 * 3600;
inline constexpr double kHungSecondsMin = 1;  // below it a program that reads a file seems to hang

// Of pod templates.
inline constexpr int64_t kGraceSecondsMax = 24 * 3600;  // a day is a mistake, not a grace period
inline constexpr std::size_t kLabelsMax = 256;          // annotations and nodeSelector, too
inline constexpr std::size_t kInitContainersMax = 16;
inline constexpr std::size_t kPortsMax = 64;  // of a container; each may be a port of the node
// Of every other list: variables, volumes, words of a command, whatever is passed on.
inline constexpr std::size_t kEntriesMax = 1000;
inline constexpr std::size_t kEnvironmentNameMax = 256;
inline constexpr std::size_t kEnvironmentSourcesMax = 64;
inline constexpr std::size_t kResourceNamesMax = 32;
inline constexpr std::size_t kTolerationsMax = 64;
inline constexpr std::size_t kTolerationValueMax = 63;     // of a taint; Kubernetes' rule
inline constexpr std::size_t kLabelKeyMax = 253 + 1 + 63;  // Kubernetes' rule
inline constexpr std::size_t kAffinityTermsMax = 32;
inline constexpr std::size_t kAffinityRequirementsMax = 32;   // of a term
inline constexpr std::size_t kAffinityValuesMax = 1024;       // names of nodes, perhaps
inline constexpr std::size_t kAffinityValuesInAllMax = 4096;  // of a list of terms
inline constexpr std::size_t kSpreadConstraintsMax = 32;

// Of queues.
inline constexpr int64_t kWeightMax = 1'000'000;       // shares are counted in millionths
inline constexpr int64_t kMinRuntimeMax = 31'536'000;  // a year
inline constexpr std::size_t kNamespacesMax = 256;     // teams that share one share

// Characters of a quantity: digits, point and suffix of what Kubernetes writes itself fit.
inline constexpr std::size_t kQuantityTextMax = 64;

// ParseQuantity of what the definitions take: nothing longer, and no exponent of more than two
// digits.
Result<int64_t> ReadQuantityText(std::string_view text, QuantityUnit unit);

}  // namespace lockstep::control
