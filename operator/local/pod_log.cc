#include "operator/local/pod_log.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <stdio.h>
#include <utility>

#include <sys/stat.h>

#include "common/base/io/file.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kTailBytesMax = 2048;

}  // namespace

Result<PodLog> PodLog::Open(PodLogOptions options) {
  PodLog log(std::move(options));
  LOCKSTEP_RETURN_IF_ERROR(log.Reopen(0));
  return log;
}

Status PodLog::Reopen(int flags) {
  // O_NONBLOCK: to open a pipe waits for a reader otherwise.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  file_ = UniqueFd(::open(options_.path.c_str(), kFlags | flags, 0644));
  int error = file_.is_open() ? 0 : errno;

  struct stat status {};

  if (file_.is_open() && ::fstat(file_.get(), &status) != 0) {
    error = errno;
  }
  // ENXIO: a pipe that nobody reads, or a socket.
  if (error == ENXIO || S_ISFIFO(status.st_mode)) {
    file_.Reset();
    return Error(ErrorCode::kInvalidArgument,
                 "the log " + options_.path + " is a pipe, not a file");
  }
  if (error != 0) {
    return SystemError(error, "creating the log " + options_.path);
  }
  file_bytes_ = status.st_size;
  return OkStatus();
}

void PodLog::Append(std::string_view bytes, TimePoint now) {
  if (const Status stored = Store(bytes); !stored.ok()) {
    lost_.bytes += static_cast<int64_t>(bytes.size());
    lost_.error = lost_.error.empty() ? stored.error().ToString() : lost_.error;
  }
  tail_.append(bytes);
  if (tail_.size() > 2 * kTailBytesMax) {
    tail_.erase(0, tail_.size() - kTailBytesMax);
  }
  if (options_.on_line) {
    lines_.Append(bytes, now, options_.on_line);
  }
}

Status PodLog::Store(std::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (file_bytes_ > 0 && file_bytes_ + size > options_.bytes_max) {
    // On failure the old file is truncated instead: the newest lines matter most.
    ::rename(options_.path.c_str(), (options_.path + ".1").c_str());
    LOCKSTEP_RETURN_IF_ERROR(Reopen(O_TRUNC));
  }
  if (!file_.is_open()) {
    LOCKSTEP_RETURN_IF_ERROR(Reopen(0));  // what could not be made anew may be possible now
  }
  if (Status written = WriteAll(file_.get(), bytes); !written.ok()) {
    return std::move(written).error().Wrap(options_.path);
  }
  file_bytes_ += size;
  return OkStatus();
}

void PodLog::Finish() {
  if (options_.on_line) {
    lines_.Finish(options_.on_line);
  }
}

std::string PodLog::Tail() const {
  if (tail_.size() <= kTailBytesMax) {
    return tail_;
  }
  std::string tail = tail_.substr(tail_.size() - kTailBytesMax);
  const std::size_t newline = tail.find('\n');
  return newline == std::string::npos ? tail : tail.substr(newline + 1);
}

}  // namespace lockstep::control
