#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::runtime {

// Zeroed memory that several processes map, with no name anywhere: it is gone when the last of them
// is, however they end. Source: memfd_create(2), sealed so that nobody can shrink it under another.
class SharedSegment {
 public:
  // New memory of `byte_count` bytes, for all who map it to write.
  // Errors: kResourceExhausted, kIo.
  static Result<SharedSegment> Create(std::size_t byte_count);

  // The same, of which this mapping stays the only one that can be written, by whomever the
  // descriptor comes to (F_SEAL_FUTURE_WRITE, Linux 5.1; before, MapReadOnly alone sees to that).
  static Result<SharedSegment> CreateForReaders(std::size_t byte_count);

  // The memory behind a descriptor that another process created with Create.
  // Errors: kCorrupt (other size, or not sealed), kResourceExhausted, kIo.
  static Result<SharedSegment> Map(UniqueFd fd, std::size_t byte_count);

  // As Map, for reading: whoever writes to it ends with SIGSEGV. The descriptor is closed. Pages
  // are mapped when they are first read.
  static Result<SharedSegment> MapReadOnly(UniqueFd fd, std::size_t byte_count);

  // The bytes of `owner`, which must outlive this, at the same address. For ranks that are threads
  // of one process, where the thread sanitizer can watch them: it takes two mappings for two
  // memories.
  static SharedSegment Borrow(const SharedSegment& owner) {
    return SharedSegment(UniqueFd(), owner.data_, owner.byte_count_, /*is_owner=*/false);
  }

  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  std::byte* data() const { return data_; }

  std::size_t size() const { return byte_count_; }

  // For handing to another process; -1 once closed.
  int fd() const { return fd_.get(); }

  // The mapping stays, the descriptor goes.
  void CloseFd() { fd_.Reset(); }

 private:
  SharedSegment(UniqueFd fd, std::byte* data, std::size_t byte_count, bool is_owner)
      : fd_(std::move(fd)), data_(data), byte_count_(byte_count), is_owner_(is_owner) {}

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t byte_count_ = 0;
  bool is_owner_ = false;  // of the mapping
};

// Maps the pages of memory that MapReadOnly gave, which else is done as each is first read and
// takes half as long as reading it. Does nothing where the kernel cannot (Linux 5.14).
void MapPagesToRead(const void* begin, std::size_t byte_count);

// Where a segment's descriptor can be fetched. The name is visible to every process of the host's
// network namespace, so it is not what lets a process in: the token is.
struct SegmentOffer {
  std::string socket_name;  // abstract Unix socket, without the leading zero byte
  std::string token;
  std::size_t byte_count = 0;
};

// Hands out a segment's descriptor to whoever presents the token.
class SegmentServer {
 public:
  // Errors: kIo and kin.
  static Result<SegmentServer> Open(const SharedSegment& segment);

  const SegmentOffer& offer() const { return offer_; }

  // Becomes readable when a caller waits.
  int fd() const { return listener_.get(); }

  // Answers one waiting caller, if there is one: the descriptor for the right token, nothing for
  // any other. A caller that does not speak at once is dropped. Returns whether the token was
  // right.
  bool ServeOne(const SharedSegment& segment);

 private:
  SegmentServer(UniqueFd listener, SegmentOffer offer)
      : listener_(std::move(listener)), offer_(std::move(offer)) {}

  UniqueFd listener_;
  SegmentOffer offer_;
};

// Asks for the descriptor that `offer` names, and does not wait for it. Errors: kUnavailable and
// kIo (another network namespace, or the server is gone).
Result<UniqueFd> CallSegmentServer(const SegmentOffer& offer);

// Waits for the descriptor on what CallSegmentServer gave; `link` leads to the process that made
// the offer. Errors: kUnavailable (refused), kPeerLost (the link ended first), kTimeout, kIo.
Result<UniqueFd> AwaitDescriptor(const UniqueFd& call, const UniqueFd& link, Deadline deadline);

// Fetches and maps what `offer` names; `link` leads to the process that made the offer.
// Errors: kUnavailable (another network namespace, or the server is gone), kPeerLost (the link
// ended first), kTimeout, kCorrupt, kIo.
Result<SharedSegment> FetchSegment(const SegmentOffer& offer,
                                   const UniqueFd& link,
                                   Deadline deadline);

}  // namespace lockstep::runtime
