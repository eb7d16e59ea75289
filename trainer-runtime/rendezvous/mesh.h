#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/io/unique_fd.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/contract/status/status_document.h"

namespace lockstep::runtime {

// Who this process is. A process that differs in job or attempt is no peer; one of the same rank
// with an older incarnation is a zombie.
struct MeshIdentity {
  std::string job_uid;
  Attempt attempt;
  int rank = 0;
  int world_size = 1;
  Incarnation incarnation;
};

// What a rank says of itself to the others when it asks to meet.
struct SelfFacts {
  bool has_state = false;  // parameters and optimizer state are in memory
  Step last_applied;       // newest step whose update they hold; 0 without state
  uint64_t plan_hash = 0;  // hash of the job's spec and bucket plan; equal on every rank
};

// What every rank knows of one member after a meeting; identical on all ranks.
struct MemberFacts {
  int rank = 0;
  Incarnation incarnation;
  std::string host_id;  // equal ids: one host and network namespace, so memory can be shared
  bool has_state = false;
  Step last_applied;
  uint64_t plan_hash = 0;
};

// All ranks of the job, met at one epoch.
struct Meeting {
  Epoch epoch;
  std::vector<MemberFacts> members;  // [world_size], by rank, self included
  // [world_size], empty for self: one connected TCP socket to each peer, made for this epoch and
  // used by nobody else. Non-blocking, close-on-exec, TCP_NODELAY.
  std::vector<UniqueFd> data_links;
};

// Why a peer of a meeting counts as lost.
enum class LossReason {
  kClosed,    // its connection was closed or reset: the process is gone
  kSilent,    // no sign of life for `silent_after` or longer: see common/process/silence.h
  kReplaced,  // a newer incarnation of its rank appeared
  kGone,      // the operator says so
  kMovedOn,   // it asked for a newer meeting (a failed collective, or a loss only it saw)
};

// "closed", "silent", "replaced", "gone", "moved_on".
const char* LossReasonName(LossReason reason);

// One broken meeting: reported once for each meeting, with the first cause seen.
struct PeerLoss {
  Epoch epoch;  // of the meeting that is over
  int rank = 0;
  Incarnation incarnation;
  LossReason reason = LossReason::kClosed;
};

struct MeshOptions {
  MeshIdentity identity;
  Epoch initial_epoch;
  std::vector<std::string> addresses;  // [world_size], "host:port" by rank, as TF_CONFIG has them
  std::string bind_address = "0.0.0.0";
  int port = 0;         // 1-65535; 0 takes any free one, for programs that pass `listener` instead
  UniqueFd listener;    // a listening socket to take over instead of binding; usually empty
  std::string job_key;  // shared secret of the job: every connection proves that it knows it
  // 250 ms and 1.5 s: a stopped process is noticed within 2 s; one that gets no core, or a host
  // that is cut off, later (common/process/silence.h).
  Duration heartbeat = std::chrono::milliseconds(250);
  Duration silent_after = std::chrono::milliseconds(1500);
  Logger* logger = nullptr;  // outlives the mesh; required
  // Called once for each broken meeting, from the mesh's thread: must return at once and must not
  // call the mesh. May be empty.
  std::function<void(const PeerLoss&)> on_peer_lost;
};

// The control connections between all ranks of a job: who is alive, and at which epoch all meet.
//
// A mesh connects every pair of ranks from the addresses alone; nothing central is needed. It
// answers, sends heartbeats and notices losses on its own thread from Start() until destruction.
class Mesh {
 public:
  virtual ~Mesh() = default;

  // Binds the port and starts connecting. Errors: kInvalidArgument (rank, world size and addresses
  // do not fit together), kAlreadyExists naming the address when the port is taken, kIo.
  static Result<std::unique_ptr<Mesh>> Start(MeshOptions options);

  // Waits until every rank of the job has called Meet, and returns with all of them at one epoch,
  // at least `at_least`. Losses on the way are no errors: the meeting is tried again, at the next
  // epoch if needed, until the deadline. A meeting stays good until on_peer_lost names its epoch.
  // Errors: kTimeout (deadline passed; lists the missing ranks and the last error of each address),
  // kMismatch (plan hashes differ; names both ranks), kStale (this process was superseded by a
  // newer incarnation or attempt; final), kAborted (stop requested, or all HasFinished).
  // Thread: one caller at a time; blocks.
  virtual Result<Meeting> Meet(const SelfFacts& facts,
                               Epoch at_least,
                               Deadline deadline,
                               std::stop_token stop) = 0;

  // The operator's word that the process of `rank` is gone and that `replacement` stands for it
  // from `epoch` on. Old news is ignored. Thread: any; returns at once.
  virtual void NoteGone(int rank, Incarnation replacement, Epoch epoch) = 0;

  // Says that all ranks have done all their work, and waits until every peer that is connected
  // knows it, or the deadline. From here on nobody meets any more. Thread: that of Meet; blocks.
  virtual void Finish(Deadline deadline) = 0;

  // Whether some rank has said so, this one included. Thread: any.
  virtual bool HasFinished() const = 0;

  // All other ranks, by rank. Thread: any.
  virtual std::vector<PeerStatus> Peers() const = 0;

  // Highest epoch seen. Never decreases. Thread: any.
  virtual Epoch epoch() const = 0;

  // The port that is listened on; 0 when the world has one rank. Thread: any.
  virtual int port() const = 0;
};

}  // namespace lockstep::runtime
