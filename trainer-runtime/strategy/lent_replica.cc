#include "trainer-runtime/strategy/lent_replica.h"

#include <cstddef>
#include <span>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// Elements of each kind; of what is not lent, none.
struct LentCounts {
  std::size_t gradient_count = 0;
  std::size_t parameter_count = 0;
  std::size_t slot_count = 0;
};

LentCounts CountsOf(Engine& engine) {
  LentCounts counts{.gradient_count = engine.Gradients().size()};
  for (const TensorView& tensor : engine.Tensors()) {
    (tensor.kind == TensorKind::kParameter ? counts.parameter_count : counts.slot_count) +=
        tensor.data.size();
  }
  return counts;
}

std::size_t BytesOf(std::size_t count) {
  constexpr std::size_t kPage = 4096;
  return (count * sizeof(float) + kPage - 1) / kPage * kPage;
}

// Cuts memory into runs of numbers, each from a page on.
class Cutter {
 public:
  explicit Cutter(std::byte* begin) : rest_(begin) {}

  std::span<float> Take(std::size_t count) {
    auto* const at = reinterpret_cast<float*>(rest_);
    rest_ += BytesOf(count);
    return {at, count};
  }

 private:
  std::byte* rest_;
};

Result<std::unique_ptr<const SharedSegment>> Lend(const LentCounts& counts, ReplicaSet* replicas) {
  const std::size_t byte_count =
      BytesOf(counts.gradient_count) + BytesOf(counts.parameter_count) + BytesOf(counts.slot_count);
  LOCKSTEP_ASSIGN_OR_RETURN(SharedSegment made, SharedSegment::CreateForReaders(byte_count));
  auto memory = std::make_unique<const SharedSegment>(std::move(made));
  Cutter cutter(memory->data());
  const std::span<float> gradients = cutter.Take(counts.gradient_count);
  const std::span<float> parameters = cutter.Take(counts.parameter_count);
  const std::span<float> slots = cutter.Take(counts.slot_count);
  // The state first: where it cannot be lent, nothing has changed.
  if (!parameters.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(replicas->LendState(parameters, slots));
  }
  const Status lent = replicas->LendGradients(gradients);
  LOCKSTEP_CHECK(lent.ok() || parameters.empty(),
                 "the engine took shared memory for its state, but not for its gradients");
  LOCKSTEP_RETURN_IF_ERROR(lent);
  return memory;
}

}  // namespace

Result<std::unique_ptr<const SharedSegment>> LendFirstReplica(ReplicaSet* replicas) {
  const LentCounts counts = CountsOf(replicas->engine(0));
  if (counts.gradient_count == 0) {
    return std::unique_ptr<const SharedSegment>();
  }
  if (replicas->IsInHostMemory()) {
    auto lent = Lend(counts, replicas);
    if (lent.ok() || lent.error().code() != ErrorCode::kUnavailable) {
      return lent;
    }
  }
  return Lend({.gradient_count = counts.gradient_count}, replicas);
}

}  // namespace lockstep::runtime
