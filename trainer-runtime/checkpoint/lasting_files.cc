#include "trainer-runtime/checkpoint/lasting_files.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "common/base/io/file.h"
#include "common/base/io/unique_fd.h"

namespace lockstep::runtime {

Status FlushFolder(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open() || ::fsync(fd.get()) != 0) {
    return SystemError(errno, "flush folder " + path);
  }
  return OkStatus();
}

Status MakeLastingDirectories(const std::string& directory) {
  const std::filesystem::path path(directory);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return OkStatus();
  }
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  if (parent != path && path.has_parent_path()) {
    LOCKSTEP_RETURN_IF_ERROR(MakeLastingDirectories(parent.string()));
  }
  const bool is_new = std::filesystem::create_directory(path, error);
  if (error == std::errc::file_exists) {
    return Error(ErrorCode::kAlreadyExists, path.string() + " exists and is not a folder");
  }
  if (error) {
    return SystemError(error.value(), "create folder " + path.string());
  }
  return is_new ? FlushFolder(parent.string()) : OkStatus();
}

Result<std::string> ReadBounded(const std::string& path, std::size_t bytes_max) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > bytes_max) {  // otherwise reading says what is wrong
    return Error(ErrorCode::kCorrupt,
                 path + " has " + std::to_string(bytes) + " bytes, expected at most " +
                     std::to_string(bytes_max));
  }
  return ReadRegularFile(path, bytes_max);
}

Status Exchange(const std::string& folder, const std::string& target) {
  if (::rename(folder.c_str(), target.c_str()) == 0) {
    return OkStatus();  // nothing stood there, or an empty folder
  }
  if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) {
    return SystemError(errno, "rename " + folder + " to " + target);
  }
  if (::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return OkStatus();
  }
  // Some network file systems cannot exchange.
  const std::string aside = AsideOf(target);
  std::error_code ignored;
  std::filesystem::remove_all(aside, ignored);  // of a crash in the midst of this
  if (::rename(target.c_str(), aside.c_str()) != 0) {
    return SystemError(errno, "replace " + target);
  }
  if (::rename(folder.c_str(), target.c_str()) != 0) {
    const int problem = errno;
    (void)::rename(aside.c_str(), target.c_str());
    return SystemError(problem, "replace " + target);
  }
  LOCKSTEP_RETURN_IF_ERROR(FlushFolder(std::filesystem::path(target).parent_path().string()));
  return ::rename(aside.c_str(), folder.c_str()) == 0
             ? OkStatus()
             : Status(SystemError(errno, "move away " + aside));
}

std::string AsideOf(const std::string& target) {
  std::string aside = target;
  return aside.insert(aside.rfind('-') + 1, 1, '0');
}

}  // namespace lockstep::runtime
