#include "trainer-runtime/cmd/install_command.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <sys/sendfile.h>
#include <sys/stat.h>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/contract/status/exit_code.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kName = "lockstep-runtime";
constexpr mode_t kAllMayExecute = 0755;  // the user's image may run as anybody

// Copies to the end of `from`. Returns how many bytes.
Result<off_t> CopyAll(int from, int into) {
  constexpr std::size_t kPieceBytes = 1 << 20;  // any size; the kernel copies page by page
  off_t copied = 0;
  while (true) {
    const ssize_t piece = ::sendfile(into, from, &copied, kPieceBytes);
    if (piece < 0 && errno == EINTR) {
      continue;
    }
    if (piece < 0) {
      return SystemError(errno, "copy this program");
    }
    if (piece == 0) {
      return copied;
    }
  }
}

// Fills the new file `into`, named `path`, and closes it: a file open for writing cannot be run.
Result<off_t> FillProgram(UniqueFd into, const std::string& path) {
  const UniqueFd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!self.is_open()) {
    return SystemError(errno, "open this program, /proc/self/exe");
  }
  Result<off_t> copied = CopyAll(self.get(), into.get());
  if (copied.ok() && ::fchmod(into.get(), kAllMayExecute) != 0) {
    return SystemError(errno, "make " + path + " executable");
  }
  return copied;
}

// Not flushed to disk: a pod's volume does not outlive its node's crash in any useful way, since
// init containers then run again.
Result<off_t> Install(const std::string& directory) {
  // A random name, as process ids say nothing: in a container everybody is process 1.
  std::string temporary = directory + "/." + kName + ".XXXXXX";
  UniqueFd into(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!into.is_open()) {
    return SystemError(errno, "create a file in " + directory);
  }
  Result<off_t> copied = FillProgram(std::move(into), temporary);
  const std::string path = directory + "/" + kName;
  if (copied.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    copied = SystemError(errno, "rename " + temporary + " to " + path);
  }
  if (!copied.ok()) {
    ::unlink(temporary.c_str());
  }
  return copied;
}

}  // namespace

int InstallCommand(const InstallCommandOptions& options) {
  const Result<off_t> copied = Install(options.directory);
  if (copied.ok()) {
    options.logger->Info("installed",
                         {{"path", options.directory + "/" + kName}, {"bytes", *copied}});
    return kExitSuccess;
  }
  options.logger->Error("lockstep-runtime was not installed",
                        {{"error", copied.error().ToString()}});
  return copied.error().code() == ErrorCode::kResourceExhausted ? kExitRetryable : kExitUserError;
}

}  // namespace lockstep::runtime
