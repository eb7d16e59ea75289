#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/ps/ps_caller.h"
#include "trainer-runtime/ps/shard_frames.h"
#include "trainer-runtime/rendezvous/letter_box.h"
#include "trainer-runtime/strategy/parameter_server/shard_client.h"
#include "trainer-runtime/strategy/parameter_server/variable_shards.h"

namespace lockstep::runtime {

struct PsClientOptions {
  MeshIdentity identity;               // of the worker
  std::vector<std::string> addresses;  // [ps], "host:port"
  std::string job_key;
  std::vector<int64_t> element_counts;  // of the variables, as they lie in buffers
  int64_t piece_bytes_min = 0;          // PlanVariableShards
  int slot_count = 0;                   // values that the optimizer keeps for each parameter
  // After that long without an answer, and without a byte that moves on the connection, the other
  // copy is asked; it says who serves. Choice.
  Duration ask_again = std::chrono::seconds(1);
  Logger* logger = nullptr;  // outlives the client; required
};

// How long a call may take, and what ends it before.
struct PsLimits {
  Deadline deadline;
  std::stop_token stop;
};

// What a pull has come to besides the values; shards are not at one.
struct PulledCounts {
  int64_t least = 0;  // updates that the values have behind them
  int64_t most = 0;
  int64_t sequence = 0;  // of the worker's last push that all shards have
  int64_t gate = 0;      // of the shard whose gate is least far
  std::vector<std::shared_ptr<const ShardFacts>> facts;  // [shards], where they were asked for
};

// What a push tells besides its gradient.
struct PushFacts {
  int64_t sequence = 0;  // of the share of the worker's work, from 1
  StepSums sums;
};

// What training begins with besides the values.
struct SeedFacts {
  int64_t update_count = 0;
  int64_t gate = kGateOpen;
  std::string note;
};

// A worker's side of all shards. Calls block until every shard has answered.
// Errors of all calls: kTimeout (names the shards and what their ps last said), kAborted (asked to
// stop), kStale (this worker has a successor, or has left), kPeerLost (a shard is lost: both of its
// copies are gone); the last two at once, whatever the other shards do. After any of these no
// further call may follow: what is under way is undecided. Thread: one, but NoteView from any.
class PsClient {
 public:
  // Errors: kInvalidArgument (addresses), kResourceExhausted, kIo.
  static Result<std::unique_ptr<PsClient>> Make(PsClientOptions options);

  // The newest values, once request::Pull says that they are due. Slots are asked for where there
  // is room for them. Shapes: parameters [n] of all variables; slots [slot_count x n], slot after
  // slot, or empty where they are not wanted. Errors also: kNotFound (some shard has no values yet;
  // calls may follow), kMismatch (a shard is of another model).
  Result<PulledCounts> Pull(std::span<float> parameters,
                            std::span<float> slots,
                            request::Pull pull,
                            const PsLimits& limits);

  // Gives each shard its part of the gradient, unless it has that share already. When it returns,
  // none of it will be lost. Shapes: gradients [n].
  Status Push(std::span<const float> gradients, const PushFacts& facts, const PsLimits& limits);

  // What training begins with, for shards that have no values yet. Shapes: as Pull.
  Status Seed(std::span<const float> parameters,
              std::span<const float> slots,
              const SeedFacts& facts,
              const PsLimits& limits);

  // Lets all workers on to steps up to `gate`. When it returns, all shards will stay open so far.
  Status Open(int64_t gate, const PsLimits& limits);

  // The last push is made: nobody waits for this worker any more.
  Status Leave(const PsLimits& limits);

  // The word of whoever names successors, as for ShardClient. Returns at once.
  void NoteView(int shard, const ShardView& view) { letters_.Post({shard, view}); }

 private:
  // Null view: look up, as a call is to stop.
  struct ViewLetter {
    int shard = 0;
    std::optional<ShardView> view;
  };

  struct ShardLine {
    VariableShard shard;
    ShardClient client;
    std::optional<AddressedRequest> asked;  // the last one
    bool is_sent = false;                   // over the connection that stands
    uint64_t bytes_moved = 0;               // over it, when that was last looked at
    std::optional<RequestOutcome> outcome;  // of the call under way
    TimePoint ask_again_at;
  };

  PsClient(PsClientOptions options, std::vector<HostPort> addresses);

  Status Finish(const PsLimits& limits);
  void ReadLetters();
  void Ask();
  void AskOne(int shard);
  void TellOfNewest();
  bool IsMoving(int shard);
  void TakeAnswer(int ps, const std::string& bytes);
  void Read(const PollSet& poll);
  void Hear(const CallerNews& news);
  void AskAgain();
  bool IsBusy() const;
  Status Conclude() const;
  Error Late() const;
  Result<PulledCounts> TakeValues(std::span<float> parameters, std::span<float> slots) const;
  int PsOf(int shard, ShardPlace place) const;

  PsClientOptions options_;
  std::vector<int64_t> offsets_;  // VariableOffsets
  LetterBox<ViewLetter> letters_;
  PsCaller caller_;
  std::vector<ShardLine> lines_;         // by shard
  std::vector<std::string> last_words_;  // by ps: why it was not reached
  bool is_superseded_ = false;
  TimePoint now_;
};

}  // namespace lockstep::runtime
