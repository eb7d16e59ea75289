#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::runtime {

// Whose work is what, where the model is on parameter servers. Pure.
//
// An update is of one global batch, whichever worker computes it, so that a job takes the updates
// that any other strategy takes. They are dealt out in turn: of N workers, worker w has the updates
// start + w + 1, start + w + 1 + N, ... after the `start` that training began with. Its n-th is its
// share n, from 1: the number of its push.
struct ShareDeal {
  int64_t start = 0;
  int worker_count = 1;
};

// The update that is the worker's share `share`.
inline int64_t UpdateOfShare(const ShareDeal& deal, int worker, int64_t share) {
  return deal.start + worker + 1 + (share - 1) * deal.worker_count;
}

// How many shares the worker has up to and with `update`.
inline int64_t SharesUpTo(const ShareDeal& deal, int worker, int64_t update) {
  const int64_t behind = update - deal.start - worker - 1;
  return behind < 0 ? 0 : behind / deal.worker_count + 1;
}

}  // namespace lockstep::runtime
