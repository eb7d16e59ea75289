#include "operator/cli/run_directory.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <sys/file.h>

#include "common/base/digest.h"
#include "common/base/file.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kLockBytesMax = 64;
constexpr std::size_t kKeyBytes = 32;  // as long as the hash of HMAC-SHA-256
constexpr int kNamesMax = 1000;

Result<UniqueFd> TakeLock(const std::string& directory) {
  const std::string path = directory + "/lock";
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.is_open()) {
    return SystemError(errno, "opening " + path);
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return SystemError(errno, "locking " + path);
    }
    const auto holder = ReadFile(path, kLockBytesMax);
    return Error(ErrorCode::kAlreadyExists,
                 "the run directory " + directory + " is in use by process " +
                     (holder.ok() && !holder->empty() ? *holder : "(unknown)"));
  }
  if (::ftruncate(lock.get(), 0) != 0) {
    return SystemError(errno, "writing " + path);
  }
  LOCKSTEP_RETURN_IF_ERROR(WriteAll(lock.get(), std::to_string(::getpid())));
  return lock;
}

// Created anew: a file that somebody else made beforehand could be readable by others.
Result<std::string> WriteKey(const std::string& path) {
  std::string key = RandomHex(kKeyBytes);
  ::unlink(path.c_str());
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) {
    return SystemError(errno, "creating " + path);
  }
  LOCKSTEP_RETURN_IF_ERROR(WriteAll(file.get(), key));
  return key;
}

}  // namespace

Result<RunDirectory> RunDirectory::Open(const std::string& path) {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(path, error).lexically_normal().string();
  if (error) {
    return SystemError(error.value(), "finding " + path);
  }
  LOCKSTEP_RETURN_IF_ERROR(MakeDirectories(absolute));
  LOCKSTEP_ASSIGN_OR_RETURN(UniqueFd lock, TakeLock(absolute));
  LOCKSTEP_ASSIGN_OR_RETURN(std::string key, WriteKey(absolute + "/job.key"));
  return RunDirectory(absolute, std::move(lock), std::move(key));
}

std::string DefaultRunDirectory(const std::string& working_directory,
                                const std::string& job,
                                WallTime now) {
  std::string stamp = FormatRfc3339(now).substr(0, 19);  // "2026-11-21T10:22:03"
  std::erase(stamp, '-');
  std::erase(stamp, ':');
  const std::string base = working_directory + "/runs/" + job + "-" + stamp + "Z";
  std::string path = base;
  std::error_code error;
  for (int number = 2; number <= kNamesMax && std::filesystem::exists(path, error); ++number) {
    path = base + "-" + std::to_string(number);
  }
  return path;
}

}  // namespace lockstep::control
