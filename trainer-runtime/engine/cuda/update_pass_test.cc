#include "trainer-runtime/engine/cuda/update_pass.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "trainer-runtime/engine/guarded_update.h"
#include "trainer-runtime/engine/optimizer.h"

namespace lockstep::runtime {
namespace {

const std::vector<OptimizerSpec> kOptimizers{
    SgdOptimizer{.learning_rate = 0.3},
    SgdOptimizer{.learning_rate = 0.3, .momentum = 0.9},
    SgdOptimizer{.learning_rate = 0.3, .momentum = 0.9, .nesterov = true},
    AdamOptimizer{},
    AdamOptimizer{.weight_decay = 0.25}};

// All of one model, in vectors whose first `offset` elements are not part of it: without an offset
// every buffer starts at a pack's alignment.
struct Model {
  explicit Model(int64_t count_of, int64_t offset_of = 0) : count(count_of), offset(offset_of) {
    const auto size = static_cast<std::size_t>(offset + count);
    parameters.resize(static_cast<std::size_t>(offset), 7);
    gradients.resize(static_cast<std::size_t>(offset), 7);
    Prng prng(11);
    while (parameters.size() < size) {
      parameters.push_back(static_cast<float>(prng.Unit() - 0.5));
      gradients.push_back(static_cast<float>((prng.Unit() - 0.5) / 128));
    }
    first_slot.resize(size);
    second_slot.resize(size);
  }

  UpdateBuffers Buffers() {
    return {.count = count,
            .parameters = parameters.data() + offset,
            .gradients = gradients.data() + offset,
            .first_slot = first_slot.data() + offset,
            .second_slot = second_slot.data() + offset};
  }

  int64_t count;
  int64_t offset;
  std::vector<float> parameters;
  std::vector<float> gradients;
  std::vector<float> first_slot;
  std::vector<float> second_slot;
};

template <int kWidth>
void RunThreads(const UpdateFactors& factors, const UpdateBuffers& buffers, int64_t thread_count) {
  std::visit(
      [&](const auto& kind) {
        for (int64_t thread = 0; thread < thread_count; ++thread) {
          UpdatePart<kWidth>(kind, buffers, thread, thread_count);
        }
      },
      factors);
}

// As a launch does.
void RunThreads(const UpdateFactors& factors, const UpdateBuffers& buffers, int64_t thread_count) {
  if (PackWidthOf(buffers) == kPackWidth) {
    RunThreads<kPackWidth>(factors, buffers, thread_count);
  } else {
    RunThreads<1>(factors, buffers, thread_count);
  }
}

void ExpectSameBits(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i])) << i;
  }
}

// The product's own update of the same elements, its slots one after the other.
void ApplyReference(const OptimizerSpec& optimizer, int64_t update, Model& model) {
  const auto offset = static_cast<std::size_t>(model.offset);
  const auto count = static_cast<std::size_t>(model.count);
  std::vector<float> slots;
  std::vector<std::vector<float>*> homes{&model.first_slot, &model.second_slot};
  homes.resize(OptimizerSlotNames(optimizer).size());
  for (const auto* home : homes) {
    slots.insert(slots.end(), home->begin() + model.offset, home->end());
  }
  ApplyOptimizer(optimizer,
                 update,
                 {.parameters = std::span(model.parameters).subspan(offset),
                  .gradients = std::span(model.gradients).subspan(offset),
                  .slots = slots});
  for (std::size_t i = 0; i < homes.size(); ++i) {
    std::copy_n(slots.data() + i * count, count, homes[i]->data() + offset);
  }
}

struct Shape {
  int64_t count;
  int64_t thread_count;
  int64_t offset;
};

// Counts that fill packs and that do not, threads that are too few, enough and too many, and
// buffers that start between packs.
const std::vector<Shape> kShapes{{0, 1, 0},
                                 {1, 4, 0},
                                 {3, 1, 0},
                                 {4, 1, 0},
                                 {6, 2, 0},
                                 {8, 3, 1},
                                 {67, 5, 0},
                                 {67, 5, 3},
                                 {1024, 256, 0},
                                 {1024, 1, 0},
                                 {1027, 7, 0}};

TEST(UpdatePass, GivesTheBitsOfTheCpuLoopWithAndWithoutAScale) {
  for (const OptimizerSpec& optimizer : kOptimizers) {
    for (const auto& [count, thread_count, offset] : kShapes) {
      for (const float scale : {1.0f, 65536.0f}) {
        SCOPED_TRACE(testing::Message()
                     << OptimizerSlotNames(optimizer).size() << " slots, " << count << " from "
                     << offset << ", " << thread_count << " threads, scale " << scale);
        Model reference(count, offset);
        Model model(count, offset);
        for (float& gradient : model.gradients) {
          gradient *= scale;
        }
        UpdateBuffers buffers = model.Buffers();
        buffers.inverse_scale = 1 / scale;
        ASSERT_EQ(PackWidthOf(buffers), offset == 0 ? kPackWidth : 1);
        for (int64_t update = 1; update <= 3; ++update) {
          ApplyReference(optimizer, update, reference);
          RunThreads(MakeUpdateFactors(optimizer, update), buffers, thread_count);
        }
        ExpectSameBits(model.parameters, reference.parameters);
        ExpectSameBits(model.first_slot, reference.first_slot);
        ExpectSameBits(model.second_slot, reference.second_slot);
      }
    }
  }
}

// The record as the host writes it for one update.
GuardedStep StepOf(const OptimizerSpec& optimizer, int64_t update, double scale) {
  TrainingSpec spec;
  spec.optimizer = optimizer;
  return MakeGuardedStep(spec, {.loss_scale = scale, .update = GuardedUpdate{.number = update}});
}

// As two launches do.
void RunGuarded(const GuardedStep& step,
                const UpdateVerdict& verdict,
                const UpdateFactors& kind,
                const UpdateBuffers& buffers,
                int64_t thread_count) {
  std::visit(
      [&](const auto& factors) {
        for (int64_t thread = 0; thread < thread_count; ++thread) {
          if (PackWidthOf(buffers) == kPackWidth) {
            UpdateGuardedPart<kPackWidth>(factors, step, verdict, buffers, {thread, thread_count});
          } else {
            UpdateGuardedPart<1>(factors, step, verdict, buffers, {thread, thread_count});
          }
        }
      },
      kind);
}

// The factors that are passed are of another update: those in the record count.
TEST(UpdatePass, GuardedUpdateReadsScaleClipAndFactorsFromItsRecords) {
  constexpr float kScale = 65536;
  constexpr float kClip = 0.3F;
  for (const OptimizerSpec& optimizer : kOptimizers) {
    const UpdateFactors kind = MakeUpdateFactors(optimizer, 99);
    for (const auto& [count, thread_count, offset] : kShapes) {
      SCOPED_TRACE(testing::Message() << OptimizerSlotNames(optimizer).size() << " slots, " << count
                                      << " from " << offset << ", " << thread_count << " threads");
      Model reference(count, offset);
      Model model(count, offset);
      for (float& gradient : model.gradients) {
        gradient *= kScale;
      }
      for (float& gradient : reference.gradients) {
        gradient *= kClip;
      }
      for (int64_t update = 1; update <= 3; ++update) {
        ApplyReference(optimizer, update, reference);
        const GuardedStep step = StepOf(optimizer, update, kScale);
        RunGuarded(step, {.clip_factor = kClip}, kind, model.Buffers(), thread_count);
        RunGuarded(step, {.is_refused = 1}, kind, model.Buffers(), thread_count);
      }
      ExpectSameBits(model.parameters, reference.parameters);
      ExpectSameBits(model.first_slot, reference.first_slot);
      ExpectSameBits(model.second_slot, reference.second_slot);
    }
  }
}

TEST(UpdatePass, ChangesNothingWhereTheFlagIsSet) {
  for (const OptimizerSpec& optimizer : kOptimizers) {
    const Model before(67);
    Model model = before;
    const int found = 1;
    UpdateBuffers buffers = model.Buffers();
    buffers.found_non_finite = &found;
    RunThreads(MakeUpdateFactors(optimizer, 1), buffers, 5);
    ExpectSameBits(model.parameters, before.parameters);
    ExpectSameBits(model.first_slot, before.first_slot);
    ExpectSameBits(model.second_slot, before.second_slot);
  }
}

TEST(UpdatePass, AFlagThatIsNotSetHindersNothing) {
  Model with(67);
  Model without(67);
  const int found = 0;
  UpdateBuffers buffers = with.Buffers();
  buffers.found_non_finite = &found;
  RunThreads(MakeUpdateFactors(AdamOptimizer{}, 1), buffers, 5);
  RunThreads(MakeUpdateFactors(AdamOptimizer{}, 1), without.Buffers(), 5);
  ExpectSameBits(with.parameters, without.parameters);
}

template <int kWidth>
bool AnyThreadFinds(const std::vector<float>& gradients, int64_t thread_count) {
  bool found = false;
  for (int64_t thread = 0; thread < thread_count; ++thread) {
    found |= PartHasNonFinite<kWidth>(
        gradients.data(), static_cast<int64_t>(gradients.size()), thread, thread_count);
  }
  return found;
}

TEST(UpdatePass, FindsWhatIsNotFiniteAtEveryPlace) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {infinity, -infinity, not_a_number}) {
    for (std::size_t at = 0; at < 67; ++at) {
      std::vector<float> gradients(67, std::numeric_limits<float>::max());
      EXPECT_FALSE(AnyThreadFinds<kPackWidth>(gradients, 5));
      EXPECT_FALSE(AnyThreadFinds<1>(gradients, 5));
      gradients[at] = bad;
      EXPECT_TRUE(AnyThreadFinds<kPackWidth>(gradients, 5)) << at;
      EXPECT_TRUE(AnyThreadFinds<1>(gradients, 5)) << at;
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
