// Drives the engine plug-in alone, without communication, on the digits of examples/data/mnist, and
// prints one JSON line: steps per second of each pass over the data, the loss of each, and where
// the time of a step went. tests/bench/mnist/run.py compares it with PyTorch.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/base/io/file.h"
#include "common/base/stopwatch.h"
#include "common/base/time.h"
#include "common/contract/training/training_spec.h"
#include "common/json/json.h"
#include "trainer-runtime/data/batch_loader.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/engine/plugin_engine.h"

namespace lockstep::runtime {
namespace {

struct Options {
  std::string data_directory;
  std::string plugin;
  std::string weights_file;  // receives the initial parameters, float32, in order of Tensors()
  int64_t batch_size = 128;
  int64_t passes = 3;
};

// The tutorial's network, as examples/mnist.yaml has it; fixed order of samples, so that another
// framework can be given the same batches.
TrainingSpec Network(const Options& options) {
  TrainingSpec spec;
  spec.seed = 1;
  spec.global_batch_size = options.batch_size;
  spec.remainder = RemainderRule::kDrop;
  spec.model.input_shape = {28, 28, 1};
  spec.model.layers = {Conv2DLayer{.filters = 32,
                                   .kernel_size = {3, 3},
                                   .strides = {1, 1},
                                   .padding = Padding::kValid,
                                   .activation = Activation::kRelu},
                       MaxPooling2DLayer{},
                       FlattenLayer{},
                       DenseLayer{.units = 64, .activation = Activation::kRelu},
                       DenseLayer{.units = 10}};
  spec.loss = {LossType::kSparseCategoricalCrossentropy, true};
  spec.dataset.train = {"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};
  spec.dataset.scale = 1.0 / 255;
  spec.dataset.shuffle = false;
  spec.dataset.test_samples = 1000;
  return spec;
}

std::string ExecutableDirectory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

Status DumpParameters(Engine& engine, const std::string& path) {
  std::string bytes;
  for (const TensorView& tensor : engine.Tensors()) {
    if (tensor.kind == TensorKind::kParameter) {
      bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size_bytes());
    }
  }
  return WriteFileAtomically(path, bytes);
}

Result<double> TestAccuracy(Engine& engine, const Dataset& test) {
  std::vector<int64_t> ids(static_cast<std::size_t>(test.sample_count()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int64_t>(i);
  }
  std::vector<float> inputs(ids.size() * static_cast<std::size_t>(test.input_width()));
  std::vector<float> labels(ids.size());
  test.Gather(ids, inputs, labels);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const StepResult result,
      engine.Evaluate({.inputs = inputs, .labels = labels, .sample_count = test.sample_count()}));
  return static_cast<double>(result.correct_count) / static_cast<double>(test.sample_count());
}

// Seconds of each part of a step, summed over a pass.
struct Parts {
  double data = 0;
  double compute = 0;
  double update = 0;
  double loss = 0;  // mean over the pass's samples
};

// Seconds of processor time of this process, all threads: unlike the clock on the wall it shows the
// same on a busy machine.
double ProcessorSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

Result<Parts> RunPass(Engine& engine, BatchLoader& loader, int64_t pass, int64_t steps) {
  Parts parts;
  Stopwatch watch;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t position = step * loader.plan().global_batch_size;
    const LoadedBatch batch = loader.Load({.data_epoch = pass, .position = position}, {});
    const LoadedShare& share = batch.shares.front();
    parts.data += ToSeconds(watch.Lap());
    const double scale = 1 / static_cast<double>(batch.ids.size());
    LOCKSTEP_ASSIGN_OR_RETURN(
        const StepResult result,
        engine.ComputeGradients(
            {.inputs = share.inputs, .labels = share.labels, .sample_count = share.sample_count},
            {.gradient_scale = scale, .dropout_seed = 0}));
    parts.compute += ToSeconds(watch.Lap());
    LOCKSTEP_RETURN_IF_ERROR(engine.ApplyUpdate(pass * steps + step + 1));
    parts.update += ToSeconds(watch.Lap());
    parts.loss += result.loss_sum * scale / static_cast<double>(steps);
  }
  return parts;
}

Result<Json> Measure(const Options& options) {
  Stopwatch watch;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const EnginePlugin plugin,
      EnginePlugin::Load({.path = options.plugin, .executable_directory = ExecutableDirectory()}));
  const double load_seconds = ToSeconds(watch.Lap());
  const TrainingSpec spec = Network(options);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto engine,
                            plugin.MakeEngine(DumpJson(EncodeTrainingSpec(spec))));
  const double make_seconds = ToSeconds(watch.Lap());
  if (!options.weights_file.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(DumpParameters(*engine, options.weights_file));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const DatasetSplits data,
                            LoadDataset(spec.dataset, options.data_directory));
  const BatchPlan plan{.sample_count = data.train.sample_count(),
                       .global_batch_size = options.batch_size,
                       .remainder = RemainderRule::kDrop};
  BatchLoader loader(&data.train, {.plan = plan, .seed = spec.seed, .shuffle = false});
  const int64_t steps = data.train.sample_count() / options.batch_size;
  Json passes = Json::array();
  for (int64_t pass = 0; pass < options.passes; ++pass) {
    const double processor_start = ProcessorSeconds();
    LOCKSTEP_ASSIGN_OR_RETURN(const Parts parts, RunPass(*engine, loader, pass, steps));
    const double processor_seconds = ProcessorSeconds() - processor_start;
    const double seconds = parts.data + parts.compute + parts.update;
    const auto per_step = [&](double part) { return part * 1e3 / static_cast<double>(steps); };
    passes.push_back({{"stepsPerSecond", static_cast<double>(steps) / seconds},
                      {"loss", parts.loss},
                      {"cpuMs", per_step(processor_seconds)},
                      {"dataMs", per_step(parts.data)},
                      {"computeMs", per_step(parts.compute)},
                      {"updateMs", per_step(parts.update)}});
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const double accuracy, TestAccuracy(*engine, data.test));
  return Json{{"engine", engine->Description()},
              {"loadSeconds", load_seconds},
              {"makeSeconds", make_seconds},
              {"passes", passes},
              {"testAccuracy", accuracy}};
}

}  // namespace
}  // namespace lockstep::runtime

int main(int argc, char** argv) {
  lockstep::runtime::Options options;
  CLI::App app("Steps per second of the numeric engine on real digits");
  app.add_option("--data", options.data_directory, "folder of the IDX files")->required();
  app.add_option("--engine", options.plugin, "plug-in; beside this program by default");
  app.add_option("--weights", options.weights_file, "write the initial parameters here");
  app.add_option("--batch", options.batch_size, "samples a step");
  app.add_option("--passes", options.passes, "passes over the data; the first is warm-up");
  CLI11_PARSE(app, argc, argv);
  const auto result = lockstep::runtime::Measure(options);
  if (!result.ok()) {
    std::cerr << result.error().ToString() << "\n";
    return 1;
  }
  std::cout << lockstep::DumpJson(*result) << "\n";
  return 0;
}
