#include "trainer-runtime/collectives/shared_memory/shared_memory_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "trainer-runtime/collectives/communicator/communicator_front.h"
#include "trainer-runtime/collectives/reduce/reduce.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_group.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_layout.h"

namespace lockstep::runtime {
namespace {

// Chunks and slices begin on a line; that also keeps every element whole.
constexpr std::size_t kAlignment = 64;

class SharedMemoryCommunicator final : public CommunicatorFront {
 public:
  SharedMemoryCommunicator(CommunicatorOptions options, SharedSegment segment, LentMemory lent)
      : CommunicatorFront(options.rank, options.world_size, options.epoch, options.names),
        rank_(options.rank),
        world_size_(options.world_size),
        segment_(std::move(segment)),
        group_(rank_, SharedMemoryLayout(segment_.data(), world_size_), std::move(options)),
        layout_(group_.layout()),
        lent_(std::move(lent)),
        ranks_(static_cast<std::size_t>(world_size_)),
        sources_(ranks_.size()) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
    segment_.CloseFd();
  }

  Status CheckHealth() override { return group_.CheckHealth(); }

  const std::byte* LentBy(int root, const void* data, std::size_t byte_count) const override {
    const uint64_t place = lent_.PlaceOf(data, byte_count);
    return place == 0 ? nullptr : lent_.At(root, place);
  }

  const char* BackendName() const override { return "shared-memory"; }

  std::string Detail() const override {
    return lent_.is_empty() ? "" : "gradients in shared memory";
  }

  void Abort(const Error& reason) noexcept override { group_.Abort(reason); }

 private:
  // One of the slices into which a chunk is cut, one per rank.
  struct Slice {
    std::size_t offset;
    std::size_t size;
  };

  // How a message is cut: chunks of equal size (but the last), each of one slice per rank.
  struct Cut {
    std::size_t byte_count;
    std::size_t chunk_bytes;
    std::size_t chunk_count;

    std::size_t ChunkSize(std::size_t chunk) const {
      return std::min(chunk_bytes, byte_count - chunk * chunk_bytes);
    }
  };

  Status Run(const CallContext& context, std::byte* data) override;

  uint64_t PlaceOf(const void* data, std::size_t byte_count) const override {
    return lent_.PlaceOf(data, byte_count);
  }

  Status RunOperation(const CallContext& context, std::byte* data);

  // Announces the call and waits until every rank has. No bytes travel with it.
  Status Meet(const CallContext& context);
  Status SmallAllReduce(const CallContext& context, std::byte* data);
  Status StagedAllReduce(const CallContext& context, std::byte* data);
  Status Broadcast(const CallContext& context, std::byte* data);
  Status StagedBroadcast(const CallContext& context, std::byte* data);
  Status LentAllReduce(const CallContext& context, std::byte* data);
  Status LentBroadcast(const CallContext& context, uint64_t root_place, std::byte* data);
  Status CopyFromLent(const CallContext& context, const std::byte* from, std::byte* data);
  std::vector<int> RanksLacking(const Call& call) const;

  static Cut CutMessage(std::size_t byte_count, std::size_t chunk_bytes_max);
  Slice SliceOf(std::size_t chunk_size, int rank) const;
  void Stage(const Cut& cut, std::size_t chunk, const std::byte* data);
  Status ReduceSlice(const CallContext& context,
                     const Cut& cut,
                     std::size_t chunk,
                     std::byte* data);
  Status CopyOut(const CallContext& context, const Cut& cut, std::size_t chunk, std::byte* data);
  // The root's part of a broadcast to `lacking`, and that of each of these.
  Status LayOut(const CallContext& context,
                const Cut& cut,
                const std::vector<int>& lacking,
                const std::byte* data);
  Status CopyFromRoot(const CallContext& context, const Cut& cut, std::byte* data);

  // Of data in lent memory: as ReduceSlice and CopyOut.
  void ReduceLentSlice(const CallContext& context,
                       const Cut& cut,
                       std::size_t chunk,
                       std::byte* data);
  Status CopyLentSlices(const CallContext& context,
                        const Cut& cut,
                        std::size_t chunk,
                        std::byte* data);
  // Says that this rank has read all it needs of a call of so many chunks, and waits until those of
  // `readers` have: from then on the data is the caller's alone.
  Status EndReading(const CallContext& context,
                    std::size_t chunk_count,
                    const std::vector<int>& readers);
  void AdvanceChunks(std::size_t chunk_count);

  const int rank_;
  const int world_size_;
  SharedSegment segment_;
  SharedMemoryGroup group_;  // speaks through the segment, so it goes first
  const SharedMemoryLayout& layout_;
  const LentMemory lent_;
  std::vector<int> ranks_;  // all

  // Of the calling thread.
  uint64_t chunk_base_ = 0;  // chunks of all earlier calls, equal on every rank
  std::vector<const void*> sources_;
};

// --- Calls ---

Status SharedMemoryCommunicator::Run(const CallContext& context, std::byte* data) {
  if (!group_.has_failed()) {
    const Status status = RunOperation(context, data);
    if (status.ok()) {
      group_.Complete(context.call);
      return OkStatus();
    }
    group_.Fail(status.error());
  }
  return group_.failure();
}

Status SharedMemoryCommunicator::RunOperation(const CallContext& context, std::byte* data) {
  switch (context.call.operation) {
    case Operation::kAllReduce:
      if (CallBytes(context.call) <= layout_.small_bytes_max()) {
        return SmallAllReduce(context, data);
      }
      return context.call.place != 0 ? LentAllReduce(context, data)
                                     : StagedAllReduce(context, data);
    case Operation::kBroadcast:
      return Broadcast(context, data);
    case Operation::kBarrier:
    case Operation::kAnnounceBroadcast:
      return Meet(context);
  }
  return OkStatus();
}

Status SharedMemoryCommunicator::Meet(const CallContext& context) {
  group_.PostCall(context.call, nullptr, 0);
  for (int peer = 0; peer < world_size_; ++peer) {
    LOCKSTEP_RETURN_IF_ERROR(group_.AwaitPost(context, peer));
  }
  return OkStatus();
}

// Every rank reads every other's whole message: one wait in all, which for few bytes costs less
// than the two waits of the staged way.
Status SharedMemoryCommunicator::SmallAllReduce(const CallContext& context, std::byte* data) {
  group_.PostCall(context.call, data, CallBytes(context.call));
  for (int peer = 0; peer < world_size_; ++peer) {
    LOCKSTEP_RETURN_IF_ERROR(group_.AwaitPost(context, peer));
    sources_[static_cast<std::size_t>(peer)] =
        peer == rank_ ? data : layout_.post(peer, context.call.sequence)->payload();
  }
  ReduceInOrder(context.call.type, context.call.reduce, sources_, context.call.count, data);
  return OkStatus();
}

// Each rank owns one slice of each chunk. In step k a rank lays out chunk k for the others,
// combines its own slice of chunk k-1 and shares it, and copies the others' slices of chunk k-2:
//
//   step        0       1       2       3    ...
//   lay out     0       1       2       3
//   combine             0       1       2
//   copy out                    0       1
//
// so what it waits for was due a step earlier and is mostly there already.
Status SharedMemoryCommunicator::StagedAllReduce(const CallContext& context, std::byte* data) {
  const Cut cut = CutMessage(CallBytes(context.call), layout_.chunk_bytes());
  group_.PostCall(context.call, nullptr, 0);
  for (std::size_t step = 0; step < cut.chunk_count + 2; ++step) {
    if (step < cut.chunk_count) {
      Stage(cut, step, data);
    }
    if (step == 0) {
      for (int peer = 0; peer < world_size_; ++peer) {
        LOCKSTEP_RETURN_IF_ERROR(group_.AwaitPost(context, peer));
      }
    }
    if (step >= 1 && step - 1 < cut.chunk_count) {
      LOCKSTEP_RETURN_IF_ERROR(ReduceSlice(context, cut, step - 1, data));
    }
    if (step >= 2) {
      LOCKSTEP_RETURN_IF_ERROR(CopyOut(context, cut, step - 2, data));
    }
  }
  chunk_base_ += cut.chunk_count;
  return OkStatus();
}

// Where the root's bytes lie is its own affair: the others may want them anywhere.
Status SharedMemoryCommunicator::Broadcast(const CallContext& context, std::byte* data) {
  LOCKSTEP_RETURN_IF_ERROR(Meet(context));
  const Post* post = layout_.post(context.call.root, context.call.sequence);
  const uint64_t place = post->call.place;
  return place != 0 ? LentBroadcast(context, place, data) : StagedBroadcast(context, data);
}

// Precondition of this and the next: all have announced the call.
//
// The root lays out whole chunks; those who lack them say with their own counter how far they have
// copied, so that the root neither overwrites what is not copied nor returns before all are done.
// Whoever holds the bytes already goes on at once: nobody waits for it before the next call.
Status SharedMemoryCommunicator::StagedBroadcast(const CallContext& context, std::byte* data) {
  const std::vector<int> lacking = RanksLacking(context.call);
  const std::size_t byte_count = lacking.empty() ? 0 : CallBytes(context.call);
  const Cut cut = CutMessage(byte_count, layout_.chunk_bytes());
  if (rank_ == context.call.root) {
    LOCKSTEP_RETURN_IF_ERROR(LayOut(context, cut, lacking, data));
  } else if (context.call.holds == 0) {
    LOCKSTEP_RETURN_IF_ERROR(CopyFromRoot(context, cut, data));
  }
  AdvanceChunks(cut.chunk_count);
  return OkStatus();
}

// For a call in which not every rank says how far it has come.
void SharedMemoryCommunicator::AdvanceChunks(std::size_t chunk_count) {
  chunk_base_ += chunk_count;
  RankProgress* const mine = layout_.progress(rank_);
  mine->staged.store(static_cast<uint32_t>(chunk_base_), std::memory_order_release);
  mine->reduced.store(static_cast<uint32_t>(chunk_base_), std::memory_order_release);
}

// Precondition: all have announced `call`.
std::vector<int> SharedMemoryCommunicator::RanksLacking(const Call& call) const {
  std::vector<int> lacking;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (rank != call.root && layout_.post(rank, call.sequence)->call.holds == 0) {
      lacking.push_back(rank);
    }
  }
  return lacking;
}

Status SharedMemoryCommunicator::LayOut(const CallContext& context,
                                        const Cut& cut,
                                        const std::vector<int>& lacking,
                                        const std::byte* data) {
  const auto await_copied = [&](std::size_t chunk_count) -> Status {
    const auto target = static_cast<uint32_t>(chunk_base_ + chunk_count);
    for (const int peer : lacking) {
      LOCKSTEP_RETURN_IF_ERROR(group_.Await(context, layout_.progress(peer)->staged, target, peer));
    }
    return OkStatus();
  };
  for (std::size_t chunk = 0; chunk < cut.chunk_count; ++chunk) {
    if (chunk >= SharedMemoryLayout::kStageDepth) {
      LOCKSTEP_RETURN_IF_ERROR(await_copied(chunk + 1 - SharedMemoryLayout::kStageDepth));
    }
    std::memcpy(layout_.stage(rank_, chunk_base_ + chunk),
                data + chunk * cut.chunk_bytes,
                cut.ChunkSize(chunk));
    group_.Publish(layout_.progress(rank_)->staged, static_cast<uint32_t>(chunk_base_ + chunk + 1));
  }
  return await_copied(cut.chunk_count);
}

Status SharedMemoryCommunicator::CopyFromRoot(const CallContext& context,
                                              const Cut& cut,
                                              std::byte* data) {
  const int root = context.call.root;
  for (std::size_t chunk = 0; chunk < cut.chunk_count; ++chunk) {
    const auto target = static_cast<uint32_t>(chunk_base_ + chunk + 1);
    LOCKSTEP_RETURN_IF_ERROR(group_.Await(context, layout_.progress(root)->staged, target, root));
    std::memcpy(data + chunk * cut.chunk_bytes,
                layout_.stage(root, chunk_base_ + chunk),
                cut.ChunkSize(chunk));
    group_.Publish(layout_.progress(rank_)->staged, target);
  }
  return OkStatus();
}

// --- Chunks and slices ---

SharedMemoryCommunicator::Cut SharedMemoryCommunicator::CutMessage(std::size_t byte_count,
                                                                   std::size_t chunk_bytes_max) {
  const std::size_t chunk_count = (byte_count + chunk_bytes_max - 1) / chunk_bytes_max;
  if (chunk_count == 0) {
    return Cut{0, 0, 0};
  }
  const std::size_t even = (byte_count + chunk_count - 1) / chunk_count;
  const std::size_t size = RoundUp(even, kAlignment);
  return Cut{byte_count, size, (byte_count + size - 1) / size};
}

SharedMemoryCommunicator::Slice SharedMemoryCommunicator::SliceOf(std::size_t chunk_size,
                                                                  int rank) const {
  const auto world = static_cast<std::size_t>(world_size_);
  const std::size_t even = (chunk_size + world - 1) / world;
  const std::size_t size = RoundUp(even, kAlignment);
  const std::size_t offset = std::min(chunk_size, size * static_cast<std::size_t>(rank));
  return Slice{offset, std::min(size, chunk_size - offset)};
}

void SharedMemoryCommunicator::Stage(const Cut& cut, std::size_t chunk, const std::byte* data) {
  const std::size_t size = cut.ChunkSize(chunk);
  const std::byte* from = data + chunk * cut.chunk_bytes;
  std::byte* stage = layout_.stage(rank_, chunk_base_ + chunk);
  const Slice own = SliceOf(size, rank_);
  const std::size_t after = own.offset + own.size;
  std::memcpy(stage, from, own.offset);
  std::memcpy(stage + after, from + after, size - after);
  group_.Publish(layout_.progress(rank_)->staged, static_cast<uint32_t>(chunk_base_ + chunk + 1));
}

Status SharedMemoryCommunicator::ReduceSlice(const CallContext& context,
                                             const Cut& cut,
                                             std::size_t chunk,
                                             std::byte* data) {
  // Combined piece by piece, so that the copy for the others reads from the first-level cache.
  constexpr std::size_t kPieceBytes = 8 * 1024;
  const uint64_t number = chunk_base_ + chunk;
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer != rank_) {
      LOCKSTEP_RETURN_IF_ERROR(group_.Await(
          context, layout_.progress(peer)->staged, static_cast<uint32_t>(number + 1), peer));
    }
  }
  const Slice slice = SliceOf(cut.ChunkSize(chunk), rank_);
  std::byte* own = data + chunk * cut.chunk_bytes;
  const std::size_t element = DataTypeSize(context.call.type);
  for (std::size_t done = 0; done < slice.size; done += kPieceBytes) {
    const std::size_t offset = slice.offset + done;
    const std::size_t size = std::min(kPieceBytes, slice.size - done);
    for (int peer = 0; peer < world_size_; ++peer) {
      sources_[static_cast<std::size_t>(peer)] =
          (peer == rank_ ? own : layout_.stage(peer, number)) + offset;
    }
    ReduceInOrder(context.call.type, context.call.reduce, sources_, size / element, own + offset);
    std::memcpy(layout_.result(rank_, number) + done, own + offset, size);
  }
  group_.Publish(layout_.progress(rank_)->reduced, static_cast<uint32_t>(number + 1));
  return OkStatus();
}

Status SharedMemoryCommunicator::CopyOut(const CallContext& context,
                                         const Cut& cut,
                                         std::size_t chunk,
                                         std::byte* data) {
  const uint64_t number = chunk_base_ + chunk;
  for (int step = 1; step < world_size_; ++step) {
    const int peer = (rank_ + step) % world_size_;  // staggered: not all at the same slice
    LOCKSTEP_RETURN_IF_ERROR(group_.Await(
        context, layout_.progress(peer)->reduced, static_cast<uint32_t>(number + 1), peer));
    const Slice slice = SliceOf(cut.ChunkSize(chunk), peer);
    std::memcpy(
        data + chunk * cut.chunk_bytes + slice.offset, layout_.result(peer, number), slice.size);
  }
  return OkStatus();
}

// --- Lent memory ---

// What all ranks can read is summed where it lies, and each writes to its own memory alone. In step
// k a rank combines its slice of chunk k, over its own numbers, and copies the others' slices of
// chunk k-1 from where their owners have combined them:
//
//   step        0       1       2    ...     memory of rank 1   | slice 0 | slice 1 | slice 2 |
//   combine     0       1       2            it writes          |         | combine |         |
//   copy                0       1            then               | copy    |         | copy    |
//
// Nobody but the owner of a slice reads the numbers that others have there, and it has read them
// before it says that it has combined them: only then do these overwrite theirs.
Status SharedMemoryCommunicator::LentAllReduce(const CallContext& context, std::byte* data) {
  LOCKSTEP_RETURN_IF_ERROR(Meet(context));
  const Cut cut = CutMessage(CallBytes(context.call), LentMemory::kChunkBytes);
  for (std::size_t step = 0; step < cut.chunk_count + 1; ++step) {
    if (step < cut.chunk_count) {
      ReduceLentSlice(context, cut, step, data);
    }
    if (step >= 1) {
      LOCKSTEP_RETURN_IF_ERROR(CopyLentSlices(context, cut, step - 1, data));
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(EndReading(context, cut.chunk_count, ranks_));
  chunk_base_ += cut.chunk_count;
  return OkStatus();
}

// Those who lack the bytes copy them from where the root has them.
Status SharedMemoryCommunicator::LentBroadcast(const CallContext& context,
                                               uint64_t root_place,
                                               std::byte* data) {
  constexpr std::size_t kChunkCount = 1;
  const int root = context.call.root;
  if (!lent_.Contains(root_place, CallBytes(context.call))) {
    return context.Fail(ErrorCode::kCorrupt, "the root's data ends outside its shared memory");
  }
  if (rank_ == root) {
    LOCKSTEP_RETURN_IF_ERROR(EndReading(context, kChunkCount, RanksLacking(context.call)));
  } else if (context.call.holds == 0) {
    LOCKSTEP_RETURN_IF_ERROR(CopyFromLent(context, lent_.At(root, root_place), data));
    LOCKSTEP_RETURN_IF_ERROR(EndReading(context, kChunkCount, {}));
  }
  AdvanceChunks(kChunkCount);
  return OkStatus();
}

// The root is gone as soon as it is, not when all has been read of what it leaves behind.
Status SharedMemoryCommunicator::CopyFromLent(const CallContext& context,
                                              const std::byte* from,
                                              std::byte* data) {
  const std::size_t byte_count = CallBytes(context.call);
  for (std::size_t done = 0; done < byte_count; done += LentMemory::kChunkBytes) {
    LOCKSTEP_RETURN_IF_ERROR(group_.CheckGoesOn(context, context.call.root));
    std::memcpy(data + done, from + done, std::min(LentMemory::kChunkBytes, byte_count - done));
  }
  return OkStatus();
}

void SharedMemoryCommunicator::ReduceLentSlice(const CallContext& context,
                                               const Cut& cut,
                                               std::size_t chunk,
                                               std::byte* data) {
  const Slice slice = SliceOf(cut.ChunkSize(chunk), rank_);
  const std::size_t offset = chunk * cut.chunk_bytes + slice.offset;
  for (int peer = 0; peer < world_size_; ++peer) {
    sources_[static_cast<std::size_t>(peer)] =
        (peer == rank_ ? data : lent_.At(peer, context.call.place)) + offset;
  }
  ReduceInOrder(context.call.type,
                context.call.reduce,
                sources_,
                slice.size / DataTypeSize(context.call.type),
                data + offset);
  group_.Publish(layout_.progress(rank_)->reduced, static_cast<uint32_t>(chunk_base_ + chunk + 1));
}

Status SharedMemoryCommunicator::CopyLentSlices(const CallContext& context,
                                                const Cut& cut,
                                                std::size_t chunk,
                                                std::byte* data) {
  const auto target = static_cast<uint32_t>(chunk_base_ + chunk + 1);
  for (int step = 1; step < world_size_; ++step) {
    const int peer = (rank_ + step) % world_size_;  // staggered: not all at the same slice
    LOCKSTEP_RETURN_IF_ERROR(group_.Await(context, layout_.progress(peer)->reduced, target, peer));
    const Slice slice = SliceOf(cut.ChunkSize(chunk), peer);
    const std::size_t offset = chunk * cut.chunk_bytes + slice.offset;
    std::memcpy(data + offset, lent_.At(peer, context.call.place) + offset, slice.size);
  }
  return OkStatus();
}

// A rank that has failed may write to its memory again while this one still reads there, so what
// was read counts only if nobody has failed by then. Its failure is reported before it writes, and
// here Publish lies between the reads and the look at the report.
Status SharedMemoryCommunicator::EndReading(const CallContext& context,
                                            std::size_t chunk_count,
                                            const std::vector<int>& readers) {
  const auto target = static_cast<uint32_t>(chunk_base_ + chunk_count);
  group_.Publish(layout_.progress(rank_)->staged, target);
  for (const int peer : readers) {
    if (peer != rank_) {
      LOCKSTEP_RETURN_IF_ERROR(group_.Await(context, layout_.progress(peer)->staged, target, peer));
    }
  }
  return group_.CheckNobodyHasFailed(context);
}

}  // namespace

std::unique_ptr<CommunicatorFront> MakeSharedMemoryCommunicator(CommunicatorOptions options,
                                                                SharedSegment segment,
                                                                LentMemory lent) {
  return std::make_unique<SharedMemoryCommunicator>(
      std::move(options), std::move(segment), std::move(lent));
}

}  // namespace lockstep::runtime
