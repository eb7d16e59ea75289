#include "trainer-runtime/train/test_gang.h"

#include <array>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/reduce/host_reducer.h"
#include "trainer-runtime/session/state_source.h"
#include "trainer-runtime/strategy/lent_replica.h"
#include "trainer-runtime/strategy/rank_control.h"
#include "trainer-runtime/train/testing/fake_wire.h"

namespace lockstep::runtime {
namespace {

Links ConnectAll(std::size_t count) {
  Links links(count);
  for (auto& row : links) {
    row.resize(count);
  }
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      std::array<int, 2> pair{};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()),
                0);
      links[a][b] = UniqueFd(pair[0]);
      links[b][a] = UniqueFd(pair[1]);
    }
  }
  return links;
}

// Ends like a process that is killed between two calls: the links close when it is destroyed.
class MortalCommunicator final : public Communicator {
 public:
  MortalCommunicator(std::unique_ptr<Communicator> inner, int calls_left)
      : inner_(std::move(inner)), calls_left_(calls_left) {}

  int rank() const override { return inner_->rank(); }

  int world_size() const override { return inner_->world_size(); }

  Status AllReduce(
      void* data, std::size_t count, DataType type, ReduceOp op, Deadline deadline) override {
    LOCKSTEP_RETURN_IF_ERROR(Live());
    return inner_->AllReduce(data, count, type, op, deadline);
  }

  Status Broadcast(void* data, std::size_t byte_count, int root, Deadline deadline) override {
    LOCKSTEP_RETURN_IF_ERROR(Live());
    return inner_->Broadcast(data, byte_count, root, deadline);
  }

  Status Fill(
      void* data, std::size_t byte_count, int root, bool holds, Deadline deadline) override {
    LOCKSTEP_RETURN_IF_ERROR(Live());
    return inner_->Fill(data, byte_count, root, holds, deadline);
  }

  Status Barrier(Deadline deadline) override {
    LOCKSTEP_RETURN_IF_ERROR(Live());
    return inner_->Barrier(deadline);
  }

  void Abort(const Error& reason) noexcept override { inner_->Abort(reason); }

  // Reading is no call, but a rank may die as it reads.
  Status CheckHealth() override {
    LOCKSTEP_RETURN_IF_ERROR(Live());
    return inner_->CheckHealth();
  }

  const std::byte* LentBy(int root, const void* data, std::size_t byte_count) const override {
    return inner_->LentBy(root, data, byte_count);
  }

  const char* BackendName() const override { return inner_->BackendName(); }

 private:
  Status Live() {
    return calls_left_-- > 0 ? OkStatus() : Status(Error(ErrorCode::kAborted, "killed"));
  }

  std::unique_ptr<Communicator> inner_;
  int calls_left_;
};

}  // namespace

GangRank::GangRank(const TrainingSpec& spec, const GangParts& parts, CheckpointStore* checkpoints)
    : logger(parts.make_logger()) {
  replicas = MakeReplicas(spec, parts.make_engine).value();
  engine = &replicas->engine(0);
  lent = LendFirstReplica(replicas.get()).value();
  strategy = MakeStrategy(spec, replicas.get());
  bucket_count = PlanBuckets(spec, replicas.get()).beside.size();
  TrainerHooks hooks;
  hooks.on_step = [this](const StepReport& report) {
    losses.push_back(report.loss);
    if (after_step) {
      after_step(report);
    }
  };
  hooks.on_checkpoint = [this](const SaveOutcome& outcome) {
    checkpoints_failed += outcome.status.ok() ? 0 : 1;
  };
  trainer.emplace(
      Trainer::Make(
          spec, {strategy.get(), parts.train, parts.test, checkpoints, logger.get()}, hooks)
          .value());
}

Gang MakeGang(int count, const TrainingSpec& spec, const GangParts& parts) {
  Gang gang;
  for (int i = 0; i < count; ++i) {
    gang.push_back(std::make_unique<GangRank>(spec, parts));
  }
  return gang;
}

void RunMeeting(const Gang& gang, Epoch epoch, GangHosts hosts) {
  const std::size_t count = gang.size();
  Links links = ConnectAll(count);
  std::vector<std::unique_ptr<FakeWire>> wires;  // outlive the threads
  for (std::size_t i = 0; i < count; ++i) {
    if (gang[i]->bytes_left.has_value()) {
      wires.push_back(std::make_unique<FakeWire>(&links, i, *gang[i]->bytes_left));
    }
  }
  std::vector<MemberFacts> members(count);
  for (std::size_t i = 0; i < count; ++i) {
    members[i].rank = static_cast<int>(i);
    members[i].has_state = gang[i]->trainer->has_state();
    members[i].last_applied = gang[i]->trainer->last_applied();
  }
  const std::optional<int> source = PickStateSource(members);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      CommunicatorOptions options;
      options.rank = static_cast<int>(i);
      options.world_size = static_cast<int>(count);
      options.epoch = epoch;
      options.links = std::move(links[i]);
      options.lent = gang[i]->lent.get();
      if (wires.empty() &&
          hosts == GangHosts::kOne) {  // through shared memory no wire sees anything
        options.host_ids.assign(count, "one-host");
      }
      const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::seconds(30));
      auto joined = MakeCommunicator(std::move(options), deadline);
      if (!joined.ok()) {
        gang[i]->verdict = std::move(joined).error();
        return;
      }
      MortalCommunicator communicator(std::move(joined).value(), gang[i]->calls_left);
      const auto reducer = MakeHostReducer(&communicator, gang[i]->bucket_count);
      RankControl control(&communicator);
      gang[i]->verdict = gang[i]->trainer->RunMeeting(
          source, {&control, reducer.get()}, gang[i]->is_stop_requested);
    });
  }
}

void ExpectAll(const Gang& gang, TrainerVerdict verdict) {
  for (const auto& rank : gang) {
    ASSERT_TRUE(rank->verdict.has_value());
    ASSERT_TRUE(rank->verdict->ok()) << rank->verdict->error().ToString();
    EXPECT_EQ(**rank->verdict, verdict);
  }
}

std::vector<float> Weights(Engine* engine) {
  EXPECT_TRUE(engine->BringToHost(EnginePart::kState).ok());
  std::vector<float> weights;
  for (const TensorView& tensor : engine->Tensors()) {
    weights.insert(weights.end(), tensor.data.begin(), tensor.data.end());
  }
  return weights;
}

}  // namespace lockstep::runtime
