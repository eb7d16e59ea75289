#include "trainer-runtime/checkpoint/fence.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace lockstep::runtime {
namespace {

// Choice: runs that went on with one folder since a job that still trains lost it.
constexpr std::ptrdiff_t kShutOutMax = 256;

// The order in which writers of one job follow each other. The incarnation is that of rank 0 and
// only grows within an attempt. Epochs do not: when the processes of all ranks are lost at once,
// nobody remembers the epoch, and their successors meet at the one that their pods were born with.
auto Order(const WriterIdentity& writer) {
  return std::tuple(writer.attempt, writer.incarnation, writer.epoch);
}

std::string Describe(const WriterIdentity& writer) {
  return "attempt " + std::to_string(writer.attempt.value()) + ", epoch " +
         std::to_string(writer.epoch.value()) + ", incarnation " +
         std::to_string(writer.incarnation.value()) + " of job " + writer.job_uid;
}

Error StaleAfter(const WriterIdentity& holder,
                 const WriterIdentity& writer,
                 const std::string& directory) {
  return Error(
      ErrorCode::kStale,
      directory + " is now written by " + Describe(holder) + ", not by " + Describe(writer));
}

}  // namespace

bool Outranks(const WriterIdentity& writer, const WriterIdentity& other) {
  return Order(writer) > Order(other);
}

Status MayWrite(const WriterIdentity& writer, const Fence& fence, const std::string& directory) {
  if (fence.writer.job_uid != writer.job_uid) {
    return LostTo(fence.writer.job_uid, directory);
  }
  return Outranks(fence.writer, writer) ? StaleAfter(fence.writer, writer, directory) : OkStatus();
}

Status MayFollow(const WriterIdentity& writer, const Fence& fence, const std::string& directory) {
  if (fence.writer.job_uid == writer.job_uid) {
    return MayWrite(writer, fence, directory);
  }
  // A successor has no memory of its own of what its job had: the fence tells it.
  const bool is_shut_out =
      std::ranges::find(fence.shut_out, writer.job_uid) != fence.shut_out.end();
  return is_shut_out ? LostTo(fence.writer.job_uid, directory) : OkStatus();
}

Fence FenceAfter(const Fence& before, const WriterIdentity& writer) {
  Fence next{writer, before.shut_out};
  if (before.writer.job_uid != writer.job_uid) {
    next.shut_out.push_back(before.writer.job_uid);
  }
  if (std::ssize(next.shut_out) > kShutOutMax) {
    next.shut_out.erase(next.shut_out.begin(), next.shut_out.end() - kShutOutMax);
  }
  return next;
}

Error LostTo(const std::string& job_uid, const std::string& directory) {
  return Error(ErrorCode::kAlreadyExists,
               "the checkpoint directory " + directory + " was taken over by job " + job_uid +
                   ", which began to write there later; two jobs must not share one directory");
}

}  // namespace lockstep::runtime
