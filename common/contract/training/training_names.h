#pragma once

#include "common/contract/training/training_spec.h"
#include "common/json/enum_names.h"

namespace lockstep {

// The words of a training section, for its decoder and encoder.

enum class LayerType { kDense, kConv2D, kMaxPooling2D, kFlatten, kDropout };
enum class OptimizerType { kSgd, kAdam, kAdamW };
enum class DatasetFormat { kIdx };

inline constexpr EnumNames<LayerType, 5> kLayerTypeNames = {{
    {LayerType::kDense, "Dense"},
    {LayerType::kConv2D, "Conv2D"},
    {LayerType::kMaxPooling2D, "MaxPooling2D"},
    {LayerType::kFlatten, "Flatten"},
    {LayerType::kDropout, "Dropout"},
}};

inline constexpr EnumNames<Activation, 4> kActivationNames = {{
    {Activation::kLinear, "linear"},
    {Activation::kRelu, "relu"},
    {Activation::kSigmoid, "sigmoid"},
    {Activation::kSoftmax, "softmax"},
}};

inline constexpr EnumNames<Padding, 2> kPaddingNames = {{
    {Padding::kValid, "valid"},
    {Padding::kSame, "same"},
}};

inline constexpr EnumNames<LossType, 4> kLossTypeNames = {{
    {LossType::kMeanSquaredError, "MeanSquaredError"},
    {LossType::kBinaryCrossentropy, "BinaryCrossentropy"},
    {LossType::kCategoricalCrossentropy, "CategoricalCrossentropy"},
    {LossType::kSparseCategoricalCrossentropy, "SparseCategoricalCrossentropy"},
}};

inline constexpr EnumNames<OptimizerType, 3> kOptimizerTypeNames = {{
    {OptimizerType::kSgd, "SGD"},
    {OptimizerType::kAdam, "Adam"},
    {OptimizerType::kAdamW, "AdamW"},
}};

inline constexpr EnumNames<DatasetFormat, 1> kDatasetFormatNames = {{
    {DatasetFormat::kIdx, "idx"},
}};

inline constexpr EnumNames<AllReduceBackend, 3> kAllReduceBackendNames = {{
    {AllReduceBackend::kAuto, "Auto"},
    {AllReduceBackend::kCpu, "Cpu"},
    {AllReduceBackend::kNccl, "Nccl"},
}};

inline constexpr EnumNames<VariablePlacement, 4> kVariablePlacementNames = {{
    {VariablePlacement::kMirrored, "Mirrored"},
    {VariablePlacement::kCentral, "Central"},
    {VariablePlacement::kIndependent, "Independent"},
    {VariablePlacement::kParameterServers, "ParameterServers"},
}};

inline constexpr EnumNames<Precision, 3> kPrecisionNames = {{
    {Precision::kFloat32, "Float32"},
    {Precision::kBFloat16, "BFloat16"},
    {Precision::kFloat16, "Float16"},
}};

inline constexpr EnumNames<RemainderRule, 2> kRemainderRuleNames = {{
    {RemainderRule::kKeep, "Keep"},
    {RemainderRule::kDrop, "Drop"},
}};

}  // namespace lockstep
