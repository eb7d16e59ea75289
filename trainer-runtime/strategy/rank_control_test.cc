#include "trainer-runtime/strategy/rank_control.h"

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/strategy/testing/tape_communicator.h"

namespace lockstep::runtime {
namespace {

Deadline Soon() {
  return Deadline::After(SteadyNow(), std::chrono::minutes(1));
}

// More than two pieces, the last one short.
std::vector<float> Values() {
  std::vector<float> values(600'001);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
  }
  return values;
}

class ShareValues : public testing::Test {
 protected:
  // Records what rank 0 sends; its own values stay.
  void SetUp() override {
    TapeCommunicator tape(0, &calls_);
    std::vector<float> sent = Values();
    EXPECT_FALSE(RankControl(&tape).ShareValues(sent, 0, Soon()).value());
    EXPECT_EQ(sent, Values());
  }

  Result<bool> Receive(std::vector<float>* values) {
    TapeCommunicator tape(1, &calls_);
    return RankControl(&tape).ShareValues(*values, 0, Soon());
  }

  Tape calls_;
};

TEST_F(ShareValues, ValuesOfTheSourceReplaceOthers) {
  std::vector<float> empty(Values().size(), 0.0F);
  EXPECT_TRUE(Receive(&empty).value());
  EXPECT_EQ(empty, Values());
  std::vector<float> last = Values();
  last.back() = -1;
  EXPECT_TRUE(Receive(&last).value());
  EXPECT_EQ(last, Values());
}

TEST_F(ShareValues, EqualValuesAreNoChange) {
  std::vector<float> equal = Values();
  EXPECT_FALSE(Receive(&equal).value());
  EXPECT_EQ(equal, Values());
}

TEST_F(ShareValues, ValuesTravelInPieces) {
  ASSERT_EQ(calls_.size(), 3U);
  EXPECT_LE(calls_.front().size(), std::size_t{1} << 20U);
}

}  // namespace
}  // namespace lockstep::runtime
