#include <algorithm>
#include <utility>

#include "trainer-runtime/rendezvous/testing_membership.h"

// What goes wrong in the simulated world.

namespace lockstep::runtime::testing {

using std::chrono::milliseconds;

std::vector<int> World::Current() const {
  std::vector<int> ids;
  for (const auto& process : processes_) {
    if (!process->is_dead && process->is_current && !process->is_paused) {
      ids.push_back(process->id);
    }
  }
  return ids;
}

void World::DoSomethingBad() {
  const std::vector<int> ids = Current();
  if (!is_faulty_ || ids.empty()) {
    return;
  }
  const int victim = ids[prng_.Below(ids.size())];
  switch (prng_.Below(6)) {
    case 0:
      Kill(victim);
      break;
    case 1:
      Kill(victim);
      Kill(ids[prng_.Below(ids.size())]);
      break;
    case 2:
      MakeZombie(victim);
      break;
    case 3:
      Pause(victim, Between(10, 3000));
      break;
    case 4:
      Split(victim);
      break;
    default:
      BreakOneConnection(victim);
      break;
  }
}

void World::Kill(int id) {
  Process& process = Of(id);
  if (process.is_dead) {
    return;
  }
  Note("kill " + Name(process));
  process.is_dead = true;
  for (auto& [link, connection] : connections_) {
    if (connection.dialler == id || connection.acceptor == id) {
      CloseEnd(id, link, false);
    }
  }
  if (process.is_current) {
    process.is_current = false;
    Replace(id, Between(50, 900));
  }
}

void World::Replace(int id, Duration delay) {
  const int rank = Of(id).rank;
  const Incarnation next = Of(id).incarnation.Next();
  // The operator knows epochs from status documents, which may be old.
  operator_epoch_ = operator_epoch_.Next();
  if (Chance(0.5)) {
    for (const int other : Current()) {
      operator_epoch_ = std::max(operator_epoch_, Of(other).epoch_seen);
    }
  }
  At(delay, [this, rank, next] { Spawn(rank, next); });
  gone_[rank] = event::PeerGone{rank, next, operator_epoch_};
  if (Chance(0.5)) {
    Push(gone_[rank]);
  }
}

void World::Push(const event::PeerGone& gone) {
  for (const int other : Current()) {
    At(NetworkDelay(), [this, other, gone] { Deliver(other, gone); });
  }
}

void World::MakeZombie(int id) {
  Note("stop and replace " + Name(Of(id)));
  Pause(id, Between(1500, 7500));
  At(Between(500, 2500), [this, id] {
    if (!Of(id).is_dead && Of(id).is_current) {
      Of(id).is_current = false;
      Replace(id, Between(50, 900));
    }
  });
}

void World::Pause(int id, Duration length) {
  Note("stop " + Name(Of(id)));
  Of(id).is_paused = true;
  At(length, [this, id] { Resume(id); });
}

void World::Resume(int id) {
  Process& process = Of(id);
  if (process.is_dead || !process.is_paused) {
    return;
  }
  Note("continue " + Name(process));
  process.is_paused = false;
  for (Event& event : std::exchange(process.inbox, {})) {
    Deliver(id, std::move(event));
  }
  Deliver(id, event::Tick{});
}

void World::Split(int id) {
  Note("disconnect " + Name(Of(id)));
  island_.insert(id);
  At(Between(50, 4000), [this, id] {
    Note("reconnect " + Name(Of(id)));
    island_.erase(id);
  });
}

void World::BreakOneConnection(int id) {
  for (auto& [link, connection] : connections_) {
    const bool is_mine = connection.dialler == id || connection.acceptor == id;
    if (is_mine && connection.accepted && connection.open_at_dialler &&
        connection.open_at_acceptor) {
      const int other = connection.dialler == id ? connection.acceptor : connection.dialler;
      Note("break " + Name(Of(id)) + " - " + Name(Of(other)));
      At(NetworkDelay(), [this, id, other, broken = link] {
        Hear(id, broken, event::LinkLost{broken});
        Hear(other, broken, event::LinkLost{broken});
      });
      return;
    }
  }
}

void World::EndFaults() {
  Note("calm");
  is_faulty_ = false;
  island_.clear();
  for (std::size_t id = 0; id < processes_.size(); ++id) {
    Resume(static_cast<int>(id));
  }
  At(Between(1, 2000), [this] {
    for (const auto& [rank, gone] : gone_) {
      Push(gone);
    }
  });
}

}  // namespace lockstep::runtime::testing
