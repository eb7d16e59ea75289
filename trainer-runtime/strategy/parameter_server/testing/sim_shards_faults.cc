#include <utility>

#include "trainer-runtime/strategy/parameter_server/testing/sim_shards.h"

namespace lockstep::runtime::testing {

SimWorker* ShardWorld::CurrentWorker(int worker) {
  for (const auto& one : workers_) {
    if (one->process == WorkerProcess{worker, worker_incarnations_[worker]} && !one->is_dead) {
      return one.get();
    }
  }
  return nullptr;
}

void ShardWorld::DoSomethingBad() {
  if (!is_faulty_) {
    return;
  }
  if (Chance(0.5)) {
    KillWorker();
  } else if (server_count_ > 1 && IsWhole()) {
    KillServer();
  } else {
    At(Between(1, 50) * 1000, [this] { DoSomethingBad(); });
  }
}

// Every shard has two copies with all that was acknowledged: one ps may die.
bool ShardWorld::IsWhole() {
  for (int shard = 0; shard < server_count_; ++shard) {
    const ShardCopy* const home = CurrentCopy(shard, ShardPlace::kHome);
    const ShardCopy* const buddy = CurrentCopy(shard, ShardPlace::kBuddy);
    if (home == nullptr || buddy == nullptr) {
      return false;
    }
    const ShardCopy* const serving = home->role() == CopyRole::kServing ? home : buddy;
    const ShardCopy* const other = serving == home ? buddy : home;
    if (serving->role() != CopyRole::kServing || !serving->is_followed() ||
        other->role() != CopyRole::kFollowing) {
      return false;
    }
  }
  return true;
}

void ShardWorld::KillServer() {
  const int server = static_cast<int>(Between(0, server_count_ - 1));
  SimServer* const victim = Current(server);
  if (victim == nullptr) {
    return;
  }
  // Some are only taken for dead, and go on.
  const bool is_zombie = Chance(0.4);
  victim->is_dead = !is_zombie;
  ++server_deaths_;
  Note("ps " + std::to_string(server) + (is_zombie ? " is taken for dead" : " dies"));
  // From here to the word nobody has its place: not whole.
  server_incarnations_[server] = server_incarnations_[server].Next();
  At(Between(1, 400) * 1000, [this, server] { ReplaceServer(server); });
}

// Both shards that the ps has a copy of get a new view; the newcomer is born with it.
void ShardWorld::ReplaceServer(int server) {
  for (int shard = 0; shard < server_count_; ++shard) {
    ShardView& view = views_[static_cast<std::size_t>(shard)];
    for (const ShardPlace place : {ShardPlace::kHome, ShardPlace::kBuddy}) {
      if (ServerOf(shard, place) == server) {
        view.incarnations[static_cast<std::size_t>(place)] = server_incarnations_[server];
        view.term = view.term.Next();
        SayView(shard);
      }
    }
  }
  At(Between(1, 300) * 1000, [this, server] { SpawnServer(server); });
}

// To everybody who lives, zombies too; some do not hear it and learn of it from others.
void ShardWorld::SayView(int shard) {
  const ShardView view = views_[static_cast<std::size_t>(shard)];
  for (std::size_t id = 0; id < servers_.size(); ++id) {
    if (!servers_[id]->copies.contains(shard) || Chance(0.3)) {
      continue;
    }
    At(Between(0, 200) * 1000, [this, id, shard, view] {
      if (!servers_[id]->is_dead) {
        servers_[id]->copies.at(shard)->OnView(view);
        SendDuties(servers_[id].get());
      }
    });
  }
  for (std::size_t id = 0; id < workers_.size(); ++id) {
    if (Chance(0.5)) {
      At(Between(0, 200) * 1000, [this, id, shard, view] {
        workers_[id]->clients[static_cast<std::size_t>(shard)]->OnView(view);
        SendRequests(workers_[id].get());
      });
    }
  }
}

void ShardWorld::KillWorker() {
  const int worker = static_cast<int>(Between(0, worker_count_ - 1));
  SimWorker* const victim = CurrentWorker(worker);
  if (victim == nullptr || victim->phase == SimWorker::Phase::kLeaving ||
      victim->phase == SimWorker::Phase::kLeft) {
    return;
  }
  const bool is_zombie = Chance(0.4);
  victim->is_dead = !is_zombie;
  ++worker_deaths_;
  Note("worker " + std::to_string(worker) + (is_zombie ? " is taken for dead" : " dies"));
  worker_incarnations_[worker] = worker_incarnations_[worker].Next();
  At(Between(1, 300) * 1000, [this, worker] {
    SayGone(worker, /*may_be_lost=*/true);
    At(1'000'000, [this, worker] { SayGone(worker, /*may_be_lost=*/false); });
  });
  At(Between(1, 600) * 1000, [this, worker] { SpawnWorker(worker); });
}

void ShardWorld::SayGone(int worker, bool may_be_lost) {
  const Incarnation below = worker_incarnations_[worker];
  for (std::size_t id = 0; id < servers_.size(); ++id) {
    if (may_be_lost && Chance(0.3)) {
      continue;
    }
    At(Between(0, 200) * 1000, [this, id, worker, below] {
      if (servers_[id]->is_dead) {
        return;
      }
      for (const auto& [shard, copy] : servers_[id]->copies) {
        copy->OnWorkerGone(worker, below);
      }
      SendDuties(servers_[id].get());
    });
  }
}

}  // namespace lockstep::runtime::testing
