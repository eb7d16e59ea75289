#include "common/base/quantity.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct Row {
  const char* text;
  int64_t ones;
  int64_t thousandths;
};

TEST(ParseQuantity, ReadsWhatKubernetesReadsAndRoundsUp) {
  const Row rows[] = {
      {"0", 0, 0},
      {"2", 2, 2000},
      {"+2", 2, 2000},
      {"500m", 1, 500},
      {"1.5", 2, 1500},
      {"0.1", 1, 100},
      {".5", 1, 500},
      {"1.", 1, 1000},
      {"1500u", 1, 2},
      {"1n", 1, 1},
      {"1e3", 1000, 1'000'000},
      {"1E+3", 1000, 1'000'000},
      {"25e-1", 3, 2500},
      {"1k", 1000, 1'000'000},
      {"1Ki", 1024, 1'024'000},
      {"1.5Gi", 1610612736, 1610612736000},
      {"128974848", 128974848, 128974848000},
      {"129M", 129'000'000, 129'000'000'000},
      {"0.000000001", 1, 1},
  };
  for (const Row& row : rows) {
    const Result<int64_t> ones = ParseQuantity(row.text, QuantityUnit::kOnes);
    const Result<int64_t> thousandths = ParseQuantity(row.text, QuantityUnit::kThousandths);
    ASSERT_TRUE(ones.ok() && thousandths.ok()) << row.text;
    EXPECT_EQ(*ones, row.ones) << row.text;
    EXPECT_EQ(*thousandths, row.thousandths) << row.text;
  }
}

TEST(ParseQuantity, RefusesEverythingElse) {
  for (const char* text : {"",
                           " ",
                           ".",
                           "m",
                           "Gi",
                           "-1",
                           "1 Gi",
                           "1gi",
                           "1GB",
                           "2,5",
                           "1..2",
                           "1e",
                           "1e1000",
                           "1e-1000",
                           "0x10",
                           "1Gim",
                           "NaN",
                           "1e+-3",
                           "12345678901234567890"}) {
    EXPECT_FALSE(ParseQuantity(text, QuantityUnit::kOnes).ok()) << text;
  }
}

TEST(ParseQuantity, LargestAmountsFitAndLargerOnesAreRefused) {
  EXPECT_EQ(ParseQuantity("7Ei", QuantityUnit::kOnes).value(), int64_t{7} << 60);
  EXPECT_EQ(ParseQuantity("9E", QuantityUnit::kOnes).value(), 9'000'000'000'000'000'000);
  for (const char* text : {"8Ei", "10E", "999999999999999999E", "1e18Ei"}) {
    EXPECT_FALSE(ParseQuantity(text, QuantityUnit::kOnes).ok()) << text;
  }
  EXPECT_FALSE(ParseQuantity("9E", QuantityUnit::kThousandths).ok());
}

TEST(ParseQuantity, LimitThatIsPassedIsNamed) {
  struct {
    const char* text;
    QuantityUnit unit;
    const char* expected;
  } const rows[] = {
      {"1234567890123456789", QuantityUnit::kOnes, "a quantity of at most 18 digits"},
      {"9223372036854775807", QuantityUnit::kOnes, "a quantity of at most 18 digits"},
      {"0.1000000000000000055", QuantityUnit::kThousandths, "a quantity of at most 18 digits"},
      {"8Ei", QuantityUnit::kOnes, "a quantity below 8Ei"},
      {"9E", QuantityUnit::kThousandths, "a quantity of at most 9223372036854775.807"},
      {"9223372036854775.808", QuantityUnit::kThousandths, "a quantity of at most 18 digits"},
      {"9223372036854775.81",
       QuantityUnit::kThousandths,
       "a quantity of at most 9223372036854775.807"},
      {"1e19", QuantityUnit::kOnes, "a quantity with an exponent from -18 to 18"},
      {"1e-19", QuantityUnit::kOnes, "a quantity with an exponent from -18 to 18"},
      {"1e99999999999", QuantityUnit::kOnes, "a quantity with an exponent from -18 to 18"},
      {"1e", QuantityUnit::kOnes, "a quantity such as 2, 500m, 1.5 or 2Gi"},
      {"1e5x", QuantityUnit::kOnes, "a quantity such as 2, 500m, 1.5 or 2Gi"},
  };

  for (const auto& row : rows) {
    const auto quantity = ParseQuantity(row.text, row.unit);
    ASSERT_FALSE(quantity.ok()) << row.text;
    EXPECT_EQ(quantity.error().message(), row.expected) << row.text;
  }
}

}  // namespace
}  // namespace lockstep
