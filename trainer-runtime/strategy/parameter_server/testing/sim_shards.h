#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/prng.h"
#include "common/base/time.h"
#include "trainer-runtime/strategy/parameter_server/shard_client.h"
#include "trainer-runtime/strategy/parameter_server/shard_copy.h"

// The real code of all copies of all shards and of all workers in a seeded world: messages are
// late, lost and repeated, ps and workers die one at a time and are replaced, and some of those
// that were replaced are not dead.

namespace lockstep::runtime::testing {

// One process of one ps: its own shard, and the buddy copy of the one before.
struct SimServer {
  int server = 0;
  Incarnation incarnation;
  bool is_dead = false;
  std::map<int, std::unique_ptr<ShardCopy>> copies;  // by shard
};

// One process of one worker: pulls all shards, computes, pushes to all, and again.
struct SimWorker {
  enum class Phase { kPulling, kComputing, kPushing, kLeaving, kLeft, kStopped };

  WorkerProcess process;
  bool is_dead = false;
  Phase phase = Phase::kPulling;
  int64_t steps_left = 0;
  int64_t compute_ms_max = 0;
  std::vector<std::unique_ptr<ShardClient>> clients;  // by shard
  std::vector<int> pushed;                            // by shard: the push under way
};

// One push that some worker ever made. Its number is in its gradient.
struct SimPush {
  int shard = 0;
  WorkerProcess process;
  int64_t sequence = 0;
  bool is_acknowledged = false;
};

class ShardWorld {
 public:
  explicit ShardWorld(uint64_t seed);

  // Four seconds of faults, then calm; checks all the way and at the end that all is well.
  // Failures are GoogleTest's.
  void Run();

  std::string Trace() const { return trace_; }

  // How often a ps, a worker died; so that a test can tell that something happened.
  int server_deaths() const { return server_deaths_; }

  int worker_deaths() const { return worker_deaths_; }

 private:
  struct Event {
    TimePoint when;
    uint64_t order = 0;
    std::function<void()> run;

    bool operator<(const Event& other) const {
      return std::tie(other.when, other.order) < std::tie(when, order);
    }
  };

  // Chance, time and names.
  int64_t Between(int64_t min, int64_t max);
  void At(int64_t delay_us, std::function<void()> run);
  void Deliver(std::function<void()> run);  // late, lost or twice
  void Note(const std::string& text);

  bool Chance(double probability) { return prng_.Unit() < probability; }

  // Processes.
  void SpawnServer(int server);
  void SpawnWorker(int worker);
  void TickServer(std::size_t id);
  void TickWorker(std::size_t id);
  int ServerOf(int shard, ShardPlace place) const;
  SimServer* Reach(int server);  // whoever answers at the address; null: nobody
  SimServer* Current(int server);
  SimWorker* CurrentWorker(int worker);
  ShardCopy* CurrentCopy(int shard, ShardPlace place);

  // What copies and workers do.
  void SendDuties(SimServer* server);
  void Do(int shard, ShardPlace from, const WorkerReply& reply);
  void Do(int shard, ShardPlace from, const CopyMessage& message);
  void Advance(std::size_t id);
  void TakeOutcome(SimWorker* worker, std::size_t id, std::size_t shard);
  void Push(SimWorker* worker);
  void SendRequests(SimWorker* worker);

  // What goes wrong, and who names successors.
  void DoSomethingBad();
  bool IsWhole();
  void KillServer();
  void ReplaceServer(int server);
  void SayView(int shard);
  void KillWorker();
  void SayGone(int worker, bool may_be_lost);

  // What must hold.
  void CheckClocks(const ShardCopy& copy);
  void ExpectFinished();
  void ExpectHistory(int shard, const ShardContent& content);

  Prng prng_;
  int server_count_;
  int worker_count_;
  int64_t max_staleness_;
  TimePoint now_;
  uint64_t order_ = 0;
  bool is_faulty_ = true;
  std::priority_queue<Event> queue_;
  std::vector<std::unique_ptr<SimServer>> servers_;  // all that ever were
  std::vector<std::unique_ptr<SimWorker>> workers_;  // likewise
  std::vector<ShardView> views_;                     // by shard: the truth
  std::map<int, Incarnation> server_incarnations_;
  std::map<int, Incarnation> worker_incarnations_;
  std::vector<SimPush> pushes_;
  int server_deaths_ = 0;
  int worker_deaths_ = 0;
  std::string trace_;
};

}  // namespace lockstep::runtime::testing
