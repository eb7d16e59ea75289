#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"

namespace lockstep::runtime {

class SharedSegment;

enum class DataType : uint8_t { kUInt8, kInt32, kInt64, kFloat32, kFloat64, kFloat16, kBFloat16 };

// kMean adds as kSum does, and the caller divides; kGather takes together the bits of all, who have
// set none but their own. They have names of their own so that ranks that mean different things
// disagree.
enum class ReduceOp : uint8_t { kSum, kMin, kMax, kMean, kGather };

// Bytes of one element.
std::size_t DataTypeSize(DataType type);

// "float32" and its kin.
const char* DataTypeName(DataType type);

// "sum" and its kin.
const char* ReduceOpName(ReduceOp op);

// All ranks of one epoch, joined for collective operations.
//
// Every rank must make the same calls in the same order. Each call carries (epoch, sequence,
// operation, dtype, op, count, root, terms); when two ranks disagree, every rank that has made the
// call gets kMismatch naming two ranks and what each of them called, without waiting for the rest.
//
// Errors of every call: kTimeout (deadline passed), kPeerLost (a rank is gone; noticed from its
// closed link, nobody has to say so), kMismatch, kAborted, kInvalidArgument (root outside the
// world). Each message names rank, peer, operation, bytes and elapsed time. A rank that fails tells
// the others, who fail with its code and words. After any error `data` holds unspecified values and
// the communicator is unusable: every later call fails at once with the first error. Build a new
// one at the next epoch.
//
// Results are bitwise equal on all ranks and from run to run: for each element the contributions
// are combined in rank order, ((x0 + x1) + x2) + ..., where ranks share hosts first within each
// host, then over the hosts in the order of their first ranks. Integer sums wrap around.
//
// Thread: one calling thread at a time; Abort() from any thread, but not during destruction.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // What is said of the data of this rank's next call, such as a hash of their shape; 0: nothing.
  // Ranks of which other things are said disagree. Thread: the calling thread.
  virtual void NoteTerms(uint32_t /*terms*/) {}

  // Combines `data` over all ranks, in place. Shapes: data [count] of `type`, equal on every rank.
  virtual Status AllReduce(
      void* data, std::size_t count, DataType type, ReduceOp op, Deadline deadline) = 0;

  // Copies `data` of rank `root` to all others. Shapes: data [byte_count], equal on every rank.
  virtual Status Broadcast(void* data, std::size_t byte_count, int root, Deadline deadline) = 0;

  // A broadcast of which some ranks have the bytes already: where `holds`, `data` is what `root`
  // has. It is then only read, nothing is sent for it, and this rank may be asked to pass it on.
  // The root holds, whatever it says. Shapes: as those of Broadcast.
  virtual Status Fill(
      void* data, std::size_t byte_count, int root, bool holds, Deadline deadline) = 0;

  // Returns once every rank has called it.
  virtual Status Barrier(Deadline deadline) = 0;

  // Ends the wait of a call in progress within 10 ms and fails it and all later ones with `reason`,
  // on this rank at once and on the others as soon as they wait for it. The first error wins: after
  // a failure this does nothing, and where a peer has reported one already, that is the reason.
  // Thread: any.
  virtual void Abort(const Error& reason) noexcept = 0;

  // Looks, between calls, whether all is well: whether this communicator has failed or was aborted,
  // a peer has reported a failure, or is gone. Does not wait. What it finds is this communicator's
  // failure from then on, as though a call had met it. For whoever waits for the same ranks by
  // other means than calls. Thread: the calling thread.
  virtual Status CheckHealth() = 0;

  // Where this rank can read what rank `root` has in the place in lent memory where `data` is in
  // this rank's; null: nowhere. Good between two calls, of which the next one is a barrier: before
  // it `root` writes nothing there, unless it has failed. So what was read counts once the call
  // after the barrier has succeeded as well: only a root that had come to the barrier's end, and
  // not failed by then, makes that. Shapes: [byte_count]. Thread: the calling thread.
  virtual const std::byte* LentBy(int /*root*/,
                                  const void* /*data*/,
                                  std::size_t /*byte_count*/) const {
    return nullptr;
  }

  // "shared-memory", "tcp", "hierarchical", or "alone" for a world of one.
  virtual const char* BackendName() const = 0;

  // More of it for people to read, or nothing.
  virtual std::string Detail() const { return ""; }
};

// What a rendezvous hands over: one connected stream socket to each other rank, used by nobody
// else, with no bytes in flight.
struct CommunicatorOptions {
  int rank = 0;
  int world_size = 1;  // at most kWorldSizeMax
  Epoch epoch;
  uint64_t plan_hash = 0;       // equal on every rank: hash of the bucket plan and the job's spec
  std::vector<UniqueFd> links;  // [world_size], links[rank] is empty
  std::vector<std::string> host_ids;  // [world_size]; equal ids can share memory; empty: nobody can
  bool allow_shared_memory = true;    // false: this rank is a host of its own
  std::vector<int> names;  // [world_size], what errors call the ranks; empty: their own numbers
  // Memory of this rank's that those of its host may read, or null. It must outlive the
  // communicator. Where all of them lend as much, an all-reduce or broadcast of data that lies in
  // it moves no bytes to or from a stage; of an all-reduce all ranks then give the same place of
  // their own memory, of a broadcast the root's place is all that counts.
  const SharedSegment* lent = nullptr;
};

// Choice: every rank keeps a link to every other one (session/descriptors.h); what a rank
// looks at, sends and holds grows with their number, all of them together with its square.
constexpr int kWorldSizeMax = 1024;

// Joins the ranks: shared memory when all are on one host, allow it and can map one segment; TCP
// when no two are; else hierarchical, the one within hosts and the other between them. TCP for all
// where one host's ranks cannot map their segment. Collective: every rank calls it. Nothing is left
// behind whatever way a process ends: the segment is an unnamed memfd handed over a socket.
// Errors: kInvalidArgument (options), kTimeout, kPeerLost, kMismatch (plan hash, epoch or world
// size differ; names both ranks), kIo and kin.
Result<std::unique_ptr<Communicator>> MakeCommunicator(CommunicatorOptions options,
                                                       Deadline deadline);

}  // namespace lockstep::runtime
