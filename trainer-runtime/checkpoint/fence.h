#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/result.h"
#include "trainer-runtime/checkpoint/snapshot.h"

namespace lockstep::runtime {

// What fence.json holds: who may write, and which jobs had the directory before and lost it.
struct Fence {
  WriterIdentity writer;
  // Uids, oldest first. A job in this list never gets the directory back: it would train on from
  // what the writer's job made.
  std::vector<std::string> shut_out;

  friend bool operator==(const Fence&, const Fence&) = default;
};

// Whether `writer` comes after `other`, of the same job.
bool Outranks(const WriterIdentity& writer, const WriterIdentity& other);

// Whether `writer`, who has claimed `directory`, may still write there. Errors: kStale (a newer
// writer of its job holds the fence), kAlreadyExists (another job does).
Status MayWrite(const WriterIdentity& writer, const Fence& fence, const std::string& directory);

// Whether `writer` may claim `directory` after what stands in the fence. Errors: kStale (a newer
// writer of its job holds it), kAlreadyExists (its job is shut out).
Status MayFollow(const WriterIdentity& writer, const Fence& fence, const std::string& directory);

// The fence of `writer` after `before`: it shuts out whom that did and, where that is another job,
// its writer's.
Fence FenceAfter(const Fence& before, const WriterIdentity& writer);

// What a job is told that the job `job_uid` has shut out of `directory`: kAlreadyExists.
Error LostTo(const std::string& job_uid, const std::string& directory);

}  // namespace lockstep::runtime
