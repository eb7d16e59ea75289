#include "trainer-runtime/train/evaluation.h"

#include <algorithm>
#include <vector>

#include "trainer-runtime/data/shard_plan.h"

namespace lockstep::runtime {
namespace {

// Samples evaluated at once: the activations of one batch stay in the cache. Choice.
constexpr int64_t kTestBatchSize = 128;

Result<StepTotals> EvaluateSlice(Engine& engine, const Dataset& samples, PositionRange slice) {
  StepTotals totals;
  std::vector<float> inputs;
  std::vector<float> labels;
  for (int64_t begin = slice.begin; begin < slice.end; begin += kTestBatchSize) {
    std::vector<int64_t> ids;
    for (int64_t id = begin; id < std::min(begin + kTestBatchSize, slice.end); ++id) {
      ids.push_back(id);
    }
    inputs.resize(ids.size() * static_cast<std::size_t>(samples.input_width()));
    labels.resize(ids.size() * static_cast<std::size_t>(samples.label_width()));
    samples.Gather(ids, inputs, labels);
    const auto count = static_cast<int64_t>(ids.size());
    LOCKSTEP_ASSIGN_OR_RETURN(const StepResult result, engine.Evaluate({inputs, labels, count}));
    totals.loss_sum += result.loss_sum;
    totals.correct_count += result.correct_count;
    totals.sample_count += count;
  }
  return totals;
}

}  // namespace

Result<StepTotals> EvaluateSplit(ReplicaSet* replicas,
                                 const Dataset& samples,
                                 RankControl* control,
                                 Deadline deadline) {
  const int count = replicas->count();
  std::vector<StepTotals> parts(static_cast<std::size_t>(count));
  LOCKSTEP_RETURN_IF_ERROR(replicas->ForEach([&](int replica) -> Status {
    const PositionRange slice = SliceOf({0, samples.sample_count()},
                                        control->rank() * count + replica,
                                        control->world_size() * count);
    LOCKSTEP_ASSIGN_OR_RETURN(parts[static_cast<std::size_t>(replica)],
                              EvaluateSlice(replicas->engine(replica), samples, slice));
    return OkStatus();
  }));
  StepTotals mine;
  for (const StepTotals& part : parts) {
    mine.loss_sum += part.loss_sum;
    mine.correct_count += part.correct_count;
    mine.sample_count += part.sample_count;
  }
  return control->ReduceTotals(mine, deadline);
}

}  // namespace lockstep::runtime
