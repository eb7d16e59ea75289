#include "trainer-runtime/collectives/reduce/reduce.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/collectives/reduce/half_float.h"

namespace lockstep::runtime {
namespace {

// The plain meaning of a reduction, in a type wide enough for the inputs used here.
int64_t PlainResult(ReduceOp op, const std::vector<int64_t>& values) {
  int64_t result = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kMean:
        result += values[i];
        break;
      case ReduceOp::kMin:
        result = std::min(result, values[i]);
        break;
      case ReduceOp::kMax:
        result = std::max(result, values[i]);
        break;
      case ReduceOp::kGather:
        result |= values[i];
        break;
    }
  }
  return result;
}

int64_t SourceValue(std::size_t source, std::size_t i) {
  return static_cast<int64_t>((i * 7 + source * 13) % 50);
}

// Reduces `source_count` sources of `count` elements into the source number `out` (or a buffer of
// its own when out == source_count) and compares every element.
template <typename T>
void CheckReduction(
    DataType type, ReduceOp op, std::size_t source_count, std::size_t count, std::size_t out) {
  std::vector<std::vector<T>> buffers(source_count + 1, std::vector<T>(count));
  std::vector<const void*> sources;
  for (std::size_t source = 0; source < source_count; ++source) {
    for (std::size_t i = 0; i < count; ++i) {
      buffers[source][i] = static_cast<T>(SourceValue(source, i));
    }
    sources.push_back(buffers[source].data());
  }
  ReduceInOrder(type, op, sources, count, buffers[out].data());
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<int64_t> values;
    for (std::size_t source = 0; source < source_count; ++source) {
      values.push_back(SourceValue(source, i));
    }
    ASSERT_EQ(buffers[out][i], static_cast<T>(PlainResult(op, values)))
        << DataTypeName(type) << " " << ReduceOpName(op) << ", " << source_count << " sources, "
        << count << " elements, into " << out << ", element " << i;
  }
}

TEST(ReduceInOrder, EveryTypeOperationAndPlaceGivesThePlainResult) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kMean}) {
    for (std::size_t sources = 1; sources <= 5; ++sources) {
      for (std::size_t out = 0; out <= sources; ++out) {
        for (const std::size_t count : {0, 1, 3, 511, 512, 513, 1500}) {
          CheckReduction<uint8_t>(DataType::kUInt8, op, sources, count, out);
          CheckReduction<int32_t>(DataType::kInt32, op, sources, count, out);
          CheckReduction<int64_t>(DataType::kInt64, op, sources, count, out);
          CheckReduction<float>(DataType::kFloat32, op, sources, count, out);
          CheckReduction<double>(DataType::kFloat64, op, sources, count, out);
        }
      }
    }
  }
}

// Integers up to 250 are exact in both.
template <typename Half>
void CheckHalfReduction(DataType type, ReduceOp op, Half (*from)(float)) {
  constexpr std::size_t kCount = 700;
  std::vector<std::vector<Half>> buffers(4, std::vector<Half>(kCount));
  std::vector<const void*> sources;
  for (std::size_t source = 0; source < buffers.size(); ++source) {
    for (std::size_t i = 0; i < kCount; ++i) {
      buffers[source][i] = from(static_cast<float>(SourceValue(source, i)));
    }
    sources.push_back(buffers[source].data());
  }
  ReduceInOrder(type, op, sources, kCount, buffers[0].data());
  for (std::size_t i = 0; i < kCount; ++i) {
    const int64_t expected = PlainResult(
        op, {SourceValue(0, i), SourceValue(1, i), SourceValue(2, i), SourceValue(3, i)});
    ASSERT_EQ(ToFloat(buffers[0][i]), static_cast<float>(expected)) << DataTypeName(type) << i;
  }
}

TEST(ReduceInOrder, HalvesAreAddedAndComparedAsNumbers) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kMean}) {
    CheckHalfReduction<Float16>(DataType::kFloat16, op, &ToFloat16);
    CheckHalfReduction<BFloat16>(DataType::kBFloat16, op, &ToBFloat16);
  }
}

// Minus zero and a NaN's payload are bits like others.
TEST(ReduceInOrder, GatherKeepsTheBitsOfWhoeverHasSetAny) {
  const std::vector<uint32_t> first{0x80000000, 0, 0x7FC12345, 0};
  const std::vector<uint32_t> second{0, 0x00000001, 0, 0xFFFFFFFF};
  std::vector<uint32_t> out(first.size());
  const std::vector<const void*> sources{first.data(), second.data()};
  ReduceInOrder(DataType::kFloat32, ReduceOp::kGather, sources, out.size(), out.data());
  EXPECT_EQ(out, (std::vector<uint32_t>{0x80000000, 0x00000001, 0x7FC12345, 0xFFFFFFFF}));
}

TEST(ReduceInOrder, IntegerSumsWrapAround) {
  std::vector<int32_t> a{std::numeric_limits<int32_t>::max()};
  const std::vector<int32_t> b{1};
  const std::vector<const void*> sources{a.data(), b.data()};
  ReduceInOrder(DataType::kInt32, ReduceOp::kSum, sources, 1, a.data());
  EXPECT_EQ(a[0], std::numeric_limits<int32_t>::min());
}

// (1e8 + -1e8) + 1 is 1 in float, 1e8 + (-1e8 + 1) is 0: the order shows in the result.
TEST(ReduceInOrder, FloatsAreAddedFromTheFirstSourceOn) {
  const std::vector<float> a(2000, 1e8F);
  const std::vector<float> b(2000, -1e8F);
  const std::vector<float> c(2000, 1.0F);
  const std::vector<float> zero(2000, 0.0F);
  std::vector<float> out(2000);
  const std::vector<const void*> three{a.data(), b.data(), c.data()};
  ReduceInOrder(DataType::kFloat32, ReduceOp::kSum, three, out.size(), out.data());
  EXPECT_EQ(out, c);
  const std::vector<const void*> four{c.data(), a.data(), b.data(), zero.data()};
  ReduceInOrder(DataType::kFloat32, ReduceOp::kSum, four, out.size(), out.data());
  EXPECT_EQ(out, zero);
}

// NaN in source `place` of `source_count`, ones elsewhere: every element has to be NaN.
template <typename T, typename From>
void CheckNan(DataType type, ReduceOp op, std::size_t source_count, std::size_t place, From from) {
  constexpr std::size_t kCount = 600;  // more than a block
  std::vector<std::vector<T>> buffers(source_count, std::vector<T>(kCount, from(1.0F)));
  buffers[place].assign(kCount, from(std::numeric_limits<float>::quiet_NaN()));
  std::vector<const void*> sources;
  for (const std::vector<T>& buffer : buffers) {
    sources.push_back(buffer.data());
  }
  std::vector<T> out(kCount);
  ReduceInOrder(type, op, sources, kCount, out.data());
  for (const T value : out) {
    double number = 0;
    if constexpr (std::is_floating_point_v<T>) {
      number = value;
    } else {
      number = ToFloat(value);
    }
    ASSERT_TRUE(std::isnan(number)) << DataTypeName(type) << " " << ReduceOpName(op) << ", source "
                                    << place << " of " << source_count;
  }
}

TEST(ReduceInOrder, NanOfAnySourceIsTheMinimumAndTheMaximum) {
  const auto same = [](float value) { return value; };
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum}) {
    for (std::size_t sources = 2; sources <= 5; ++sources) {
      for (std::size_t place = 0; place < sources; ++place) {
        CheckNan<float>(DataType::kFloat32, op, sources, place, same);
        CheckNan<double>(DataType::kFloat64, op, sources, place, same);
        CheckNan<Float16>(DataType::kFloat16, op, sources, place, &ToFloat16);
        CheckNan<BFloat16>(DataType::kBFloat16, op, sources, place, &ToBFloat16);
      }
    }
  }
}

// Which of two zeros is kept is a matter of order alone.
TEST(ReduceInOrder, FirstOfEqualZerosIsKept) {
  const std::vector<float> minus{-0.0F};
  const std::vector<float> plus{0.0F};
  std::vector<float> out(1);
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    ReduceInOrder(
        DataType::kFloat32, op, std::vector<const void*>{minus.data(), plus.data()}, 1, out.data());
    EXPECT_TRUE(std::signbit(out[0]));
    ReduceInOrder(
        DataType::kFloat32, op, std::vector<const void*>{plus.data(), minus.data()}, 1, out.data());
    EXPECT_FALSE(std::signbit(out[0]));
  }
}

}  // namespace
}  // namespace lockstep::runtime
