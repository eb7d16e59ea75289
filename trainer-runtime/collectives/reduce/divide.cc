#include "trainer-runtime/collectives/reduce/divide.h"

#include "common/base/check.h"
#include "trainer-runtime/collectives/reduce/half_float.h"

namespace lockstep::runtime {
namespace {

template <typename T, typename Change>
void ForEach(void* data, std::size_t count, const Change& change) {
  T* const elements = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    elements[i] = change(elements[i]);
  }
}

}  // namespace

bool IsFloating(DataType type) {
  switch (type) {
    case DataType::kUInt8:
    case DataType::kInt32:
    case DataType::kInt64:
      return false;
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return true;
  }
  return false;
}

void Divide(void* data, std::size_t count, DataType type, int divisor) {
  LOCKSTEP_CHECK(IsFloating(type), DataTypeName(type));
  LOCKSTEP_CHECK(divisor > 0, "the divisor must be positive");
  const auto narrow_divisor = static_cast<float>(divisor);
  if (type == DataType::kFloat32) {
    ForEach<float>(data, count, [=](float value) { return value / narrow_divisor; });
  } else if (type == DataType::kFloat64) {
    ForEach<double>(data, count, [=](double value) { return value / divisor; });
  } else if (type == DataType::kFloat16) {
    ForEach<Float16>(
        data, count, [=](Float16 value) { return ToFloat16(ToFloat(value) / narrow_divisor); });
  } else {
    ForEach<BFloat16>(
        data, count, [=](BFloat16 value) { return ToBFloat16(ToFloat(value) / narrow_divisor); });
  }
}

}  // namespace lockstep::runtime
