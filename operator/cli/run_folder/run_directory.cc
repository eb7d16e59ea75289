#include "operator/cli/run_folder/run_directory.h"

#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <sys/file.h>

#include "common/base/digest.h"
#include "common/base/io/file.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kLockBytesMax = 4096;  // a block: what is in it is overwritten in place
constexpr std::size_t kKeyBytes = 32;        // as long as the hash of HMAC-SHA-256
constexpr int kNamesMax = 1000;

// What is in it: a process id, and the run's end behind a newline.
Result<std::string> ReadLock(const std::string& directory) {
  return ReadRegularFile(directory + "/lock", kLockBytesMax);
}

// The process that has the lock open and has written its number into it.
std::optional<int> HolderOfLock(const std::string& path) {
  std::error_code error;
  const auto lock = std::filesystem::canonical(path, error);
  const auto text = ReadRegularFile(path, kLockBytesMax);
  int pid = 0;
  if (error || !text.ok() ||
      std::from_chars(text->data(), text->data() + text->size(), pid).ec != std::errc() ||
      pid <= 0) {
    return std::nullopt;
  }
  // The number may have gone to another process since: the holder has the file open.
  const std::string descriptors = "/proc/" + std::to_string(pid) + "/fd";
  for (auto at = std::filesystem::directory_iterator(descriptors, error);
       !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(at->path(), gone) == lock && !gone) {
      return pid;
    }
  }
  return std::nullopt;
}

// `refusal`: what is said before "process 4711" where another process has the lock.
Result<UniqueFd> TakeLock(const std::string& path, const std::string& refusal) {
  // What is in it is overwritten: where others may write in the folder, a link could lead anywhere.
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  UniqueFd lock(::open(path.c_str(), kFlags, 0644));
  if (!lock.is_open() && errno == ELOOP) {
    return Error(ErrorCode::kCorrupt, path + " is a symbolic link, expected a file");
  }
  if (!lock.is_open()) {
    return SystemError(errno, "opening " + path);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckIsFile(lock.get(), path));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return SystemError(errno, "locking " + path);
    }
    // Until it has written its number there is none, or that of the run before.
    const std::optional<int> holder = HolderOfLock(path);
    return Error(ErrorCode::kAlreadyExists,
                 refusal + (holder ? " process " + std::to_string(*holder)
                                   : " a run that is just starting or ending"));
  }
  if (::ftruncate(lock.get(), 0) != 0) {
    return SystemError(errno, "writing " + path);
  }
  if (Status written = WriteAll(lock.get(), std::to_string(::getpid())); !written.ok()) {
    return std::move(written).error().Wrap(path);
  }
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
  if (Status written = WriteAll(file.get(), key); !written.ok()) {
    ::unlink(path.c_str());
    return std::move(written).error().Wrap(path);
  }
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
  LOCKSTEP_ASSIGN_OR_RETURN(
      UniqueFd lock,
      TakeLock(absolute + "/lock", "the run directory " + absolute + " is in use by"));
  LOCKSTEP_ASSIGN_OR_RETURN(std::string key, WriteKey(absolute + "/job.key"));
  return RunDirectory(absolute, std::move(lock), std::move(key));
}

Result<UniqueFd> LockCheckpoints(const std::string& folder) {
  LOCKSTEP_RETURN_IF_ERROR(MakeDirectories(folder));
  return TakeLock(
      folder + "/run.lock",
      "two runs must not share the checkpoint folder " + folder + ", which is in use by");
}

Status RunDirectory::NoteEnd(const std::string& end) const {
  return WriteAll(lock_.get(), "\n" + end);  // behind the process id
}

std::string NotedEnd(const std::string& directory) {
  const auto text = ReadLock(directory);
  const std::size_t newline = text.ok() ? text->find('\n') : std::string::npos;
  return newline == std::string::npos ? "" : text->substr(newline + 1);
}

std::optional<int> HolderOf(const std::string& directory) {
  return HolderOfLock(directory + "/lock");
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

KeyRemoval::~KeyRemoval() {
  if (!file_.empty()) {
    ::unlink(file_.c_str());
  }
}

}  // namespace lockstep::control
