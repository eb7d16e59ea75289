#include "trainer-runtime/collectives/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/base/check.h"
#include "trainer-runtime/collectives/reduce/half_float.h"

namespace lockstep::runtime {
namespace {

// Elements combined before moving on, for worlds of more than three: 4 KB of doubles stays in the
// first-level cache while every source is added to it.
constexpr std::size_t kBlockElements = 512;

struct Sum {
  template <typename T>
  static T Combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(
          static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
    } else {
      return a + b;
    }
  }
};

struct Gather {
  template <typename T>
  static T Combine(T a, T b) {
    return static_cast<T>(a | b);
  }
};

bool IsNan(Float16 value) {
  return std::isnan(ToFloat(value));
}

bool IsNan(BFloat16 value) {
  return std::isnan(ToFloat(value));
}

template <typename T>
bool IsNan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

// A NaN in `a` stays, as nothing compares smaller than it; one in `b` is taken by name.
struct Min {
  template <typename T>
  static T Combine(T a, T b) {
    return (b < a) | IsNan(b) ? b : a;
  }
};

struct Max {
  template <typename T>
  static T Combine(T a, T b) {
    return (a < b) | IsNan(b) ? b : a;
  }
};

// The pragma lets the compiler vectorise although `out` may be `a` or `b`: identical addresses are
// harmless element by element, and other overlaps are excluded by contract.
template <typename Op, typename T>
void CombineTwo(const T* a, const T* b, std::size_t count, T* out) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = Op::template Combine<T>(a[i], b[i]);
  }
}

template <typename Op, typename T>
void CombineThree(const T* a, const T* b, const T* c, std::size_t count, T* out) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = Op::template Combine<T>(Op::template Combine<T>(a[i], b[i]), c[i]);
  }
}

// Any number of sources, through a private block: `out` may be a later source, which must not be
// overwritten before it has been read.
template <typename Op, typename T>
void CombineMany(std::span<const void* const> sources, std::size_t count, T* out) {
  std::array<T, kBlockElements> block;
  for (std::size_t begin = 0; begin < count; begin += kBlockElements) {
    const std::size_t size = std::min(kBlockElements, count - begin);
    CombineTwo<Op>(static_cast<const T*>(sources[0]) + begin,
                   static_cast<const T*>(sources[1]) + begin,
                   size,
                   block.data());
    for (const void* source : sources.subspan(2)) {
      CombineTwo<Op>(block.data(), static_cast<const T*>(source) + begin, size, block.data());
    }
    std::memcpy(out + begin, block.data(), size * sizeof(T));
  }
}

template <typename Op, typename T>
void Reduce(std::span<const void* const> sources, std::size_t count, void* out_bytes) {
  T* out = static_cast<T*>(out_bytes);
  const T* first = static_cast<const T*>(sources[0]);
  if (sources.size() == 1) {
    if (out != first && count > 0) {
      std::memcpy(out, first, count * sizeof(T));
    }
  } else if (sources.size() == 2) {
    CombineTwo<Op>(first, static_cast<const T*>(sources[1]), count, out);
  } else if (sources.size() == 3) {
    CombineThree<Op>(
        first, static_cast<const T*>(sources[1]), static_cast<const T*>(sources[2]), count, out);
  } else {
    CombineMany<Op>(sources, count, out);
  }
}

template <typename T>
void ReduceTyped(ReduceOp op, std::span<const void* const> sources, std::size_t count, void* out) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return Reduce<Sum, T>(sources, count, out);
    case ReduceOp::kMin:
      return Reduce<Min, T>(sources, count, out);
    case ReduceOp::kMax:
      return Reduce<Max, T>(sources, count, out);
    case ReduceOp::kGather:
      return Reduce<Gather, uint8_t>(sources, count * sizeof(T), out);
  }
}

}  // namespace

void ReduceInOrder(DataType type,
                   ReduceOp op,
                   std::span<const void* const> sources,
                   std::size_t count,
                   void* out) {
  LOCKSTEP_CHECK(!sources.empty(), "there is nothing to reduce");
  switch (type) {
    case DataType::kUInt8:
      return ReduceTyped<uint8_t>(op, sources, count, out);
    case DataType::kInt32:
      return ReduceTyped<int32_t>(op, sources, count, out);
    case DataType::kInt64:
      return ReduceTyped<int64_t>(op, sources, count, out);
    case DataType::kFloat32:
      return ReduceTyped<float>(op, sources, count, out);
    case DataType::kFloat64:
      return ReduceTyped<double>(op, sources, count, out);
    case DataType::kFloat16:
      return ReduceTyped<Float16>(op, sources, count, out);
    case DataType::kBFloat16:
      return ReduceTyped<BFloat16>(op, sources, count, out);
  }
}

}  // namespace lockstep::runtime
