#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/io/unique_fd.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "trainer-runtime/ps/ps_client.h"
#include "trainer-runtime/ps/ps_server.h"

namespace lockstep::runtime::testing {

// So long from now, and nobody stops it.
inline PsLimits Within(Duration time) {
  return {Deadline::After(SteadyNow(), time), {}};
}

struct PsGangOptions {
  int worker_count = 1;
  int64_t max_staleness = 0;
  std::vector<int64_t> element_counts;
  int64_t piece_bytes_min = 16;
  int slot_count = 0;
  UpdateRule rule;
};

// The ps of a job, and whoever names their successors: real sockets on loopback, all in one
// process, each ps on a thread of its own. Failures are GoogleTest's. Thread: one, but Worker.
class PsGang {
 public:
  static constexpr int kPsCount = 3;

  explicit PsGang(PsGangOptions options);

  // The process is gone with all that it held.
  void Kill(int ps);

  // Names a successor, tells the ps that are there, and starts it. Workers learn it from them.
  enum class Told { kBeforeItsStart, kAfterItsStart };
  void Replace(int ps, Told told = Told::kBeforeItsStart);

  // Tells the process itself that its place is another one's, of whom nobody else hears.
  void TellOfItsSuccessor(int ps);

  void NoteWorkerGone(int worker, Incarnation below);

  // [ps], "host:port"
  const std::vector<std::string>& addresses() const { return addresses_; }

  // A client of its own. Thread: any.
  std::unique_ptr<PsClient> Worker(int worker, int64_t incarnation = 0) const;

  // Waits until each shard has two copies with all that was acknowledged, or 20 s.
  bool AwaitWhole() const;

 private:
  bool IsWhole() const;
  void Start(int ps);
  void TellOfSuccessor(int ps);

  PsGangOptions options_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  std::vector<UniqueFd> listeners_;  // [ps], until the first process takes it
  std::vector<int> ports_;
  std::vector<std::string> addresses_;
  std::map<int, int64_t> incarnations_;
  std::vector<ShardView> views_;
  std::map<int, std::unique_ptr<PsServer>> servers_;
};

}  // namespace lockstep::runtime::testing
