#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "tests/fuzz/decoders.h"
#include "tests/fuzz/mutate.h"

namespace lockstep::fuzz {
namespace {

// Choice: reaches what a few damages can reach, in about a second for the slowest decoder (the
// manifest's); the fuzzers dig deeper.
constexpr uint64_t kMutations = 3000;

// "tf_config" as "TfConfig": test names have no underscores.
std::string TestNameOf(const ::testing::TestParamInfo<Decoder>& parameter) {
  std::string name;
  bool is_word_start = true;
  for (const char c : parameter.param.name) {
    if (c != '_') {
      name += is_word_start ? static_cast<char>(c - 'a' + 'A') : c;
    }
    is_word_start = c == '_';
  }
  return name;
}

class DecoderSmoke : public ::testing::TestWithParam<Decoder> {};

TEST_P(DecoderSmoke, AcceptsItsSeeds) {
  for (const std::string& seed : GetParam().seeds()) {
    const Finding finding = GetParam().run(seed);
    EXPECT_TRUE(finding.is_accepted) << seed;
    EXPECT_EQ(finding.broken_promise, "") << seed;
  }
}

TEST_P(DecoderSmoke, SurvivesEveryTruncation) {
  for (const std::string& seed : GetParam().seeds()) {
    for (std::size_t size = 0; size < seed.size(); ++size) {
      const std::string input = seed.substr(0, size);
      ASSERT_EQ(GetParam().run(input).broken_promise, "") << input;
    }
  }
}

// Each input comes from its own generator, so the number in a failure replays it alone.
TEST_P(DecoderSmoke, SurvivesDamage) {
  const std::vector<std::string> seeds = GetParam().seeds();
  uint64_t accepted_count = 0;
  for (uint64_t number = 0; number < kMutations; ++number) {
    Prng prng(number);
    const std::string input = Mutate(seeds, &prng);
    const Finding finding = GetParam().run(input);
    ASSERT_EQ(finding.broken_promise, "") << "Prng(" << number << "): " << input;
    accepted_count += finding.is_accepted ? 1 : 0;
  }
  // Both sides of the decoder were reached.
  EXPECT_GT(accepted_count, 0U);
  EXPECT_LT(accepted_count, kMutations);
}

INSTANTIATE_TEST_SUITE_P(All, DecoderSmoke, ::testing::ValuesIn(Decoders()), TestNameOf);

}  // namespace
}  // namespace lockstep::fuzz
