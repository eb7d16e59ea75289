#include "operator/scheduler/queue/amount_text.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

std::string Both(const std::string& resource, int64_t needed, int64_t found) {
  const Figures figures = FiguresOf(resource, needed, found);
  return figures.needed + ", " + figures.found;
}

TEST(AmountText, CoresAreInOneUnitOnBothSides) {
  EXPECT_EQ(Both("cpu", 1, 2000), "0.001 CPU, 2");
  EXPECT_EQ(Both("cpu", 2500, 1995), "2.5 CPU, 1.995");
  EXPECT_EQ(AmountText("cpu", 64'000), "64 CPU");
}

TEST(AmountText, LittleMemoryIsNotRoundedToNothing) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(Both("memory", 1, 4 * kGiB), "1 byte memory, 4 GiB");
  EXPECT_EQ(Both("memory", 1536, 0), "1.5 KiB memory, 0");
  EXPECT_EQ(Both("memory", 3 * kGiB / 2, 512 << 20), "1.5 GiB memory, 512 MiB");
}

TEST(AmountText, ByteMoreIsNotShownAsEqualAndTheSameIs) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(Both("memory", kGiB + 1, kGiB), "1073741825 bytes memory, 1073741824 bytes");
  EXPECT_EQ(Both("memory", kGiB, kGiB), "1 GiB memory, 1 GiB");
}

}  // namespace
}  // namespace lockstep::control
