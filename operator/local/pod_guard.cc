#include "operator/local/pod_guard.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/base/io/file.h"

namespace lockstep::control {
namespace {

constexpr int kSweepRoundsMax = 50;  // of 20 ms each: a second for a fork bomb to lose

// Choice: longer than its sweep, shorter than anybody waits for a command line.
constexpr Duration kEndPatience = std::chrono::seconds(5);

constexpr pid_t kOrderlyEnd = 0;  // the record before the channel closes, unless we were killed

// A positive record adds a session, a negative one removes it.
void ApplyRecord(pid_t record, std::vector<pid_t>* sessions) {
  if (record > 0) {
    sessions->push_back(record);
    return;
  }
  std::erase(*sessions, -record);
}

// Signals meant for the run (^C reaches the whole foreground group) must not stop its guard.
void DetachFromTerminal() {
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    ::signal(signal, SIG_IGN);
  }
  const int null_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(null_fd, fd);
  }
  ::prctl(PR_SET_NAME, "lockstep-guard");
}

// Whatever else is open here would be held open for as long as the guard lives. The standard
// streams stay; a negative descriptor is none.
void CloseAllBut(int first, int second) {
  unsigned from = STDERR_FILENO + 1;
  for (const int kept : {std::min(first, second), std::max(first, second)}) {
    if (kept < static_cast<int>(from)) {
      continue;
    }
    const auto number = static_cast<unsigned>(kept);
    if (number > from) {
      ::syscall(SYS_close_range, from, number - 1, 0U);
    }
    from = number + 1;
  }
  ::syscall(SYS_close_range, from, ~0U, 0U);
}

// Harmless to one that has ended. Waiting for what SIGKILL ends is bounded.
void KillAndReap(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void RunGuard(int channel_fd, ProcessSelector selector, const std::string& secret) {
  // Open for as long as the guard lives, so that its number is given to no other file meanwhile.
  const int secret_fd = ::open(secret.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const uint64_t inode = InodeOf(secret);
  DetachFromTerminal();
  CloseAllBut(channel_fd, secret_fd);
  bool is_orderly = false;
  while (true) {
    pid_t record = 0;
    const ssize_t got = ::read(channel_fd, &record, sizeof record);
    if (got == sizeof record) {
      is_orderly = is_orderly || record == kOrderlyEnd;
      ApplyRecord(record, &selector.sessions);
    } else if (got >= 0 || errno != EINTR) {
      break;
    }
  }
  // A run that has taken the folder over since has a secret of its own there.
  if (!is_orderly && inode != 0 && InodeOf(secret) == inode) {
    ::unlink(secret.c_str());
  }
  KillMatching({selector}, kSweepRoundsMax);
  ::_exit(0);
}

}  // namespace

Result<PodGuard> PodGuard::Start(ProcessSelector marked, const std::string& secret_file) {
  int fds[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return SystemError(
        errno, "creating the channel to the process that ends the pods if lockstep is killed");
  }
  UniqueFd read_end(fds[0]);
  UniqueFd write_end(fds[1]);
  const pid_t pid = ::fork();
  if (pid < 0) {
    return SystemError(errno, "starting the process that ends the pods if lockstep is killed");
  }
  if (pid == 0) {
    RunGuard(read_end.get(), std::move(marked), secret_file);
  }
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.is_open()) {
    const int reason = errno;
    KillAndReap(pid);
    return SystemError(reason, "watching the process that ends the pods if lockstep is killed");
  }
  return PodGuard(pid, std::move(pidfd), std::move(write_end));
}

PodGuard::PodGuard(PodGuard&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      pidfd_(std::move(other.pidfd_)),
      was_deaf_(other.was_deaf_),
      channel_(std::move(other.channel_)) {}

PodGuard::~PodGuard() {
  End(kEndPatience);
}

bool PodGuard::End(Duration patience) {
  if (pid_ == 0) {
    return true;
  }
  Send(kOrderlyEnd);
  channel_.Reset();
  const Deadline deadline = Deadline::After(SteadyNow(), patience);
  pollfd end{pidfd_.get(), POLLIN, 0};
  while (::poll(&end, 1, deadline.RemainingMilliseconds(SteadyNow())) < 0 && errno == EINTR) {
  }
  const bool has_ended = end.revents != 0 && !was_deaf_;
  KillAndReap(std::exchange(pid_, 0));
  return has_ended;
}

void PodGuard::Watch(pid_t session) {
  Send(session);
}

void PodGuard::Forget(pid_t session) {
  Send(-session);
}

void PodGuard::Send(pid_t record) {
  // If the guard itself was killed, the parent-death signal still reaches the leaders of the pods.
  const ssize_t sent = ::send(channel_.get(), &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno == EAGAIN) {
    was_deaf_ = true;
    ::kill(pid_, SIGKILL);
  }
}

}  // namespace lockstep::control
