#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trainer-runtime/strategy/parameter_server/shard_content.h"
#include "trainer-runtime/strategy/parameter_server/shard_messages.h"

// What tests of shards fill them with.

namespace lockstep::runtime::testing {

inline constexpr WorkerProcess kFirst{0, Incarnation(0)};
inline constexpr WorkerProcess kFirstAgain{0, Incarnation(1)};
inline constexpr WorkerProcess kSecond{1, Incarnation(0)};

inline ShardView ViewOf(int64_t term, int64_t home, int64_t buddy) {
  return {Term(term), {Incarnation(home), Incarnation(buddy)}};
}

inline SharedValues Values(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

// Ten times what was there, plus the gradient: the order shows.
inline void AppendDigit(int64_t update_number,
                        std::span<const float> gradient,
                        std::vector<float>* parameters,
                        std::vector<float>* slots) {
  parameters->at(0) = parameters->at(0) * 10 + gradient[0];
  std::fill(slots->begin(), slots->end(), static_cast<float>(update_number));
}

}  // namespace lockstep::runtime::testing
