#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/communicator/communicator.h"

namespace lockstep::runtime {

// kAnnounceBroadcast moves no data: all ranks learn that all want the same broadcast.
enum class Operation : uint8_t { kAllReduce, kBroadcast, kBarrier, kAnnounceBroadcast };

// What a rank calls, in the form in which it travels: ranks are copies of one program on one
// architecture, so the bytes are sent as they are.
struct Call {
  int64_t epoch = 0;
  uint64_t sequence = 0;  // counts calls of this communicator from 1
  uint64_t count = 0;     // elements
  int32_t root = 0;       // of a broadcast
  Operation operation = Operation::kBarrier;
  DataType type = DataType::kUInt8;
  ReduceOp reduce = ReduceOp::kSum;
  uint8_t holds = 0;   // 1: a broadcast's bytes are here already
  uint64_t place = 0;  // of the data in lent memory, as LentMemory::PlaceOf
  uint32_t terms = 0;  // Communicator::NoteTerms
  uint32_t reserved = 0;
};

static_assert(sizeof(Call) == 48);

// Whether two ranks call the same: all is equal but `holds` and, of a broadcast, `place`.
bool Agree(const Call& one, const Call& other);

// Bytes of data each rank holds for the call.
std::size_t CallBytes(const Call& call);

// "all_reduce sum of 1024 x float32 (4096 bytes), epoch 3, call 17".
// `call` may come from another process: unknown numbers are printed as numbers.
std::string DescribeCall(const Call& call);

// What errors call `rank`: CommunicatorOptions::names.
int NameOf(const std::vector<int>& names, int rank);

// kMismatch naming both ranks, by what errors call them, and both calls.
Error MismatchError(int rank, const Call& call, int peer, const Call& peer_call);

// What a call in progress knows for its error messages.
struct CallContext {
  Call call;
  int rank = 0;
  TimePoint begin;
  Deadline deadline;
  int name = 0;  // what errors call this rank

  // `code`, with "rank R: CALL: what, after S s".
  Error Fail(ErrorCode code, const std::string& what) const;
};

}  // namespace lockstep::runtime
