#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/io/unique_fd.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/rendezvous/mesh.h"
#include "trainer-runtime/strategy/parameter_server/shard_copy.h"

namespace lockstep::runtime {

struct PsServerOptions {
  MeshIdentity identity;               // rank: PsPlace(world_size, its number)
  std::vector<std::string> addresses;  // [ps], "host:port"
  std::string bind_address = "0.0.0.0";
  int port = 0;         // 1-65535; 0 takes any free one
  UniqueFd listener;    // a listening socket to take over instead of binding; usually empty
  std::string job_key;  // as the mesh's
  // [shards], one for each ps: as they are when this process is born, its own incarnation included
  // (ShardCopyOptions).
  std::vector<ShardView> views;
  int64_t max_staleness = 0;
  UpdateRule rule;  // called on the server's thread
  // Values that the rule keeps for each parameter: a seed with others is refused. Null: any.
  std::optional<int64_t> slot_count;
  // How often a newcomer asks to be filled again. Choice: longer than a gigabyte takes, as each
  // answer holds the whole content.
  Duration ask_again = std::chrono::seconds(2);
  Logger* logger = nullptr;  // outlives the server; required
};

// How one copy of a ps stands.
struct CopyStanding {
  int shard = 0;
  ShardPlace place = ShardPlace::kHome;
  CopyRole role = CopyRole::kEmpty;
  Term term;
  bool is_followed = false;  // ShardCopy::is_followed
  int64_t update_count = 0;
  int worker_count = 0;  // that take part
};

// One ps of a job: the copies of two shards, its own and the one before, or of one where it is the
// only ps. Answers workers and the other ps on a thread of its own from Start to destruction.
class PsServer {
 public:
  virtual ~PsServer() = default;

  // Binds and starts. Errors: kInvalidArgument (identity, addresses and views do not fit together),
  // kAlreadyExists naming the address where the port is taken, kIo.
  static Result<std::unique_ptr<PsServer>> Start(PsServerOptions options);

  // The word of whoever names successors, as for ShardCopy. Thread: any; return at once.
  virtual void NoteView(int shard, const ShardView& view) = 0;
  virtual void NoteWorkerGone(int worker, Incarnation below) = 0;

  // By shard. Thread: any.
  virtual std::vector<CopyStanding> Standings() const = 0;

  // The port that is listened on. Thread: any.
  virtual int port() const = 0;
};

}  // namespace lockstep::runtime
