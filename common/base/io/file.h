#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace lockstep {

// The whole file. Errors: kNotFound, kIo, kResourceExhausted (larger than `bytes_max`).
Result<std::string> ReadFile(const std::string& path, std::size_t bytes_max);

// The same of a file of our own making. What is no file is kCorrupt, and a pipe is not waited for.
Result<std::string> ReadRegularFile(const std::string& path, std::size_t bytes_max);

// Whether `fd`, opened as `path`, is a file. Errors: kCorrupt (a folder, a pipe, a device), kIo.
Status CheckIsFile(int fd, const std::string& path);

// `error`, of a try to write `bytes` into the folder of `path`; where it says that there is no room
// (kResourceExhausted), with these and the bytes that are free there now: what the try itself has
// taken should be gone again.
Error WithRoom(Error error, const std::string& path, std::size_t bytes);

// Replaces `path` by `content` so that a reader sees the old or the new file and never a part:
// written beside it, flushed to disk, renamed, directory flushed.
// Errors: kResourceExhausted (disk full, or no descriptor left; WithRoom), kNotFound (no such
// folder), kIo. On error `path` is as it was.
Status WriteFileAtomically(const std::string& path, std::string_view content);

// Writes `content` over what is in the file at `path`, made where it is missing, and cuts off what
// is left behind: the room that the file has stays its own, so a full disk takes it. A reader in
// between sees part of both. Errors: by errno.
Status WriteFileInPlace(const std::string& path, std::string_view content);

// Room for `bytes` in the file at `path`, made anew and empty: WriteFileInPlace finds it on a disk
// that is full by then. Errors: by errno; there may be no file, or one without the room.
Status ReserveFile(const std::string& path, std::size_t bytes);

// The number of the file that `path` leads to; 0: there is none. Numbers of files that are gone are
// given again, on some file systems at once.
uint64_t InodeOf(const std::string& path);

// Creates the folder and its parents; fine when it exists. Errors: kIo and its kin.
Status MakeDirectories(const std::string& path);

// Writes all bytes to `fd`, restarting after signals and short writes. Errors: by errno.
Status WriteAll(int fd, std::string_view bytes);

}  // namespace lockstep
