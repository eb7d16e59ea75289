#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/base/unique_fd.h"

namespace lockstep::runtime {

enum class DataType : uint8_t { kUInt8, kInt32, kInt64, kFloat32, kFloat64 };
enum class ReduceOp : uint8_t { kSum, kMin, kMax };

std::size_t DataTypeSize(DataType type);
const char* DataTypeName(DataType type);

// All ranks of one epoch, joined for collective operations.
//
// Every rank must make the same calls in the same order. Each call carries (epoch, sequence,
// operation, dtype, count); ranks that disagree all get kMismatch naming both ranks and both calls.
// Errors of every call: kTimeout (deadline passed), kPeerLost (a rank is gone), kMismatch,
// kAborted; each message names rank, peer, operation, bytes and elapsed time. After any error the
// communicator is unusable and every later call fails at once with the first error: build a new one
// at the next epoch. Results are bitwise equal on all ranks and from run to run: for each element
// the contributions are added in rank order 0, 1, 2, ... Thread: one calling thread at a time;
// Abort() from any thread.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Combines `data` over all ranks, in place. Shapes: data [count] of `type`, equal on every rank.
  virtual Status AllReduce(
      void* data, std::size_t count, DataType type, ReduceOp op, Deadline deadline) = 0;

  // Copies `data` of rank `root` to all others. Shapes: data [byte_count], equal on every rank.
  virtual Status Broadcast(void* data, std::size_t byte_count, int root, Deadline deadline) = 0;

  // Returns once every rank has called it.
  virtual Status Barrier(Deadline deadline) = 0;

  // Ends the wait of a call in progress and fails all later ones with `reason`. Thread: any.
  virtual void Abort(const Error& reason) noexcept = 0;

  // "shared-memory" or "tcp".
  virtual const char* BackendName() const = 0;
};

// What a rendezvous hands over: one connected stream socket to each other rank, used by nobody
// else.
struct CommunicatorOptions {
  int rank = 0;
  int world_size = 1;
  Epoch epoch;
  uint64_t plan_hash = 0;       // equal on every rank: hash of the bucket plan and the job's spec
  std::vector<UniqueFd> links;  // [world_size], links[rank] is empty
  std::vector<std::string> host_ids;  // [world_size]; equal ids can share memory
  bool allow_shared_memory = true;
};

// Shared memory when all ranks are on one host and allow it, else TCP. Collective: every rank calls
// it. Errors: kTimeout, kPeerLost, kMismatch (plan hash, epoch or world size differ; names both
// ranks).
Result<std::unique_ptr<Communicator>> MakeCommunicator(CommunicatorOptions options,
                                                       Deadline deadline);

}  // namespace lockstep::runtime
