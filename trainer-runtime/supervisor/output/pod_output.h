#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <poll.h>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "trainer-runtime/supervisor/output/last_words.h"
#include "trainer-runtime/supervisor/output/output_stream.h"
#include "trainer-runtime/supervisor/process/child_process.h"

namespace lockstep::runtime {

// What the processes of a pod write, on its way to the pod's own outputs. Thread: one.
class PodOutput {
 public:
  // Writes to `output_fd` and `error_fd`, which it borrows.
  PodOutput(int output_fd, int error_fd, std::size_t process_count);

  // The process stands for `local_rank` from now on. Its lines get `prefix`; where `is_plain`, its
  // bytes go on as they are.
  void Attach(std::size_t local_rank,
              ChildProcess* child,
              const std::string& prefix,
              bool is_plain);

  void AddEntries(std::vector<pollfd>* entries) const;

  // Reads what there is, and writes what can be written.
  void Pass();

  // Takes what a process that has ended has left in its pipes: the error output, or both, which are
  // closed then.
  void TakeErrors(std::size_t local_rank);
  void TakeRest(std::size_t local_rank);

  // Takes what all have left, and waits until it is written, or until the deadline. Precondition:
  // nobody writes any more.
  void Finish(Duration patience);

  // What the process that stood last for `local_rank` has said.
  const LastWords& words(std::size_t local_rank) const { return words_[local_rank]; }

  int64_t ByteCount(std::size_t local_rank) const;

  // Whether nobody takes what the process writes.
  bool IsHeldUp(std::size_t local_rank) const;

 private:
  OutputSink output_;
  OutputSink error_;
  std::deque<LastWords> words_;        // by local rank; streams point into it
  std::vector<OutputStream> streams_;  // by local rank, output and error of each
};

}  // namespace lockstep::runtime
