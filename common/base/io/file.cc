#include "common/base/io/file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/base/io/unique_fd.h"

namespace lockstep {
namespace {

constexpr mode_t kOwnerWritesAllRead = 0644;

Status FlushDirectory(const std::filesystem::path& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) {
    return SystemError(errno, "open folder " + directory.string());
  }
  if (::fsync(fd.get()) != 0) {
    return SystemError(errno, "flush folder " + directory.string());
  }
  return OkStatus();
}

Status WriteNewFile(const std::string& path, std::string_view content) {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kOwnerWritesAllRead));
  if (!fd.is_open()) {
    return SystemError(errno, "create " + path);
  }
  Status written = WriteAll(fd.get(), content);
  if (!written.ok()) {
    return std::move(written).error().Wrap("write " + path);
  }
  if (::fsync(fd.get()) != 0) {
    return SystemError(errno, "flush " + path);
  }
  return OkStatus();
}

Result<std::string> ReadAll(const UniqueFd& fd, const std::string& path, std::size_t bytes_max) {
  std::string content;
  std::array<char, 65536> block{};
  while (true) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return SystemError(errno, "read " + path);
    }
    if (got == 0) {
      return content;
    }
    if (content.size() + static_cast<std::size_t>(got) > bytes_max) {
      return Error(ErrorCode::kResourceExhausted,
                   path + " is larger than " + std::to_string(bytes_max) + " bytes");
    }
    content.append(block.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, std::size_t bytes_max) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) {
    return SystemError(errno, "open " + path);
  }
  return ReadAll(fd, path, bytes_max);
}

Status CheckIsFile(int fd, const std::string& path) {
  struct stat info {};

  if (::fstat(fd, &info) != 0) {
    return SystemError(errno, "read the type of " + path);
  }
  if (!S_ISREG(info.st_mode)) {
    const char* const what = S_ISDIR(info.st_mode) ? "a folder" : "a pipe or a device";
    return Error(ErrorCode::kCorrupt, path + " is " + what + ", expected a file");
  }
  return OkStatus();
}

Result<std::string> ReadRegularFile(const std::string& path, std::size_t bytes_max) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open() && errno == ENXIO) {
    return Error(ErrorCode::kCorrupt, path + " is a socket, expected a file");
  }
  if (!fd.is_open()) {
    return SystemError(errno, "open " + path);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckIsFile(fd.get(), path));
  return ReadAll(fd, path, bytes_max);
}

Error WithRoom(Error error, const std::string& path, std::size_t bytes) {
  if (error.code() != ErrorCode::kResourceExhausted) {
    return error;
  }
  std::string room = " (" + std::to_string(bytes) + " bytes to write";
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();

  struct statvfs disk {};

  if (::statvfs(directory.empty() ? "." : directory.c_str(), &disk) == 0) {
    room += ", " + std::to_string(uint64_t{disk.f_bavail} * disk.f_frsize) + " free";
  }
  return Error(error.code(), error.ToString() + room + ")").WithSystemNumber(error.system_number());
}

Status WriteFileAtomically(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  Status written = WriteNewFile(temporary, content);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = SystemError(errno, "rename " + temporary + " to " + path);
  }
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return WithRoom(std::move(written).error(), path, content.size());
  }
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  return FlushDirectory(directory.empty() ? "." : directory);
}

Status WriteFileInPlace(const std::string& path, std::string_view content) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kOwnerWritesAllRead));
  if (!fd.is_open()) {
    return SystemError(errno, "open " + path);
  }
  Status written = WriteAll(fd.get(), content);
  if (!written.ok()) {
    return std::move(written).error().Wrap("write " + path);
  }
  // A pipe or device has no length.
  if (::ftruncate(fd.get(), static_cast<off_t>(content.size())) != 0 && errno != EINVAL) {
    return SystemError(errno, "shorten " + path);
  }
  return OkStatus();
}

Status ReserveFile(const std::string& path, std::size_t bytes) {
  ::unlink(path.c_str());
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerWritesAllRead));
  if (!fd.is_open()) {
    return SystemError(errno, "create " + path);
  }
  if (::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0) {
    return SystemError(errno, "reserve disk space for " + path);
  }
  return OkStatus();
}

uint64_t InodeOf(const std::string& path) {
  struct stat status {};

  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

Status MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return SystemError(error.value(), "create folder " + path);
  }
  return OkStatus();
}

Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      return SystemError(errno, "write");
    }
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return OkStatus();
}

}  // namespace lockstep
