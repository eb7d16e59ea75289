#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/result.h"
#include "common/json/json.h"

namespace lockstep {

// What the built-in trainer does: a manifest's `spec.training`, decoded. Names, defaults and
// meaning are Keras's wherever Keras has the thing. A default-constructed struct holds the
// defaults.

enum class Activation { kLinear, kRelu, kSigmoid, kSoftmax };
enum class Padding { kValid, kSame };

// Height and width of a kernel, a stride or a pooling window. Units: elements.
struct Extent {
  int64_t height = 1;
  int64_t width = 1;

  friend bool operator==(const Extent&, const Extent&) = default;
};

// Fully connected: activation(x W + b). Reads a flat input.
struct DenseLayer {
  int64_t units = 1;
  Activation activation = Activation::kLinear;

  friend bool operator==(const DenseLayer&, const DenseLayer&) = default;
};

// Two-dimensional convolution with bias over [height, width, channels].
struct Conv2DLayer {
  int64_t filters = 1;
  Extent kernel_size;
  Extent strides;
  Padding padding = Padding::kValid;
  Activation activation = Activation::kLinear;

  friend bool operator==(const Conv2DLayer&, const Conv2DLayer&) = default;
};

// The largest value of each window over [height, width, channels].
struct MaxPooling2DLayer {
  Extent pool_size{2, 2};
  Extent strides{2, 2};  // a manifest that omits it gets pool_size
  Padding padding = Padding::kValid;

  friend bool operator==(const MaxPooling2DLayer&, const MaxPooling2DLayer&) = default;
};

// Any shape to one dimension, row-major.
struct FlattenLayer {
  friend bool operator==(const FlattenLayer&, const FlattenLayer&) = default;
};

// While training, sets elements to zero with probability `rate`, scales the others by 1/(1 - rate).
struct DropoutLayer {
  double rate = 0;

  friend bool operator==(const DropoutLayer&, const DropoutLayer&) = default;
};

using Layer = std::variant<DenseLayer, Conv2DLayer, MaxPooling2DLayer, FlattenLayer, DropoutLayer>;

struct ModelSpec {
  std::vector<int64_t> input_shape;  // of one sample, channels last
  std::vector<Layer> layers;

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

enum class LossType {
  kMeanSquaredError,
  kBinaryCrossentropy,
  kCategoricalCrossentropy,
  kSparseCategoricalCrossentropy
};

struct LossSpec {
  LossType type = LossType::kMeanSquaredError;
  bool from_logits = false;  // the crossentropies only: the network's last activation is linear

  friend bool operator==(const LossSpec&, const LossSpec&) = default;
};

struct SgdOptimizer {
  double learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;

  friend bool operator==(const SgdOptimizer&, const SgdOptimizer&) = default;
};

struct AdamOptimizer {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  // AdamW: each update first takes so many times the learning rate off every parameter. 0: Adam.
  double weight_decay = 0;

  friend bool operator==(const AdamOptimizer&, const AdamOptimizer&) = default;
};

using OptimizerSpec = std::variant<SgdOptimizer, AdamOptimizer>;

// A pair of IDX files, plain or gzip. Paths are absolute or relative to the job's data directory.
struct IdxFiles {
  std::string images;
  std::string labels;

  friend bool operator==(const IdxFiles&, const IdxFiles&) = default;
};

struct DatasetSpec {
  IdxFiles train;
  double scale = 1;     // every input byte is multiplied by it
  bool shuffle = true;  // a new order each data epoch, from the seed
  // The test split: the last `test_samples` of `train` (then not trained on), or files of its own.
  // Neither (0 and null): no test at the end.
  int64_t test_samples = 0;
  std::optional<IdxFiles> test;

  friend bool operator==(const DatasetSpec&, const DatasetSpec&) = default;
};

struct CheckpointSpec {
  std::string directory = "checkpoints";  // absolute, or relative to the job's own directory
  int64_t every_steps = 100;              // 0: only at the end and when asked to stop
  int64_t keep = 3;                       // older ones are removed

  friend bool operator==(const CheckpointSpec&, const CheckpointSpec&) = default;
};

// What gradients are summed with.
enum class AllReduceBackend {
  kAuto,  // NCCL where the engine keeps its gradients on a GPU, else the CPU
  kCpu,   // shared memory within a host, TCP between hosts
  kNccl   // NCCL, or the job fails
};

struct CommunicationSpec {
  AllReduceBackend all_reduce = AllReduceBackend::kAuto;
  int64_t bytes_per_pack = 4 * 1024 * 1024;   // upper size of one all-reduced bucket
  std::chrono::milliseconds timeout{30'000};  // for one collective operation as a whole

  friend bool operator==(const CommunicationSpec&, const CommunicationSpec&) = default;
};

inline constexpr double kDefaultWeightDecay = 0.004;  // Keras's

enum class LengthUnit { kEpochs, kSteps };

// How long to train: whole passes over the data, or optimizer updates.
struct TrainingLength {
  LengthUnit unit = LengthUnit::kEpochs;
  int64_t count = 1;

  friend bool operator==(const TrainingLength&, const TrainingLength&) = default;
};

// What happens to the samples of a data epoch that do not fill a global batch.
enum class RemainderRule {
  kKeep,  // the epoch's last batch is smaller, as in Keras
  kDrop   // they are left out of that epoch
};

// Where a job's variables are. The manifest says it in spec.strategy, which also tells one machine
// from several: here that is the number of ranks.
enum class VariablePlacement {
  kMirrored,         // every replica holds all variables and the optimizer's state
  kCentral,          // one replica does, and gives the variables to the others
  kIndependent,      // every rank has a model of its own, mirrored by its replicas
  kParameterServers  // processes that train nothing hold them; the ranks pull and push
};

// The numbers that forward and backward compute with. Weights, losses, sums and updates are float32
// under each of them.
enum class Precision { kFloat32, kBFloat16, kFloat16 };

// Choice: enough that a worker that is slow for a moment stops nobody.
inline constexpr int64_t kDefaultMaxStaleness = 4;

struct TrainingSpec {
  int64_t seed = 0;  // of weights, order of samples and dropout
  TrainingLength length;
  int64_t global_batch_size = 32;  // over all ranks
  RemainderRule remainder = RemainderRule::kKeep;
  // How many steps a worker may be ahead of the slowest; with parameter servers only. Null:
  // kDefaultMaxStaleness.
  std::optional<int64_t> max_staleness;
  bool terminate_on_nan = true;  // stop at the step whose loss or gradients are not finite
  // Of the gradients of a step over all samples: longer ones are shortened to it. Null: none are.
  std::optional<double> gradient_clip_norm;
  Precision precision = Precision::kFloat32;
  VariablePlacement variables = VariablePlacement::kMirrored;
  int64_t replicas = 1;              // of the model in each process, with a thread each
  std::vector<std::string> devices;  // GPUs by index or UUID, a replica on each; empty: none named
  ModelSpec model;
  LossSpec loss;
  OptimizerSpec optimizer = AdamOptimizer{};
  DatasetSpec dataset;
  CheckpointSpec checkpoint;
  CommunicationSpec communication;

  friend bool operator==(const TrainingSpec&, const TrainingSpec&) = default;
};

// Reads a manifest's section and checks every range and rule, layer shapes included. Problems are
// appended to `errors`, each with its path under `path` ("spec.training"); if any were, the
// returned spec is incomplete and only good for finding further problems.
TrainingSpec DecodeTrainingSpec(const Json& value,
                                const std::string& path,
                                std::vector<Error>* errors);

// The same from text, as a runtime finds it in its environment: there the section also says where
// the variables are.
// Errors: kInvalidArgument; one error that tells all problems (problems.h).
Result<TrainingSpec> ParseTrainingSpec(std::string_view text);

// The section with every default written out; DecodeTrainingSpec gives back an equal spec, but for
// the placement of variables.
Json EncodeTrainingSection(const TrainingSpec& spec);

// The same for a runtime: ParseTrainingSpec gives back an equal spec.
Json EncodeTrainingSpec(const TrainingSpec& spec);

// What one layer makes of its input.
struct LayerShape {
  std::vector<int64_t> output;  // of one sample, channels last
  int64_t parameter_count = 0;

  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

// The output shape and parameter count of each layer, in order.
// Errors: kInvalidArgument whose field names the layer ("layers[2].poolSize", under the model's
// path) and whose message gives the input it would have to read.
Result<std::vector<LayerShape>> InferShapes(const ModelSpec& model);

// Whether labels of that width are class numbers, counted from 0, to this loss over so many
// outputs.
bool ReadsClassNumbers(LossType type, int64_t label_width, int64_t output_width);

// A layer's `type` in a manifest: "Conv2D".
std::string_view LayerTypeName(const Layer& layer);

// The manifest's words: "relu", "same", "SparseCategoricalCrossentropy", "Adam".
std::string_view ActivationName(Activation activation);
std::string_view PaddingName(Padding padding);
std::string_view LossTypeName(LossType type);
std::string_view OptimizerName(const OptimizerSpec& optimizer);

// "[28, 28, 1]", as manifests and Keras write shapes.
std::string FormatShape(const std::vector<int64_t>& shape);

}  // namespace lockstep
