#pragma once

#include <cstddef>
#include <string>

#include "common/base/result.h"

namespace lockstep::runtime {

// Files and folders that outlive a power cut. Errors of all: kIo and its kin.

// Flushes the entries of a folder.
Status FlushFolder(const std::string& path);

// Makes `directory` and what is missing above it, each entry flushed: a checkpoint is of no use in
// a folder that a power cut takes away.
Status MakeLastingDirectories(const std::string& directory);

// Puts `folder` at `target`, the folder of a step. What stood there, if anything, is at `folder`
// afterwards. On file systems that cannot exchange it lies at AsideOf(target) for a moment.
Status Exchange(const std::string& folder, const std::string& target);

// "x/step-0010" of "x/step-010": another name of the same step, so that a crash hides no
// checkpoint.
std::string AsideOf(const std::string& target);

// The whole file, which may not be longer than `bytes_max`. Errors: kCorrupt (longer, or not a
// file: a pipe would never end), and ReadFile's.
Result<std::string> ReadBounded(const std::string& path, std::size_t bytes_max);

}  // namespace lockstep::runtime
