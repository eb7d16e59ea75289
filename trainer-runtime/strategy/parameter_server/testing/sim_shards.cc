#include "trainer-runtime/strategy/parameter_server/testing/sim_shards.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <gtest/gtest.h>

namespace lockstep::runtime::testing {
namespace {

constexpr int64_t kFaultsForMs = 4000;
constexpr int64_t kCalmForMs = 20000;
constexpr int64_t kElements = 3;

// Exact in float32 and not commutative: 31 * 65521 is below 2^24.
constexpr float kModulus = 65521;

// The slots keep which pushes were applied, in their order.
void Update(int64_t /*update_number*/,
            std::span<const float> gradient,
            std::vector<float>* parameters,
            std::vector<float>* slots) {
  for (std::size_t i = 0; i < parameters->size(); ++i) {
    (*parameters)[i] = std::fmod((*parameters)[i] * 31 + gradient[i], kModulus);
  }
  slots->push_back(gradient[0]);
}

SharedValues GradientOf(std::size_t push) {
  const auto number = static_cast<float>(push);
  return std::make_shared<const std::vector<float>>(
      std::vector<float>{number, number + 1, 2 * number});
}

SharedValues SeedValues() {
  return std::make_shared<const std::vector<float>>(std::vector<float>(kElements, 7));
}

std::string NameOf(const WorkerProcess& process) {
  return "worker " + std::to_string(process.worker) + "." +
         std::to_string(process.incarnation.value());
}

}  // namespace

ShardWorld::ShardWorld(uint64_t seed)
    : prng_(seed),
      server_count_(static_cast<int>(Between(1, 4))),
      worker_count_(static_cast<int>(Between(1, 4))),
      max_staleness_(Between(0, 3)),
      views_(static_cast<std::size_t>(server_count_)) {
  for (int server = 0; server < server_count_; ++server) {
    server_incarnations_[server] = Incarnation();
    At(Between(0, 300'000), [this, server] { SpawnServer(server); });
  }
  for (int worker = 0; worker < worker_count_; ++worker) {
    worker_incarnations_[worker] = Incarnation();
    At(Between(0, 300'000), [this, worker] { SpawnWorker(worker); });
  }
}

void ShardWorld::Run() {
  const TimePoint start = now_;
  for (int fault = 0; fault < 6; ++fault) {
    At(Between(10, kFaultsForMs) * 1000, [this] { DoSomethingBad(); });
  }
  At(kFaultsForMs * 1000, [this] { is_faulty_ = false; });
  const TimePoint end = start + std::chrono::milliseconds(kFaultsForMs + kCalmForMs);
  while (!queue_.empty() && queue_.top().when < end) {
    Event next = queue_.top();
    queue_.pop();
    now_ = next.when;
    next.run();
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
  ExpectFinished();
}

int64_t ShardWorld::Between(int64_t min, int64_t max) {
  return min + static_cast<int64_t>(prng_.Below(static_cast<uint64_t>(max - min + 1)));
}

void ShardWorld::At(int64_t delay_us, std::function<void()> run) {
  queue_.push({now_ + std::chrono::microseconds(delay_us), order_++, std::move(run)});
}

void ShardWorld::Deliver(std::function<void()> run) {
  const auto delay = [this] { return Chance(0.1) ? Between(0, 120'000) : Between(0, 2'000); };
  if (is_faulty_ && Chance(0.05)) {
    return;
  }
  if (is_faulty_ && Chance(0.05)) {
    At(delay(), run);
  }
  At(delay(), std::move(run));
}

void ShardWorld::Note(const std::string& text) {
  trace_ += std::to_string(now_.time_since_epoch() / std::chrono::milliseconds(1)) +
            " ms: " + text + "\n";
}

int ShardWorld::ServerOf(int shard, ShardPlace place) const {
  return place == ShardPlace::kHome ? shard : (shard + 1) % server_count_;
}

void ShardWorld::SpawnServer(int server) {
  auto born = std::make_unique<SimServer>();
  born->server = server;
  born->incarnation = server_incarnations_[server];
  for (int shard = 0; shard < server_count_; ++shard) {
    for (const ShardPlace place : {ShardPlace::kHome, ShardPlace::kBuddy}) {
      const bool is_mine = ServerOf(shard, place) == server;
      if (!is_mine || (place == ShardPlace::kBuddy && server_count_ == 1)) {
        continue;
      }
      ShardCopyOptions options;
      options.place = place;
      options.incarnation = born->incarnation;
      options.view = views_[static_cast<std::size_t>(shard)];
      options.has_partner = server_count_ > 1;
      options.max_staleness = max_staleness_;
      options.worker_count = worker_count_;
      options.rule = Update;
      born->copies[shard] = std::make_unique<ShardCopy>(std::move(options));
      for (const auto& [worker, incarnation] : worker_incarnations_) {
        born->copies[shard]->OnWorkerGone(worker, incarnation);
      }
    }
  }
  Note("ps " + std::to_string(server) + "." + std::to_string(born->incarnation.value()));
  servers_.push_back(std::move(born));
  SendDuties(servers_.back().get());
  TickServer(servers_.size() - 1);
}

void ShardWorld::TickServer(std::size_t id) {
  SimServer* const server = servers_[id].get();
  if (server->is_dead) {
    return;
  }
  for (const auto& [shard, copy] : server->copies) {
    copy->Resend();
  }
  SendDuties(server);
  At(100'000, [this, id] { TickServer(id); });
}

SimServer* ShardWorld::Reach(int server) {
  std::vector<SimServer*> there;
  for (const auto& one : servers_) {
    if (one->server == server && !one->is_dead) {
      there.push_back(one.get());
    }
  }
  if (there.empty()) {
    return nullptr;
  }
  // An old name now and then leads to one that was replaced.
  return is_faulty_ && Chance(0.3) ? there.front() : there.back();
}

SimServer* ShardWorld::Current(int server) {
  for (const auto& one : servers_) {
    if (one->server == server && one->incarnation == server_incarnations_[server] &&
        !one->is_dead) {
      return one.get();
    }
  }
  return nullptr;
}

ShardCopy* ShardWorld::CurrentCopy(int shard, ShardPlace place) {
  SimServer* const server = Current(ServerOf(shard, place));
  return server == nullptr ? nullptr : server->copies.at(shard).get();
}

void ShardWorld::SendDuties(SimServer* server) {
  for (const auto& [shard, copy] : server->copies) {
    CheckClocks(*copy);
    const ShardPlace from = ServerOf(shard, ShardPlace::kHome) == server->server
                                ? ShardPlace::kHome
                                : ShardPlace::kBuddy;
    for (const ShardCopy::Duty& duty : copy->TakeDuties()) {
      std::visit([&, shard = shard](const auto& what) { Do(shard, from, what); }, duty);
    }
  }
}

void ShardWorld::Do(int shard, ShardPlace /*from*/, const WorkerReply& reply) {
  for (std::size_t id = 0; id < workers_.size(); ++id) {
    if (workers_[id]->process == reply.process) {
      Deliver([this, id, shard, reply] {
        if (!workers_[id]->is_dead) {
          workers_[id]->clients[static_cast<std::size_t>(shard)]->OnReply(reply);
          Advance(id);
        }
      });
    }
  }
}

void ShardWorld::Do(int shard, ShardPlace from, const CopyMessage& message) {
  Deliver([this, shard, from, message] {
    if (SimServer* const server = Reach(ServerOf(shard, OtherPlace(from)))) {
      const Status taken = server->copies.at(shard)->OnCopyMessage(message);
      EXPECT_TRUE(taken.ok()) << taken.error().ToString();
      SendDuties(server);
    }
  });
}

void ShardWorld::SpawnWorker(int worker) {
  auto born = std::make_unique<SimWorker>();
  born->process = {worker, worker_incarnations_[worker]};
  born->steps_left = Between(20, 60);
  born->compute_ms_max = Between(1, 40);
  born->pushed.assign(static_cast<std::size_t>(server_count_), -1);
  for (int shard = 0; shard < server_count_; ++shard) {
    born->clients.push_back(std::make_unique<ShardClient>(born->process, server_count_ > 1));
    born->clients.back()->Pull({});
  }
  Note(NameOf(born->process));
  workers_.push_back(std::move(born));
  TickWorker(workers_.size() - 1);
}

void ShardWorld::TickWorker(std::size_t id) {
  SimWorker* const worker = workers_[id].get();
  if (worker->is_dead || worker->phase == SimWorker::Phase::kLeft ||
      worker->phase == SimWorker::Phase::kStopped) {
    return;
  }
  SendRequests(worker);
  At(100'000, [this, id] {
    for (const auto& client : workers_[id]->clients) {
      client->Resend();
    }
    TickWorker(id);
  });
}

void ShardWorld::SendRequests(SimWorker* worker) {
  if (worker->is_dead) {
    return;
  }
  for (std::size_t shard = 0; shard < worker->clients.size(); ++shard) {
    for (const AddressedRequest& addressed : worker->clients[shard]->TakeRequests()) {
      const int number = static_cast<int>(shard);
      Deliver([this, number, addressed] {
        if (SimServer* const server = Reach(ServerOf(number, addressed.place))) {
          server->copies.at(number)->OnRequest(addressed.request);
          SendDuties(server);
        }
      });
    }
  }
}

// Takes what the worker's requests have come to, and goes on where all of them are done.
void ShardWorld::Advance(std::size_t id) {
  using Phase = SimWorker::Phase;
  SimWorker* const worker = workers_[id].get();
  for (std::size_t shard = 0; shard < worker->clients.size(); ++shard) {
    TakeOutcome(worker, id, shard);
  }
  const bool is_busy = std::any_of(worker->clients.begin(),
                                   worker->clients.end(),
                                   [](const auto& client) { return client->is_busy(); });
  if (is_busy) {
    SendRequests(worker);
    return;
  }
  if (worker->phase == Phase::kPulling) {
    worker->phase = Phase::kComputing;
    At(Between(0, worker->compute_ms_max * 1000), [this, id] { Push(workers_[id].get()); });
  } else if (worker->phase == Phase::kPushing) {
    --worker->steps_left;
    worker->phase = worker->steps_left > 0 ? Phase::kPulling : Phase::kLeaving;
    for (const auto& client : worker->clients) {
      worker->steps_left > 0 ? client->Pull({}) : client->Leave();
    }
    SendRequests(worker);
  } else if (worker->phase == Phase::kLeaving) {
    worker->phase = Phase::kLeft;
    Note(NameOf(worker->process) + " has left");
  }
}

void ShardWorld::TakeOutcome(SimWorker* worker, std::size_t id, std::size_t shard) {
  ShardClient* const client = worker->clients[shard].get();
  const std::optional<RequestOutcome> outcome = client->TakeOutcome();
  if (!outcome.has_value()) {
    return;
  }
  switch (*outcome) {
    case RequestOutcome::kDone:
      if (worker->phase == SimWorker::Phase::kPulling) {
        client->Pull({});  // it was the seed
      } else if (worker->phase == SimWorker::Phase::kPushing) {
        pushes_[static_cast<std::size_t>(worker->pushed[shard])].is_acknowledged = true;
      }
      break;
    case RequestOutcome::kPulled:
      break;
    case RequestOutcome::kUnseeded:
      if (worker->process.worker == 0) {
        client->Seed(
            {SeedValues(), std::make_shared<const std::vector<float>>(), 0, kGateOpen, ""});
      } else {
        client->Pull({});
        static_cast<void>(client->TakeRequests());  // asked at the next Resend
      }
      break;
    case RequestOutcome::kOutdated:
      EXPECT_NE(CurrentWorker(worker->process.worker), worker)
          << NameOf(worker->process) << " is taken for another, worker " << id;
      worker->phase = SimWorker::Phase::kStopped;
      break;
    case RequestOutcome::kLost:
    case RequestOutcome::kMisfit:
      ADD_FAILURE() << "shard " << shard << " is lost or misfit";
      break;
  }
}

void ShardWorld::Push(SimWorker* worker) {
  if (worker->is_dead || worker->phase == SimWorker::Phase::kStopped) {
    return;
  }
  worker->phase = SimWorker::Phase::kPushing;
  for (std::size_t shard = 0; shard < worker->clients.size(); ++shard) {
    ShardClient* const client = worker->clients[shard].get();
    worker->pushed[shard] = static_cast<int>(pushes_.size());
    pushes_.push_back(
        {static_cast<int>(shard), worker->process, client->sequence() + 1, /*acked*/ false});
    client->Push({GradientOf(pushes_.size() - 1), {}}, client->sequence() + 1);
  }
  SendRequests(worker);
}

// Nobody is further ahead of the slowest than the bound and the step that it was let into.
void ShardWorld::CheckClocks(const ShardCopy& copy) {
  const std::optional<int64_t> slowest = copy.content().SlowestClock();
  for (const auto& [worker, standing] : copy.content().workers) {
    if (standing.is_present) {
      EXPECT_LE(standing.clock, *slowest + max_staleness_ + 1) << "worker " << worker;
    }
  }
}

void ShardWorld::ExpectFinished() {
  for (int worker = 0; worker < worker_count_; ++worker) {
    SimWorker* const current = CurrentWorker(worker);
    ASSERT_NE(current, nullptr);
    EXPECT_EQ(current->phase, SimWorker::Phase::kLeft)
        << NameOf(current->process) << " has " << current->steps_left << " steps left";
  }
  for (int shard = 0; shard < server_count_; ++shard) {
    ShardCopy* const home = CurrentCopy(shard, ShardPlace::kHome);
    ASSERT_NE(home, nullptr);
    ExpectHistory(shard, home->content());
    if (server_count_ > 1) {
      ShardCopy* const buddy = CurrentCopy(shard, ShardPlace::kBuddy);
      ASSERT_NE(buddy, nullptr);
      EXPECT_EQ(home->content(), buddy->content()) << "shard " << shard;
      EXPECT_EQ(home->view(), views_[static_cast<std::size_t>(shard)]);
      EXPECT_NE(home->role(), buddy->role());
      EXPECT_TRUE(home->role() == CopyRole::kServing || buddy->role() == CopyRole::kServing);
    }
  }
}

// The applied order is known from the slots: it is replayed.
void ShardWorld::ExpectHistory(int shard, const ShardContent& content) {
  std::vector<float> parameters = *SeedValues();
  std::vector<float> slots;
  std::vector<int> times(pushes_.size(), 0);
  std::map<int, int64_t> last;  // by worker: its processes go on where they stood
  for (const float number : content.slots) {
    const auto id = static_cast<std::size_t>(number);
    ASSERT_LT(id, pushes_.size());
    const SimPush& push = pushes_[id];
    EXPECT_EQ(push.shard, shard);
    EXPECT_EQ(++times[id], 1) << "push " << id << " is applied again";
    int64_t& sequence = last[push.process.worker];
    EXPECT_EQ(push.sequence, sequence + 1) << "of " << NameOf(push.process);
    sequence = push.sequence;
    Update(0, *GradientOf(id), &parameters, &slots);
  }
  for (std::size_t id = 0; id < pushes_.size(); ++id) {
    if (pushes_[id].shard == shard && pushes_[id].is_acknowledged) {
      EXPECT_EQ(times[id], 1) << "push " << id << " was acknowledged to "
                              << NameOf(pushes_[id].process) << " and is lost";
    }
  }
  EXPECT_EQ(parameters, content.parameters) << "shard " << shard;
  EXPECT_EQ(content.update_count, static_cast<int64_t>(content.slots.size()));
}

}  // namespace lockstep::runtime::testing
