#pragma once

#include <cstdint>
#include <optional>

#include "common/base/io/unique_fd.h"
#include "trainer-runtime/supervisor/output/last_words.h"
#include "trainer-runtime/supervisor/output/line_relay.h"

namespace lockstep::runtime {

// One output of one process, on its way to a sink. Thread: one.
class OutputStream {
 public:
  // A null `prefixer` passes bytes on as they come. `words` follows what passes; null: nobody does.
  // Both `sink` and `words` outlive this.
  OutputStream(UniqueFd fd,
               std::optional<LinePrefixer> prefixer,
               OutputSink* sink,
               LastWords* words);

  int fd() const { return fd_.get(); }

  bool wants_input() const { return fd_.is_open() && !sink_->is_full(); }

  // Whether nobody takes what the process writes.
  bool is_held_up() const { return sink_->is_full(); }

  // All that was ever read.
  int64_t byte_count() const { return byte_count_; }

  // Takes one block; closes at the end. Returns false when there is nothing to take now.
  bool ReadBlock();

  void Close();

 private:
  UniqueFd fd_;
  std::optional<LinePrefixer> prefixer_;
  OutputSink* sink_;
  LastWords* words_;
  int64_t byte_count_ = 0;
};

}  // namespace lockstep::runtime
