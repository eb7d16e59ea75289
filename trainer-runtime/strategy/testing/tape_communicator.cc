#include "trainer-runtime/strategy/testing/tape_communicator.h"

#include <algorithm>

namespace lockstep::runtime {
namespace {

Status Lost() {
  return Error(ErrorCode::kPeerLost, "the tape ends");
}

}  // namespace

Status TapeCommunicator::AllReduce(void* /*data*/,
                                   std::size_t /*count*/,
                                   DataType /*type*/,
                                   ReduceOp /*op*/,
                                   Deadline /*deadline*/) {
  return Lost();
}

Status TapeCommunicator::Broadcast(void* data,
                                   std::size_t byte_count,
                                   int root,
                                   Deadline /*deadline*/) {
  auto* const bytes = static_cast<std::byte*>(data);
  if (rank_ == root) {
    tape_->emplace_back(bytes, bytes + byte_count);
    return OkStatus();
  }
  if (played_ == tape_->size() || (*tape_)[played_].size() != byte_count) {
    return Lost();
  }
  std::copy((*tape_)[played_].begin(), (*tape_)[played_].end(), bytes);
  ++played_;
  return OkStatus();
}

Status TapeCommunicator::Barrier(Deadline /*deadline*/) {
  return Lost();
}

}  // namespace lockstep::runtime
