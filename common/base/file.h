#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace lockstep {

// The whole file. Errors: kNotFound, kIo, kResourceExhausted (larger than `bytes_max`).
Result<std::string> ReadFile(const std::string& path, std::size_t bytes_max);

// Replaces `path` by `content` so that a reader sees the old or the new file and never a part:
// written beside it, flushed to disk, renamed, directory flushed.
// Errors: kResourceExhausted (disk full), kNotFound (no such folder), kIo. On error `path` is as it
// was.
Status WriteFileAtomically(const std::string& path, std::string_view content);

// Creates the folder and its parents; fine when it exists. Errors: kIo and its kin.
Status MakeDirectories(const std::string& path);

// Writes all bytes to `fd`, restarting after signals and short writes. Errors: by errno.
Status WriteAll(int fd, std::string_view bytes);

}  // namespace lockstep
