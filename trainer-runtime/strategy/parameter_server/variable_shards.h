#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::runtime {

// A row of elements of one variable that one shard keeps.
struct VariablePiece {
  int variable = 0;  // its place among the model's variables
  int64_t element_offset = 0;
  int64_t element_count = 0;

  friend bool operator==(const VariablePiece&, const VariablePiece&) = default;
};

// What one ps keeps: its values lie one piece after the other, in this order.
struct VariableShard {
  std::vector<VariablePiece> pieces;  // by variable, then by offset

  int64_t element_count() const;

  friend bool operator==(const VariableShard&, const VariableShard&) = default;
};

// Deals a model's variables out to `shard_count` shards. A variable is cut into as many equal
// pieces as there are shards, or into fewer, so that none is below `piece_bytes_min`; a smaller
// variable stays whole. The pieces are dealt from the largest down, each to the shard that has
// least so far: pieces of one size go round in turn. Everybody who knows the model comes to the
// same plan.
// Shapes: element_counts [variables], of float32. Returns [shard_count]; a shard may be empty.
// Preconditions (checked): shard_count >= 1, piece_bytes_min >= 0, no negative count.
std::vector<VariableShard> PlanVariableShards(const std::vector<int64_t>& element_counts,
                                              int shard_count,
                                              int64_t piece_bytes_min);

// Where each variable begins in a buffer that holds one after the other; last, where it ends.
std::vector<int64_t> VariableOffsets(const std::vector<int64_t>& element_counts);

// A shard's values out of a buffer of all variables, and back into it.
// Shapes: `all` [offsets.back()], values [shard.element_count()].
// Preconditions (checked): these shapes; the shard is of these variables.
std::vector<float> GatherShard(const VariableShard& shard,
                               const std::vector<int64_t>& offsets,
                               std::span<const float> all);
void ScatterShard(const VariableShard& shard,
                  const std::vector<int64_t>& offsets,
                  std::span<const float> values,
                  std::span<float> all);

}  // namespace lockstep::runtime
