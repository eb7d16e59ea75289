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
      {"1e-1000", 1, 1},
      {"0e1000", 0, 0},
      {"1e-99999999999", 1, 1},
      {"0e99999999999", 0, 0},
      {"1234567890.123456789", 1234567891, 1234567890124},
      {"0.1000000000000000055", 1, 101},
      {"0.0000000000000000000000000000000000000000000000000000000000001", 1, 1},
      {"000000000000000000000000000000000000000000000000000000000002", 2, 2000},
      {"1.0000000000000000000000000000000000000000000000000000000000", 1, 1000},
      {"1.0000000000000000000000000000000000000000000000000000000001", 2, 1001},
      {"123456789012345678901234567890e-20", 1234567891, 1234567890124},
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
                           "0x10",
                           "1Gim",
                           "NaN",
                           "1e+-3"}) {
    EXPECT_FALSE(ParseQuantity(text, QuantityUnit::kOnes).ok()) << text;
  }
}

TEST(ParseQuantity, LargestAmountsFitAndLargerOnesAreRefused) {
  EXPECT_EQ(ParseQuantity("7Ei", QuantityUnit::kOnes).value(), int64_t{7} << 60);
  EXPECT_EQ(ParseQuantity("9E", QuantityUnit::kOnes).value(), 9'000'000'000'000'000'000);
  for (const char* text :
       {"9223372036854775807", "9223372036854775806.1", "9223372036854775807000m"}) {
    EXPECT_EQ(ParseQuantity(text, QuantityUnit::kOnes).value(), INT64_MAX) << text;
  }
  for (const char* text : {"8Ei",
                           "10E",
                           "999999999999999999E",
                           "1e18Ei",
                           "1e19",
                           "1e1000",
                           "1e99999999999",
                           "9223372036854775808",
                           "9223372036854775807.000000000000000000000000000000000000001",
                           "12345678901234567890",
                           "9999999999999999999999999999999999999999999999999999999999999999"}) {
    EXPECT_FALSE(ParseQuantity(text, QuantityUnit::kOnes).ok()) << text;
    EXPECT_FALSE(ParseQuantity(text, QuantityUnit::kThousandths).ok()) << text;
  }
}

TEST(ParseQuantity, MoreThousandthsThanFitAreTheLargestNumberOfThem) {
  for (const char* text : {"9223372036854775.807",
                           "9223372036854775.8071",
                           "9223372036854775.81",
                           "9E",
                           "9223372036854775807"}) {
    EXPECT_EQ(ParseQuantity(text, QuantityUnit::kThousandths).value(), INT64_MAX) << text;
  }
}

TEST(ParseQuantity, WhatIsExpectedIsSaid) {
  struct {
    const char* text;
    const char* expected;
  } const rows[] = {
      {"8Ei", "a quantity below 8Ei"},
      {"1e99999999999", "a quantity below 8Ei"},
      {"1e", "a quantity such as 2, 500m, 1.5 or 2Gi"},
      {"1e5x", "a quantity such as 2, 500m, 1.5 or 2Gi"},
  };

  for (const auto& row : rows) {
    const auto quantity = ParseQuantity(row.text, QuantityUnit::kOnes);
    ASSERT_FALSE(quantity.ok()) << row.text;
    EXPECT_EQ(quantity.error().message(), row.expected) << row.text;
  }
}

}  // namespace
}  // namespace lockstep
