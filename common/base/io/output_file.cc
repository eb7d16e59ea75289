#include "common/base/io/output_file.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/io/file.h"
#include "common/base/io/unique_fd.h"

namespace lockstep {
namespace {

// Without waiting for a reader, and without cutting a file that a shell has opened for appending.
Status WriteThrough(const std::string& path, std::string_view content) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC));
  if (!fd.is_open()) {
    return SystemError(errno, "open " + path);
  }
  Status written = WriteAll(fd.get(), content);
  return written.ok() ? written : Status(std::move(written).error().Wrap("write " + path));
}

// The file that `path` leads to, be it there or not.
std::filesystem::path BehindLinks(std::filesystem::path path) {
  constexpr int kLinksMax = 40;  // as the kernel follows
  std::error_code error;
  for (int i = 0; i < kLinksMax && std::filesystem::is_symlink(path, error); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  }
  return path;
}

}  // namespace

Status WriteOutput(const std::string& path, std::string_view content) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  // What a shell has opened, be it a file: to replace it would take away what else is in it.
  const bool is_open_already =
      path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
  const bool is_stream = std::filesystem::exists(status) &&
                         (is_open_already || !std::filesystem::is_regular_file(status));
  return is_stream ? WriteThrough(path, content)
                   : WriteFileAtomically(BehindLinks(path).string(), content);
}

}  // namespace lockstep
