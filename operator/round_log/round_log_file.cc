#include "operator/round_log/round_log_file.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <utility>

#include <sys/stat.h>

#include "common/base/io/file.h"

namespace lockstep::control {

RoundLogFile::RoundLogFile(UniqueFd fd, std::string path)
    : fd_(std::move(fd)), path_(std::move(path)) {}

Result<RoundLogFile> RoundLogFile::Create(const std::string& path) {
  const std::string before = path + ".1";
  if (std::rename(path.c_str(), before.c_str()) != 0 && errno != ENOENT) {
    return SystemError(errno, "rename " + path + " to " + before);
  }
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd.is_open()) {
    return SystemError(errno, "open " + path);
  }
  return RoundLogFile(std::move(fd), path);
}

Status RoundLogFile::Write(std::string_view text) const {
  Status written = WriteAll(fd_.get(), text);
  return written.ok() ? written : Status(std::move(written).error().Wrap("write " + path_));
}

}  // namespace lockstep::control
