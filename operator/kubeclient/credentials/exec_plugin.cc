#include "operator/kubeclient/credentials/exec_plugin.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <unistd.h>

#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/base/io/unique_fd.h"
#include "common/base/rfc3339.h"
#include "common/json/json.h"

namespace lockstep::control {
namespace {

// Choice: a thousand tokens.
constexpr std::size_t kAnswerBytesMax = 1024 * 1024;

// A running plug-in. Destruction kills its process group and collects it.
class Child {
 public:
  Child(pid_t pid, UniqueFd output)
      : pid_(pid),
        output_(std::move(output)),
        exit_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}

  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        output_(std::move(other.output_)),
        exit_(std::move(other.exit_)) {}

  Child& operator=(Child&&) = delete;

  ~Child() {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      Wait();
    }
  }

  int output_fd() const { return output_.get(); }

  int exit_fd() const { return exit_.get(); }

  // Collects a process that has ended; what it may have started goes on. The status of wait(2).
  int Collect() {
    const int status = Wait();
    pid_ = -1;
    return status;
  }

 private:
  int Wait() const {
    int status = 0;
    while (::waitpid(pid_, &status, 0) == -1 && errno == EINTR) {
    }
    return status;
  }

  pid_t pid_;
  UniqueFd output_;
  UniqueFd exit_;  // readable when the process has ended
};

// argv or envp: pointers into strings that outlive them.
std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) {
    pointers.push_back(const_cast<char*>(text.c_str()));  // posix_spawn does not write
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Our environment with the plug-in's own on top.
std::vector<std::string> EnvironmentOf(const ExecPlugin& plugin) {
  Json spec = {{"interactive", false}};
  if (!plugin.cluster_json.empty()) {
    if (auto cluster = ParseJson(plugin.cluster_json); cluster.ok()) {
      spec["cluster"] = std::move(cluster).value();
    }
  }
  const Json info = {
      {"kind", "ExecCredential"}, {"apiVersion", plugin.api_version}, {"spec", spec}};
  std::vector<std::pair<std::string, std::string>> added = plugin.environment;
  added.emplace_back("KUBERNETES_EXEC_INFO", DumpJson(info));
  std::vector<std::string> environment;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const std::string name = text.substr(0, text.find('='));
    const bool is_replaced = std::any_of(
        added.begin(), added.end(), [&](const auto& variable) { return variable.first == name; });
    if (!is_replaced) {
      environment.push_back(text);
    }
  }
  for (const auto& [name, value] : added) {
    environment.push_back(name + "=" + value);
  }
  return environment;
}

// How the child starts: own process group, no signal blocked or ignored, no descriptor of ours but
// standard error.
class SpawnSettings {
 public:
  explicit SpawnSettings(int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }

  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }

  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

Result<Child> Spawn(const ExecPlugin& plugin) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return SystemError(errno, "creating a pipe for the credential plug-in");
  }
  UniqueFd output(ends[0]);
  const UniqueFd input(ends[1]);
  ::fcntl(input.get(), F_SETFL, 0);  // the child's end waits as usual
  std::vector<std::string> arguments = {plugin.command};
  arguments.insert(arguments.end(), plugin.args.begin(), plugin.args.end());
  const std::vector<std::string> environment = EnvironmentOf(plugin);
  const SpawnSettings settings(input.get());
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid,
                                   plugin.command.c_str(),
                                   settings.actions(),
                                   settings.attributes(),
                                   Pointers(arguments).data(),
                                   Pointers(environment).data());
  if (error != 0) {
    Error failure =
        SystemError(error, "starting the credential plug-in \"" + plugin.command + "\"");
    return plugin.install_hint.empty() ? failure : std::move(failure).Wrap(plugin.install_hint);
  }
  return Child(pid, std::move(output));
}

// Appends what is there. False when it is too much.
bool Drain(int fd, std::string* text) {
  std::array<char, 16 * 1024> block{};
  ssize_t got = 0;
  while ((got = ::read(fd, block.data(), block.size())) > 0) {
    text->append(block.data(), static_cast<std::size_t>(got));
    if (text->size() > kAnswerBytesMax) {
      return false;
    }
  }
  return true;
}

std::string HowItEnded(int status) {
  return WIFSIGNALED(status) ? "was ended by signal " + std::to_string(WTERMSIG(status))
                             : "failed with exit code " + std::to_string(WEXITSTATUS(status));
}

// The text at a path of keys; empty when there is none.
std::string TextAt(const Json& object, std::initializer_list<const char*> keys) {
  const Json* value = &object;
  for (const char* key : keys) {
    const auto found = value->is_object() ? value->find(key) : value->end();
    if (!value->is_object() || found == value->end()) {
      return "";
    }
    value = &*found;
  }
  return value->is_string() ? value->get<std::string>() : "";
}

Error Corrupt(const std::string& what) {
  return Error(ErrorCode::kCorrupt, "the credential plug-in's answer " + what);
}

}  // namespace

Result<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, Deadline deadline, int stop_fd) {
  LOCKSTEP_ASSIGN_OR_RETURN(Child child, Spawn(plugin));
  const std::string name = "the credential plug-in \"" + plugin.command + "\" ";
  std::string answer;
  std::array<pollfd, 3> waits = {
      {{child.output_fd(), POLLIN, 0}, {child.exit_fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}}};
  while (true) {
    const int ready =
        ::poll(waits.data(), waits.size(), deadline.RemainingMilliseconds(SteadyNow()));
    if (ready == 0) {
      return Error(ErrorCode::kTimeout, name + "took too long");
    }
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready < 0 || child.exit_fd() < 0) {
      return SystemError(errno, "waiting for the credential plug-in");
    }
    if (waits[2].revents != 0) {
      return Error(ErrorCode::kAborted, name + "was stopped");
    }
    const bool has_ended = waits[1].revents != 0;
    if (!Drain(child.output_fd(), &answer)) {
      return Error(ErrorCode::kCorrupt, name + "printed an answer that is too long");
    }
    if (has_ended) {
      break;
    }
    if ((waits[0].revents & POLLHUP) != 0) {
      waits[0].fd = -1;  // it has closed its output: its end is all that is left to wait for
    }
  }
  if (const int status = child.Collect(); status != 0) {
    return Error(ErrorCode::kUnavailable, name + HowItEnded(status));
  }
  return ParseExecCredential(answer, plugin.api_version);
}

Result<ExecCredential> ParseExecCredential(const std::string& answer,
                                           const std::string& api_version) {
  const auto parsed = ParseJson(answer);
  if (!parsed.ok()) {
    return Corrupt("is not JSON");  // the parser's own words would quote it
  }
  const Json& document = *parsed;
  if (TextAt(document, {"kind"}) != "ExecCredential" ||
      TextAt(document, {"apiVersion"}) != api_version) {
    return Corrupt("is not an ExecCredential of " + api_version);
  }
  ExecCredential credential;
  credential.token = TextAt(document, {"status", "token"});
  credential.certificate_pem = TextAt(document, {"status", "clientCertificateData"});
  credential.key_pem = TextAt(document, {"status", "clientKeyData"});
  if (credential.certificate_pem.empty() != credential.key_pem.empty()) {
    return Corrupt("has a certificate without a key, or a key without a certificate");
  }
  if (credential.token.empty() && credential.certificate_pem.empty()) {
    return Corrupt("has neither a token nor a certificate");
  }
  const std::string expires = TextAt(document, {"status", "expirationTimestamp"});
  if (!expires.empty()) {
    credential.expires = ParseRfc3339(expires);
    if (!credential.expires) {
      return Corrupt("has an expirationTimestamp that is not a time");
    }
  }
  return credential;
}

}  // namespace lockstep::control
