#include "trainer-runtime/supervisor/process/warm_interpreter.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include <sys/socket.h>

#include "common/base/check.h"
#include "common/json/json.h"
#include "common/process/spawn.h"
#include "trainer-runtime/supervisor/process/fork_server.h"

namespace lockstep::runtime {
namespace {

// Reads the server from the socket, since no file of ours is in the image.
constexpr const char* kBootstrap =
    "import socket,sys;s=socket.socket(fileno=int(sys.argv[1]));"
    "g={'__name__':'lockstep_fork_server','__file__':'<lockstep>'};"
    "exec(compile(s.recv(1<<17),'<lockstep>','exec'),g);g['main'](s)";

constexpr std::size_t kNewsBytesMax = 16 * 1024;
constexpr std::size_t kDescriptorsMax = 5;

struct Sockets {
  UniqueFd own;
  UniqueFd other;
};

Result<Sockets> MakeSockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError(errno, "create sockets for a warm interpreter");
  }
  return Sockets{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::string JoinedByComma(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ",") + word;
  }
  return text;
}

// Sends text and descriptors as one message.
Status SendWithDescriptors(int socket, const std::string& text, const std::vector<int>& fds) {
  LOCKSTEP_CHECK(fds.size() <= kDescriptorsMax, "too many descriptors");
  std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> room{};
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return SystemError(errno, "request a process from the warm interpreter");
  }
  return OkStatus();
}

// The number that a process writes to its gate. Errors: kTimeout, kPeerLost.
Result<pid_t> AwaitPid(int gate, Deadline deadline) {
  pollfd entry{gate, POLLIN, 0};
  if (::poll(&entry, 1, deadline.RemainingMilliseconds(SteadyNow())) <= 0) {
    return Error(ErrorCode::kTimeout,
                 "the interpreter did not fork in time, and will not be used again");
  }
  std::array<char, 32> text{};
  const ssize_t count = ::recv(gate, text.data(), text.size(), 0);
  pid_t pid = 0;
  if (count <= 0 || std::from_chars(text.data(), text.data() + count, pid).ec != std::errc() ||
      pid <= 0) {
    return Error(ErrorCode::kPeerLost, "the interpreter could not fork, or the fork has ended");
  }
  return pid;
}

}  // namespace

Result<WarmInterpreter> WarmInterpreter::Start(const WarmInterpreterOptions& options) {
  LOCKSTEP_CHECK(!options.modules.empty(), "a warm interpreter needs modules");
  LOCKSTEP_ASSIGN_OR_RETURN(Sockets sockets, MakeSockets());
  if (::send(sockets.own.get(), kForkServer.data(), kForkServer.size(), MSG_NOSIGNAL) < 0) {
    return SystemError(errno, "send the warm interpreter its code");
  }
  SpawnOptions spawn;
  spawn.program = options.program;
  spawn.arguments = {options.command.interpreter};
  if (options.command.words.front() == "-u") {
    spawn.arguments.emplace_back("-u");
  }
  spawn.arguments.insert(
      spawn.arguments.end(),
      {"-c", kBootstrap, std::to_string(sockets.other.get()), JoinedByComma(options.modules)});
  spawn.arguments.insert(
      spawn.arguments.end(), options.command.words.begin(), options.command.words.end());
  spawn.environment = options.environment;
  spawn.output_fd = options.output_fd;
  spawn.error_fd = options.output_fd;
  spawn.kept_fd = sockets.other.get();
  WarmInterpreter interpreter;
  LOCKSTEP_ASSIGN_OR_RETURN(interpreter.pid_, Spawn(spawn));
  interpreter.socket_ = std::move(sockets.own);
  return interpreter;
}

void WarmInterpreter::BeGone(std::string trouble) {
  state_ = State::kGone;
  trouble_ = std::move(trouble);
  socket_.Reset();  // which ends it, where it lives
}

void WarmInterpreter::TakeNews() {
  while (socket_.is_open()) {
    std::string text(kNewsBytesMax, '\0');
    const ssize_t count = ::recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (count <= 0) {
      BeGone(state_ == State::kReady ? "the interpreter has ended"
                                     : "the interpreter ended before it was ready");
      return;
    }
    text.resize(static_cast<std::size_t>(count));
    std::vector<Error> errors;
    Result<Json> parsed = ParseJson(text);
    const Json news = parsed.ok() ? std::move(parsed).value() : Json::object();
    ObjectReader reader(news, "", &errors);
    const std::optional<int64_t> threads = reader.Int("ready", 0);
    if (!threads.has_value()) {
      BeGone(reader.String("failed").value_or("the interpreter sent an unexpected message"));
      return;
    }
    thread_count_ = static_cast<int>(*threads);
    state_ = State::kReady;
  }
}

Result<ChildProcess> WarmInterpreter::Fork(const WarmStart& start, Deadline deadline) {
  LOCKSTEP_CHECK(state_ == State::kReady, "the interpreter is not ready");
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe error, MakePipe());
  LOCKSTEP_ASSIGN_OR_RETURN(Sockets gate, MakeSockets());
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<int> fds = {start.input_fd >= 0 ? start.input_fd : nothing.get(),
                          output.writer.get(),
                          error.writer.get(),
                          gate.other.get()};
  if (start.kept_fd >= 0) {
    fds.push_back(start.kept_fd);
  }
  const Json order = {{"environment", start.environment}, {"kept", start.kept_fd_variable}};
  LOCKSTEP_RETURN_IF_ERROR(SendWithDescriptors(socket_.get(), DumpJson(order), fds));
  gate.other.Reset();
  ChildProcess child;
  const Result<pid_t> pid = AwaitPid(gate.own.get(), deadline);
  if (!pid.ok()) {
    if (pid.error().code() == ErrorCode::kTimeout) {
      BeGone(pid.error().message());  // another would wait for as long, in vain
    }
    return pid.error();
  }
  child.pid = *pid;
  if (::send(gate.own.get(), "g", 1, MSG_NOSIGNAL) < 0) {
    return SystemError(errno, "start the forked process");
  }
  child.output = std::move(output.reader);
  child.error = std::move(error.reader);
  return child;
}

}  // namespace lockstep::runtime
