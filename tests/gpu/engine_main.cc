// Drives an engine plug-in alone on what it is given, and prints what it saw as one JSON line, for
// tests/gpu/engine_rows.py: losses, times of steps, what the engine says of itself, and how long a
// snapshot keeps the training thread.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/base/stopwatch.h"
#include "common/base/time.h"
#include "common/json/json.h"
#include "tests/gpu/listened_steps.h"
#include "tests/gpu/rows.h"
#include "trainer-runtime/engine/plugin_engine.h"

namespace lockstep::gpu {
namespace {

using runtime::Engine;
using runtime::EnginePart;
using runtime::StepOptions;
using runtime::StepResult;

struct Options {
  std::string plugin;
  std::string spec;    // a training section, a file
  std::string inputs;  // float32, [samples, width]
  std::string labels;  // float32, [samples, width]
  std::string weights;
  std::string snapshots;
  std::size_t sample_count = 128;
  std::size_t batch_size = 128;
  std::size_t step_count = 50;
  std::size_t timed_rounds = 0;
  std::size_t timed_steps = 200;
  std::size_t listened_steps = 0;
  std::size_t fed_steps = 0;
};

constexpr std::size_t kSnapshotPeriod = 20;  // steps
constexpr std::size_t kSnapshotCount = 5;
constexpr std::size_t kFedWarmUp = 10;  // steps: more than go before a graph

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> ReadFloats(const std::string& path) {
  const std::string bytes = ReadFile(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::copy_n(bytes.data(), values.size() * sizeof(float), reinterpret_cast<char*>(values.data()));
  return values;
}

// What the engine says of how it computes.
Json NoticesOf(Engine& engine) {
  Json notices = Json::array();
  while (const auto notice = engine.TakeNotice()) {
    notices.push_back(*notice);
  }
  return notices;
}

class Subject {
 public:
  Subject(Engine* engine, const Options& options)
      : engine_(engine),
        batch_size_(options.batch_size),
        inputs_(ReadFloats(options.inputs)),
        labels_(ReadFloats(options.labels)),
        input_width_(inputs_.size() / options.sample_count),
        label_width_(labels_.size() / options.sample_count),
        batch_count_(options.sample_count / options.batch_size) {}

  runtime::Batch NextBatch() {
    const std::size_t begin = (step_ % batch_count_) * batch_size_;
    ++step_;
    return {.inputs = std::span(inputs_).subspan(begin * input_width_, batch_size_ * input_width_),
            .labels = std::span(labels_).subspan(begin * label_width_, batch_size_ * label_width_),
            .sample_count = static_cast<int64_t>(batch_size_)};
  }

  // Takes the next step. Returns the mean loss before it.
  Result<double> Step() {
    StepOptions options;
    options.is_prefetched = came_ahead_;
    const runtime::Batch batch = std::exchange(came_ahead_, false) ? Place(step_++) : TakeBatch();
    options.gradient_scale = 1.0 / static_cast<double>(batch_size_);
    if (is_ahead_) {
      options.next = [this]() -> std::optional<runtime::Batch> {
        came_ahead_ = true;
        return Gather(step_);
      };
    }
    const auto number = static_cast<int64_t>(step_);
    if (is_guarded_) {
      options.update = runtime::GuardedUpdate{.number = number};
    }
    Result<StepResult> result = engine_->ComputeGradients(batch, options);
    if (!result.ok() && is_guarded_ && result.error().code() == ErrorCode::kUnavailable) {
      is_guarded_ = false;  // this engine leaves updates to the host
      --step_;
      came_ahead_ = false;
      return Step();
    }
    if (!result.ok()) {
      return result.error();
    }
    overflow_count_ += result->overflow_count;
    if (!is_guarded_ && result->overflow_count == 0) {
      LOCKSTEP_RETURN_IF_ERROR(engine_->ApplyUpdate(number));
    }
    return result->loss_sum / static_cast<double>(batch_size_);
  }

  Result<double> MillisecondsPerStep(std::size_t count) {
    Stopwatch watch;
    for (std::size_t i = 0; i < count; ++i) {
      LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const double loss, Step());
    }
    return ToSeconds(watch.Lap()) * 1e3 / static_cast<double>(count);
  }

  // From here on batches are gathered into memory of their own, as a loader does: before each step,
  // or ahead of it, while the device is at the one before.
  void GatherBatches(bool is_ahead) {
    gathers_ = true;
    is_ahead_ = is_ahead;
  }

  bool is_guarded() const { return is_guarded_; }

  int64_t overflow_count() const { return overflow_count_; }

 private:
  runtime::Batch TakeBatch() { return gathers_ ? Gather(step_++) : NextBatch(); }

  // The batch of that step, gathered into one of two places, of which the other is the last step's.
  runtime::Batch Gather(std::size_t step) {
    const std::size_t begin = (step % batch_count_) * batch_size_;
    Rows& rows = gathered_[step % 2];
    rows.inputs.resize(batch_size_ * input_width_);
    rows.labels.resize(batch_size_ * label_width_);
    for (std::size_t i = 0; i < batch_size_; ++i) {
      std::copy_n(
          &inputs_[(begin + i) * input_width_], input_width_, &rows.inputs[i * input_width_]);
      std::copy_n(
          &labels_[(begin + i) * label_width_], label_width_, &rows.labels[i * label_width_]);
    }
    return Place(step);
  }

  runtime::Batch Place(std::size_t step) const {
    const Rows& rows = gathered_[step % 2];
    return {.inputs = rows.inputs,
            .labels = rows.labels,
            .sample_count = static_cast<int64_t>(batch_size_)};
  }

  struct Rows {
    std::vector<float> inputs;
    std::vector<float> labels;
  };

  Engine* const engine_;
  const std::size_t batch_size_;
  const std::vector<float> inputs_;
  const std::vector<float> labels_;
  const std::size_t input_width_;  // of a sample
  const std::size_t label_width_;
  const std::size_t batch_count_;  // then they come again
  std::size_t step_ = 0;
  bool is_guarded_ = true;
  int64_t overflow_count_ = 0;
  bool gathers_ = false;
  bool is_ahead_ = false;
  bool came_ahead_ = false;  // the next step's batch
  Rows gathered_[2];
};

std::string StateOf(Engine& engine) {
  std::string bytes;
  for (const runtime::TensorView& tensor : engine.Tensors()) {
    bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size_bytes());
  }
  return bytes;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<int64_t>(bytes.size()));
}

// As the trainer does: the state comes to the host and is copied, and a thread writes the copy
// while training goes on.
Result<Json> TimeSnapshots(Engine& engine, Subject& subject, const std::string& path) {
  double stall = 0;
  double writing = 0;
  std::size_t byte_count = 0;
  std::size_t steps_beside = 0;
  for (std::size_t i = 0; i < kSnapshotCount; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const double pause,
                              subject.MillisecondsPerStep(kSnapshotPeriod));
    Stopwatch watch;
    LOCKSTEP_RETURN_IF_ERROR(engine.BringToHost(EnginePart::kState));
    std::string copy = StateOf(engine);
    byte_count = copy.size();
    stall += ToSeconds(watch.Lap());
    auto written = std::async(std::launch::async, [&path, copy = std::move(copy)] {
      Stopwatch own;
      WriteFile(path, copy);
      return ToSeconds(own.Lap());
    });
    while (written.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const double loss, subject.Step());
      ++steps_beside;
    }
    writing += written.get();
  }
  constexpr double kToMilliseconds = 1e3 / static_cast<double>(kSnapshotCount);
  return Json{{"stallMs", stall * kToMilliseconds},
              {"writeMs", writing * kToMilliseconds},
              {"bytes", byte_count},
              {"stepsBeside", steps_beside}};
}

// The same steps by two engines, one of which may do them from a graph.
Result<Json> Listen(const runtime::EnginePlugin& plugin, const Options& options) {
  Json said;
  std::vector<ListenedSteps> ways;
  for (const Listening listening : {Listening::kOneByOne, Listening::kInARow}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, plugin.MakeEngine(ReadFile(options.spec)));
    Subject subject(engine.get(), options);
    LOCKSTEP_ASSIGN_OR_RETURN(ListenedSteps taken,
                              TakeListenedSteps(*engine, listening, options.listened_steps, [&] {
                                return subject.NextBatch();
                              }));
    said["msPerStep"].push_back(taken.ms_per_step);
    said["late"].push_back(taken.late_count);
    said["buckets"].push_back(taken.bucket_count);
    said["notices"].push_back(NoticesOf(*engine));
    ways.push_back(std::move(taken));
  }
  said["isEqual"] = ways[0].parameters == ways[1].parameters;
  return said;
}

// The same steps by two engines, whose batches are gathered before each step, or ahead of it.
Result<Json> Feed(const runtime::EnginePlugin& plugin, const Options& options) {
  Json said;
  std::vector<std::string> states;
  for (const bool is_ahead : {false, true}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, plugin.MakeEngine(ReadFile(options.spec)));
    Subject subject(engine.get(), options);
    subject.GatherBatches(is_ahead);
    LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const double warm_up,
                              subject.MillisecondsPerStep(kFedWarmUp));
    LOCKSTEP_ASSIGN_OR_RETURN(const double time, subject.MillisecondsPerStep(options.fed_steps));
    said["msPerStep"].push_back(time);
    LOCKSTEP_RETURN_IF_ERROR(engine->BringToHost(EnginePart::kState));
    states.push_back(StateOf(*engine));
  }
  said["isEqual"] = states[0] == states[1];
  return said;
}

Result<Json> Run(const Options& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const runtime::EnginePlugin plugin,
                            runtime::EnginePlugin::Load({options.plugin, ""}));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, plugin.MakeEngine(ReadFile(options.spec)));
  LOCKSTEP_RETURN_IF_ERROR(engine->BringToHost(EnginePart::kState));
  if (!options.weights.empty()) {
    std::string bytes;
    for (const runtime::TensorView& tensor : engine->Tensors()) {
      if (tensor.kind == runtime::TensorKind::kParameter) {
        bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size_bytes());
      }
    }
    WriteFile(options.weights, bytes);
  }
  LOCKSTEP_RETURN_IF_ERROR(engine->BringToDevice(EnginePart::kState));
  Subject subject(engine.get(), options);
  Json losses = Json::array();
  for (std::size_t step = 0; step < options.step_count; ++step) {
    LOCKSTEP_ASSIGN_OR_RETURN(const double loss, subject.Step());
    losses.push_back(loss);
  }
  Json times = Json::array();
  for (std::size_t round = 0; round < options.timed_rounds; ++round) {
    LOCKSTEP_ASSIGN_OR_RETURN(const double time, subject.MillisecondsPerStep(options.timed_steps));
    times.push_back(time);
  }
  Json said{{"engine", engine->Description()}, {"losses", losses}, {"msPerStep", times}};
  if (!options.snapshots.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(said["snapshot"], TimeSnapshots(*engine, subject, options.snapshots));
  }
  if (options.listened_steps > 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(said["listened"], Listen(plugin, options));
  }
  if (options.fed_steps > 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(said["fed"], Feed(plugin, options));
  }
  said["notices"] = NoticesOf(*engine);
  said["isGuarded"] = subject.is_guarded();
  said["overflows"] = subject.overflow_count();
  return said;
}

}  // namespace
}  // namespace lockstep::gpu

int main(int argc, char** argv) {
  lockstep::gpu::Options options;
  CLI::App app("What an engine does on this machine, as one JSON line");
  app.add_option("--plugin", options.plugin, "the engine")->required();
  app.add_option("--spec", options.spec, "file of a training section")->required();
  app.add_option("--inputs", options.inputs, "file of float32")->required();
  app.add_option("--labels", options.labels, "file of float32")->required();
  app.add_option("--weights", options.weights, "write the first parameters here");
  app.add_option("--snapshots", options.snapshots, "write snapshots here, and time them");
  app.add_option("--samples", options.sample_count, "that the files have")->required();
  app.add_option("--batch", options.batch_size, "samples a step");
  app.add_option("--steps", options.step_count, "steps whose losses are told");
  app.add_option("--rounds", options.timed_rounds, "times that are taken");
  app.add_option("--timed-steps", options.timed_steps, "steps of each");
  app.add_option("--listened", options.listened_steps, "steps whose buckets are copied beside");
  app.add_option("--fed", options.fed_steps, "steps whose batches are gathered, and come ahead");
  CLI11_PARSE(app, argc, argv);
  const auto said = lockstep::gpu::Run(options);
  if (!said.ok()) {
    std::cerr << said.error().ToString() << "\n";
    return lockstep::gpu::kExitMissed;
  }
  std::cout << lockstep::DumpJson(*said) << "\n";
  return lockstep::gpu::kExitHeld;
}
