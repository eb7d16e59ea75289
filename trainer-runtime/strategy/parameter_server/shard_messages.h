#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "common/base/strong_id.h"
#include "trainer-runtime/strategy/parameter_server/shard_content.h"

namespace lockstep::runtime {

// Counts who has stood for the two places of a shard: grows whenever one of them is given to
// another process.
using Term = StrongId<struct TermTag>;

// Where the copies of a shard are: shard s has its home on ps s and its buddy on the next ps.
enum class ShardPlace { kHome, kBuddy };

inline ShardPlace OtherPlace(ShardPlace place) {
  return place == ShardPlace::kHome ? ShardPlace::kBuddy : ShardPlace::kHome;
}

// Which processes stand for a shard's two places. It is somebody else's word, given once for each
// term and the same to all; of two the higher term is right.
struct ShardView {
  Term term;
  std::array<Incarnation, 2> incarnations;  // by place

  Incarnation at(ShardPlace place) const { return incarnations[static_cast<std::size_t>(place)]; }

  friend bool operator==(const ShardView&, const ShardView&) = default;
};

// What a worker asks of a shard. It has one request under way at a time, and may send it again.
namespace request {
struct Pull {  // the newest values
  bool with_slots = false;
  bool with_facts = false;
  // Of a pull for a step: which update it will be. It waits for the gate, and for slower workers.
  int64_t step = 0;
  // Of a pull that is for no step: it waits until so many updates are made, and for nobody else. 0:
  // it is for a step.
  int64_t updates_min = 0;
};

struct Push {  // of number `sequence`
  SharedValues gradient;
  StepSums sums;
};

struct Open {  // the gate, for all workers
  int64_t gate = 0;
};

struct Seed {  // what the shard begins with, unless it has begun
  SharedValues parameters;
  SharedValues slots;
  int64_t update_count = 0;
  int64_t gate = kGateOpen;
  std::string note;
};

struct Leave {};  // the worker has made its last push
}  // namespace request

struct WorkerRequest {
  ShardView view;  // the newest that the worker knows
  WorkerProcess process;
  int64_t number = 0;    // of the request: its answer bears it. Equal where it is sent again
  int64_t sequence = 0;  // of a Push: its own; else 0
  std::variant<request::Pull, request::Push, request::Seed, request::Leave, request::Open> body;
};

// What a shard knows of the work besides its values.
struct ShardFacts {
  std::string note;                  // the seed's
  std::map<int, int64_t> sequences;  // by worker: its last push
  int64_t sample_count = 0;          // of all pushes
  std::map<int64_t, StepSums> sums;  // by data epoch, the newest ones
};

namespace reply {
struct Pulled {
  int64_t update_count = 0;
  SharedValues parameters;
  SharedValues slots;    // null where they were not asked for
  int64_t sequence = 0;  // of the asker's worker: its last push
  int64_t gate = 0;
  std::shared_ptr<const ShardFacts> facts;  // null where they were not asked for
};

struct Done {};  // of Push, Seed, Open and Leave: both copies have it

struct Unseeded {};  // of Pull: there is nothing yet; the chief seeds

struct NotServing {};  // the other place may serve

struct Outdated {};  // the asker has been replaced, or has left: final

struct Lost {};  // both copies are gone: final for all

struct Misfit {};  // what was sent is not of this shard's size: another model or optimizer. Final
}  // namespace reply

struct WorkerReply {
  ShardView view;
  WorkerProcess process;  // to whom
  int64_t number = 0;     // of the request
  std::variant<reply::Pulled,
               reply::Done,
               reply::Unseeded,
               reply::NotServing,
               reply::Outdated,
               reply::Lost,
               reply::Misfit>
      body;
};

// What the two copies of a shard tell each other.
namespace copying {
struct Append {  // the entry of number `index`, from 1
  int64_t index = 0;
  ShardEntry entry;
};

struct Confirm {  // the buddy copy has all entries up to `index`
  int64_t index = 0;
};

struct FillRequest {};  // I am new and hold nothing

struct Fill {
  // Shared as it is large: in a message and with whoever sends it.
  std::shared_ptr<const ShardContent> content;
};

struct Notice {};  // the view, for one who has an old one
}  // namespace copying

struct CopyMessage {
  ShardView view;  // the sender's
  std::variant<copying::Append,
               copying::Confirm,
               copying::FillRequest,
               copying::Fill,
               copying::Notice>
      body;
};

}  // namespace lockstep::runtime
