// One rank of two that train side by side: prints, as one JSON line of rank 0, how long a step of
// each kind took, round by round. tests/bench/overlap/run.py joins the two by a slow link.
#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <sys/socket.h>

#include "common/base/io/unique_fd.h"
#include "common/base/prng.h"
#include "common/base/time.h"
#include "common/contract/training/training_spec.h"
#include "common/json/json.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/reduce/communicator_reducer.h"
#include "trainer-runtime/collectives/reduce/host_reducer.h"
#include "trainer-runtime/engine/plugin_engine.h"
#include "trainer-runtime/strategy/make_strategy.h"

namespace lockstep::runtime {
namespace {

constexpr int64_t kInputWidth = 784;
constexpr int64_t kClassCount = 10;
constexpr Duration kPatience = std::chrono::seconds(60);

struct Options {
  int rank = 0;
  std::string address;  // rank 0's
  uint16_t port = 0;
  std::string plugin;
  std::vector<int64_t> hidden;  // units of the layers before the last
  int64_t batch_size = 128;     // of each rank
  int64_t bytes_per_pack = 4 << 20;
  int64_t rounds = 5;
  int64_t steps = 10;  // of each kind and round
};

TrainingSpec Network(const Options& options) {
  TrainingSpec spec;
  spec.seed = 1;
  spec.global_batch_size = 2 * options.batch_size;
  spec.model.input_shape = {kInputWidth};
  for (const int64_t units : options.hidden) {
    spec.model.layers.emplace_back(DenseLayer{.units = units, .activation = Activation::kRelu});
  }
  spec.model.layers.emplace_back(DenseLayer{.units = kClassCount});
  spec.loss = {LossType::kSparseCategoricalCrossentropy, true};
  spec.dataset.train = {"images", "labels"};
  spec.communication.bytes_per_pack = options.bytes_per_pack;
  return spec;
}

Result<UniqueFd> Connect(const Options& options) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options.port);
  ::inet_pton(AF_INET, options.address.c_str(), &address.sin_addr);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  const Deadline deadline = Deadline::After(SteadyNow(), kPatience);
  if (options.rank == 0) {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;  // connections of the turn before linger on the port
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    const timeval patience{60, 0};
    ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (::bind(listener.get(), plain, sizeof(address)) != 0 || ::listen(listener.get(), 1) != 0) {
      return SystemError(errno, "bind and listen");
    }
    UniqueFd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    return accepted.is_open() ? Result<UniqueFd>(std::move(accepted))
                              : Result<UniqueFd>(SystemError(errno, "accept"));
  }
  while (!deadline.HasPassed(SteadyNow())) {
    UniqueFd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(connection.get(), plain, sizeof(address)) == 0) {
      ::fcntl(connection.get(), F_SETFL, O_NONBLOCK);
      return connection;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return Error(ErrorCode::kTimeout, "rank 0 does not listen");
}

Result<std::unique_ptr<Communicator>> Join(const Options& options) {
  CommunicatorOptions pair;
  pair.rank = options.rank;
  pair.world_size = 2;
  pair.links.resize(2);
  LOCKSTEP_ASSIGN_OR_RETURN(pair.links[options.rank == 0 ? 1 : 0], Connect(options));
  return MakeCommunicator(std::move(pair), Deadline::After(SteadyNow(), kPatience));
}

// Everything that a step needs, and the four kinds of it.
class Bench {
 public:
  Bench(const Options& options,
        std::unique_ptr<ReplicaSet> replicas,
        std::unique_ptr<Communicator> pair)
      : options_(options),
        spec_(Network(options)),
        buckets_(PlanBuckets(spec_, replicas.get()).beside),
        replicas_(std::move(replicas)),
        strategy_(MakeStrategy(spec_, replicas_.get())),
        pair_(std::move(pair)),
        alone_(MakeCommunicator({}, Soon()).value()) {
    Prng prng(static_cast<uint64_t>(options.rank) + 1);
    for (int64_t i = 0; i < options.batch_size * kInputWidth; ++i) {
      inputs_.push_back(static_cast<float>(prng.Unit()));
    }
    for (int64_t i = 0; i < options.batch_size; ++i) {
      labels_.push_back(static_cast<float>(prng.Below(kClassCount)));
    }
  }

  Result<Json> Run() {
    Json rounds = Json::array();
    for (int64_t round = 0; round <= options_.rounds; ++round) {
      LOCKSTEP_ASSIGN_OR_RETURN(const Json times, RunRound());
      if (round > 0) {  // the first warms up
        rounds.push_back(times);
      }
    }
    return Json{{"gradientBytes", Gradients().size_bytes()},
                {"bucketCount", buckets_.size()},
                {"engine", replicas_->engine(0).Description()},
                {"rounds", rounds}};
  }

 private:
  static Deadline Soon() { return Deadline::After(SteadyNow(), kPatience); }

  std::span<float> Gradients() { return replicas_->engine(0).Gradients(); }

  Result<Json> RunRound() {
    CommunicatorReducer nothing(alone_.get());
    CommunicatorReducer afterwards(pair_.get());
    const auto beside = MakeHostReducer(pair_.get(), buckets_.size());
    LOCKSTEP_ASSIGN_OR_RETURN(const double compute, Time([&] { return Step(&nothing); }));
    LOCKSTEP_ASSIGN_OR_RETURN(const double wire, Time([&] { return Exchange(&afterwards); }));
    LOCKSTEP_ASSIGN_OR_RETURN(const double after, Time([&] { return Step(&afterwards); }));
    LOCKSTEP_ASSIGN_OR_RETURN(const double step, Time([&] { return Step(beside.get()); }));
    return Json{{"computeMs", compute}, {"wireMs", wire}, {"afterMs", after}, {"stepMs", step}};
  }

  Status Step(GradientReducer* reducer) {
    const ReplicaShare share{{inputs_, labels_, options_.batch_size}, 0};
    const double scale = 0.5 / static_cast<double>(options_.batch_size);
    const auto totals = [this](const StepResult& /*sums*/) -> std::span<double> { return totals_; };
    LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const StepOutcome outcome,
                              strategy_->Step({{&share, 1}, scale}, {reducer, Soon(), totals}));
    return strategy_->Apply(++update_);
  }

  Status Exchange(GradientReducer* reducer) {
    for (const Bucket& bucket : buckets_) {
      LOCKSTEP_RETURN_IF_ERROR(
          reducer->Enqueue(Gradients().subspan(static_cast<std::size_t>(bucket.element_offset),
                                               static_cast<std::size_t>(bucket.element_count)),
                           Soon()));
    }
    return reducer->Finish(Soon());
  }

  // Milliseconds of one, of the slower rank.
  template <typename Work>
  Result<double> Time(const Work& work) {
    LOCKSTEP_RETURN_IF_ERROR(pair_->Barrier(Soon()));
    const TimePoint begin = SteadyNow();
    for (int64_t i = 0; i < options_.steps; ++i) {
      LOCKSTEP_RETURN_IF_ERROR(work());
    }
    double took = ToSeconds(SteadyNow() - begin) * 1e3 / static_cast<double>(options_.steps);
    LOCKSTEP_RETURN_IF_ERROR(
        pair_->AllReduce(&took, 1, DataType::kFloat64, ReduceOp::kMax, Soon()));
    return took;
  }

  const Options options_;
  const TrainingSpec spec_;
  const std::vector<Bucket> buckets_;
  const std::unique_ptr<ReplicaSet> replicas_;
  const std::unique_ptr<Strategy> strategy_;
  const std::unique_ptr<Communicator> pair_;
  const std::unique_ptr<Communicator> alone_;
  std::vector<float> inputs_;
  std::vector<float> labels_;
  std::array<double, 4> totals_{};
  int64_t update_ = 0;
};

std::string ExecutableDirectory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

Result<Json> Measure(const Options& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const EnginePlugin plugin,
      EnginePlugin::Load({.path = options.plugin, .executable_directory = ExecutableDirectory()}));
  LOCKSTEP_ASSIGN_OR_RETURN(auto replicas,
                            MakeReplicas(Network(options), [&](const TrainingSpec& spec) {
                              return plugin.MakeEngine(DumpJson(EncodeTrainingSpec(spec)));
                            }));
  LOCKSTEP_ASSIGN_OR_RETURN(auto pair, Join(options));
  return Bench(options, std::move(replicas), std::move(pair)).Run();
}

}  // namespace
}  // namespace lockstep::runtime

int main(int argc, char** argv) {
  lockstep::runtime::Options options;
  CLI::App app("Steps of two ranks whose gradients are summed beside or after backward");
  app.add_option("--rank", options.rank, "0 or 1")->required();
  app.add_option("--address", options.address, "rank 0's")->required();
  app.add_option("--port", options.port, "rank 0's")->required();
  app.add_option("--engine", options.plugin, "plug-in; beside this program by default");
  app.add_option("--hidden", options.hidden, "units of the layers before the last");
  app.add_option("--batch", options.batch_size, "samples a step of each rank");
  app.add_option("--bucket-bytes", options.bytes_per_pack, "the largest bucket");
  app.add_option("--rounds", options.rounds, "after one that warms up");
  app.add_option("--steps", options.steps, "of each kind and round");
  CLI11_PARSE(app, argc, argv);
  const auto result = lockstep::runtime::Measure(options);
  if (!result.ok()) {
    std::cerr << result.error().ToString() << "\n";
    return 1;
  }
  if (options.rank == 0) {
    std::cout << lockstep::DumpJson(*result) << "\n";
  }
  return 0;
}
