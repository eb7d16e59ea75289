#include "trainer-runtime/checkpoint/testing/fake_disk.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

std::string ParentOf(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

bool IsWithin(const std::string& path, const std::string& folder) {
  return path == folder || path.rfind(folder + "/", 0) == 0;
}

}  // namespace

FakeDisk*& FakeDisk::Active() {
  static FakeDisk* active = nullptr;
  return active;
}

FakeDisk::FakeDisk(std::string root) : root_(std::move(root)) {
  LOCKSTEP_CHECK(Active() == nullptr, "two disks");
  Active() = this;
}

FakeDisk::~FakeDisk() {
  Active() = nullptr;
}

void FakeDisk::FailReadsOf(PathTest test, int error_number) {
  is_unreadable_ = std::move(test);
  read_error_ = error_number;
}

std::vector<std::string> FakeDisk::AtRisk() const {
  Paths paths = unflushed_bytes_;
  paths.insert(unflushed_entries_.begin(), unflushed_entries_.end());
  std::vector<std::string> there;
  for (const std::string& path : paths) {
    if (std::filesystem::exists(path)) {
      there.push_back(path);
    }
  }
  return there;
}

bool FakeDisk::IsBelow(const std::string& path) const {
  return IsWithin(path, root_);
}

void FakeDisk::Opened(int fd, const char* path, bool is_new, bool is_cut) {
  open_.erase(fd);
  if (!IsBelow(path)) {
    return;
  }
  open_[fd] = path;
  if (is_new) {
    unflushed_entries_.insert(path);
  }
  if (is_cut) {
    unflushed_bytes_.insert(path);
  }
}

void FakeDisk::Written(int fd) {
  if (const auto file = open_.find(fd); file != open_.end()) {
    unflushed_bytes_.insert(file->second);
  }
}

bool FakeDisk::IsFlushIgnored(int fd) const {
  const auto file = open_.find(fd);
  return file != open_.end() && is_ignored_ && is_ignored_(file->second);
}

void FakeDisk::Flushed(int fd) {
  const auto file = open_.find(fd);
  if (file == open_.end()) {
    return;
  }
  unflushed_bytes_.erase(file->second);
  std::erase_if(unflushed_entries_,
                [&](const std::string& path) { return ParentOf(path) == file->second; });
}

void FakeDisk::Made(const char* path) {
  if (IsBelow(path)) {
    unflushed_entries_.insert(path);
  }
}

// Renames in the notes, too: what is not flushed goes along.
void FakeDisk::Move(const std::string& from, const std::string& to) {
  for (Paths* paths : {&unflushed_bytes_, &unflushed_entries_}) {
    Paths moved;
    for (const std::string& path : *paths) {
      moved.insert(IsWithin(path, from) ? to + path.substr(from.size()) : path);
    }
    *paths = std::move(moved);
  }
}

void FakeDisk::Renamed(const std::string& from, const std::string& to) {
  if (!IsBelow(to)) {
    return;
  }
  for (const std::string& path : unflushed_bytes_) {
    if (IsWithin(path, from)) {
      broken_promises_.push_back(to + " was named before the bytes of " + path + " were safe");
    }
  }
  for (const std::string& path : unflushed_entries_) {
    if (IsWithin(path, from) && path != from) {
      broken_promises_.push_back(to + " was named before the entry " + path + " was safe");
    }
  }
  std::erase_if(unflushed_bytes_, [&](const std::string& path) { return IsWithin(path, to); });
  unflushed_entries_.erase(from);
  Move(from, to);
  unflushed_entries_.insert(to);
  if (after_rename_) {
    after_rename_();
  }
}

void FakeDisk::RefuseExchanges(std::function<void()> look) {
  after_rename_ = std::move(look);
}

void FakeDisk::Exchanged(const std::string& a, const std::string& b) {
  const std::string aside = root_ + "/exchanged";
  Renamed(a, aside);
  Renamed(b, a);
  Renamed(aside, b);
}

int FakeDisk::ReadError(int fd) const {
  const auto file = open_.find(fd);
  return file != open_.end() && is_unreadable_ && is_unreadable_(file->second) ? read_error_ : 0;
}

}  // namespace lockstep::runtime

// The C library's calls, of which a program's own definitions take the place.

using lockstep::runtime::FakeDisk;

extern "C" int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  const bool is_new = (flags & O_CREAT) != 0 && ::syscall(SYS_faccessat, AT_FDCWD, path, F_OK) != 0;
  const auto fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (FakeDisk* disk = FakeDisk::Active(); disk != nullptr && fd >= 0) {
    disk->Opened(fd, path, is_new, (flags & O_TRUNC) != 0);
  }
  return fd;
}

extern "C" ssize_t write(int fd, const void* bytes, size_t count) {
  if (FakeDisk* disk = FakeDisk::Active()) {
    disk->Written(fd);
  }
  return ::syscall(SYS_write, fd, bytes, count);
}

extern "C" ssize_t read(int fd, void* bytes, size_t count) {
  FakeDisk* disk = FakeDisk::Active();
  if (const int error = disk == nullptr ? 0 : disk->ReadError(fd); error != 0) {
    errno = error;
    return -1;
  }
  return ::syscall(SYS_read, fd, bytes, count);
}

extern "C" int fsync(int fd) {
  FakeDisk* disk = FakeDisk::Active();
  if (disk == nullptr) {
    return static_cast<int>(::syscall(SYS_fsync, fd));
  }
  if (!disk->IsFlushIgnored(fd)) {
    disk->Flushed(fd);
  }
  return 0;  // the real disk has no part in what is tested
}

extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (FakeDisk* disk = FakeDisk::Active(); disk != nullptr && result == 0) {
    disk->Made(path);
  }
  return result;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0U));
  if (FakeDisk* disk = FakeDisk::Active(); disk != nullptr && result == 0) {
    disk->Renamed(from, to);
  }
  return result;
}

extern "C" int renameat2(
    int from_folder, const char* from, int to_folder, const char* to, unsigned int flags) noexcept {
  if (FakeDisk* disk = FakeDisk::Active(); disk != nullptr && !disk->MayExchange()) {
    errno = EINVAL;
    return -1;
  }
  const auto result =
      static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  if (FakeDisk* disk = FakeDisk::Active(); disk != nullptr && result == 0) {
    disk->Exchanged(from, to);
  }
  return result;
}
