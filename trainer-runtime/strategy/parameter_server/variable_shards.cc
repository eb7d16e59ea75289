#include "trainer-runtime/strategy/parameter_server/variable_shards.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// Cuts one variable; the first pieces are one element larger where it does not divide evenly.
void CutVariable(int variable,
                 int64_t element_count,
                 int64_t piece_count,
                 std::vector<VariablePiece>* pieces) {
  int64_t offset = 0;
  for (int64_t i = 0; i < piece_count; ++i) {
    const int64_t count = element_count / piece_count + (i < element_count % piece_count ? 1 : 0);
    pieces->push_back({variable, offset, count});
    offset += count;
  }
}

// Where a piece begins in the buffer of all variables.
std::size_t BeginOf(const VariablePiece& piece,
                    const std::vector<int64_t>& offsets,
                    std::size_t size) {
  const auto variable = static_cast<std::size_t>(piece.variable);
  LOCKSTEP_CHECK(
      static_cast<int64_t>(size) == offsets.back() && variable + 1 < offsets.size() &&
          offsets[variable] + piece.element_offset + piece.element_count <= offsets[variable + 1],
      "variable " + std::to_string(piece.variable) + " does not fit into a buffer of " +
          std::to_string(size));
  return static_cast<std::size_t>(offsets[variable] + piece.element_offset);
}

std::tuple<int, int64_t> PlaceOf(const VariablePiece& piece) {
  return {piece.variable, piece.element_offset};
}

}  // namespace

int64_t VariableShard::element_count() const {
  int64_t count = 0;
  for (const VariablePiece& piece : pieces) {
    count += piece.element_count;
  }
  return count;
}

std::vector<VariableShard> PlanVariableShards(const std::vector<int64_t>& element_counts,
                                              int shard_count,
                                              int64_t piece_bytes_min) {
  constexpr int64_t kElementSize = sizeof(float);
  LOCKSTEP_CHECK(shard_count >= 1, std::to_string(shard_count) + " shards");
  LOCKSTEP_CHECK(piece_bytes_min >= 0, std::to_string(piece_bytes_min) + " bytes");
  const int64_t piece_elements_min =
      std::max<int64_t>(1, (piece_bytes_min + kElementSize - 1) / kElementSize);
  std::vector<VariablePiece> pieces;
  for (std::size_t i = 0; i < element_counts.size(); ++i) {
    LOCKSTEP_CHECK(element_counts[i] >= 0, std::to_string(element_counts[i]) + " elements");
    if (element_counts[i] > 0) {
      const int64_t piece_count =
          std::clamp<int64_t>(element_counts[i] / piece_elements_min, 1, shard_count);
      CutVariable(static_cast<int>(i), element_counts[i], piece_count, &pieces);
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const VariablePiece& one, const VariablePiece& other) {
    return std::make_tuple(-one.element_count, PlaceOf(one)) <
           std::make_tuple(-other.element_count, PlaceOf(other));
  });

  std::vector<VariableShard> shards(static_cast<std::size_t>(shard_count));
  std::vector<int64_t> loads(shards.size(), 0);
  for (const VariablePiece& piece : pieces) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += piece.element_count;
    shards[static_cast<std::size_t>(least - loads.begin())].pieces.push_back(piece);
  }
  for (VariableShard& shard : shards) {
    std::sort(shard.pieces.begin(),
              shard.pieces.end(),
              [](const VariablePiece& one, const VariablePiece& other) {
                return PlaceOf(one) < PlaceOf(other);
              });
  }
  return shards;
}

std::vector<int64_t> VariableOffsets(const std::vector<int64_t>& element_counts) {
  std::vector<int64_t> offsets{0};
  for (const int64_t count : element_counts) {
    offsets.push_back(offsets.back() + count);
  }
  return offsets;
}

std::vector<float> GatherShard(const VariableShard& shard,
                               const std::vector<int64_t>& offsets,
                               std::span<const float> all) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(shard.element_count()));
  for (const VariablePiece& piece : shard.pieces) {
    const std::span<const float> part = all.subspan(BeginOf(piece, offsets, all.size()),
                                                    static_cast<std::size_t>(piece.element_count));
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

void ScatterShard(const VariableShard& shard,
                  const std::vector<int64_t>& offsets,
                  std::span<const float> values,
                  std::span<float> all) {
  LOCKSTEP_CHECK(static_cast<int64_t>(values.size()) == shard.element_count(),
                 std::to_string(values.size()) + " values");
  for (const VariablePiece& piece : shard.pieces) {
    const auto count = static_cast<std::size_t>(piece.element_count);
    std::copy_n(values.begin(),
                count,
                all.begin() + static_cast<std::ptrdiff_t>(BeginOf(piece, offsets, all.size())));
    values = values.subspan(count);
  }
}

}  // namespace lockstep::runtime
