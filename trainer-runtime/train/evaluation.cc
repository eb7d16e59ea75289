#include "trainer-runtime/train/evaluation.h"

#include <algorithm>
#include <vector>

#include "trainer-runtime/data/shard_plan.h"

namespace lockstep::runtime {
namespace {

// Samples evaluated at once: the activations of one batch stay in the cache. Choice.
constexpr int64_t kTestBatchSize = 128;

}  // namespace

Result<StepTotals> EvaluateSplit(Engine* engine,
                                 const Dataset& samples,
                                 MultiWorkerMirrored* strategy,
                                 Deadline deadline) {
  const PositionRange slice =
      RankSlice({0, samples.sample_count()}, strategy->rank(), strategy->world_size());
  StepTotals mine;
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
    LOCKSTEP_ASSIGN_OR_RETURN(const StepResult result, engine->Evaluate({inputs, labels, count}));
    mine.loss_sum += result.loss_sum;
    mine.correct_count += result.correct_count;
    mine.sample_count += count;
  }
  return strategy->ReduceTotals(mine, 0, 0, deadline);
}

}  // namespace lockstep::runtime
