#pragma once

#include <cstdint>

namespace lockstep::runtime {

// Where training stands in the data. Part of the state: it travels with checkpoints and between
// ranks, and is equal on all ranks after every step.
//
// Local words: a *data epoch* is one pass over the training samples (an epoch of Keras; not the
// epoch of a rendezvous); a *position* counts the samples of one data epoch in the order in which
// it visits them. Positions and not batches are counted, so that a cursor means the same samples
// whatever the global batch size is.
struct DataCursor {
  int64_t data_epoch = 0;        // the running one, from 0
  int64_t position = 0;          // where its next batch starts, from 0
  int64_t samples_consumed = 0;  // by all steps so far, all data epochs together

  friend bool operator==(const DataCursor&, const DataCursor&) = default;
};

}  // namespace lockstep::runtime
