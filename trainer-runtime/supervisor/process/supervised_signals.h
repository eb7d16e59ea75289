#pragma once

#include <csignal>

#include "common/base/io/unique_fd.h"

namespace lockstep::runtime {

// The signals that a supervisor takes charge of: TERM, INT, HUP, USR1, USR2, CHLD.
sigset_t SupervisedSignals();

// Blocks them in the calling thread, and ignores PIPE. Threads inherit it, so call it first in a
// program that has others.
void BlockSupervisedSignals();

// Reads `signals`, which are blocked. Empty where there is no descriptor left.
UniqueFd SignalReader(const sigset_t& signals);

// Readable while TERM or INT waits; to be looked at, not read: the signal is for who supervises.
UniqueFd WatchForStop();

}  // namespace lockstep::runtime
