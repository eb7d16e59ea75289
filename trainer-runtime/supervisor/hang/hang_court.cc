#include "trainer-runtime/supervisor/hang/hang_court.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <poll.h>
#include <set>
#include <unistd.h>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>

#include "common/base/check.h"
#include "common/base/io/socket_wait.h"
#include "common/base/io/unique_fd.h"
#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

// Choice: the groups of one rank with the longest names take a quarter of it.
constexpr std::size_t kHangAnswerBytesMax = 64 * 1024;

// Processes of one pod that are asked. Choice: eight ranks with a dozen loaders each.
constexpr std::size_t kProcessesAskedMax = 128;

// For the operator to hear the evidence of all pods and to end the culprit's. Choice: it asks each
// pod about once a second, and then deletes pods.
constexpr std::chrono::seconds kOperatorPatience{15};

// For a culprit to write its stacks and end, and for the ranks that wait for it, which may be idle,
// to notice. Choice.
constexpr std::chrono::seconds kCulpritPatience{10};

// Between the end of a sitting and the next.
constexpr Duration kRecess = std::chrono::seconds(15);

struct Asked {
  UniqueFd socket;
  int local_rank = 0;
  std::string answer;
};

// Connected, or not open where nobody listens.
UniqueFd ConnectToProcess(const std::string& name, pid_t pid) {
  const std::string full = name + "-" + std::to_string(pid);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (full.size() + 1 > sizeof(address.sun_path)) {
    return {};
  }
  std::memcpy(address.sun_path + 1, full.data(), full.size());  // begins with 0: abstract
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open() ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return {};
  }
  ucred listener{};
  socklen_t listener_size = sizeof(listener);
  const bool is_known =
      ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &listener, &listener_size) == 0;
  return is_known && listener.pid == pid ? std::move(socket) : UniqueFd();
}

// Reads to the end. Returns whether it came in time, and is no longer than it may be.
bool ReadAnswer(Deadline deadline, Asked* asked) {
  char block[4096];
  while (asked->answer.size() <= kHangAnswerBytesMax) {
    const ssize_t count = ::read(asked->socket.get(), block, sizeof(block));
    if (count == 0) {
      return true;
    }
    if (count > 0) {
      asked->answer.append(block, static_cast<std::size_t>(count));
    } else if (!WouldBlock(errno) || !WaitForSocket(asked->socket.get(), POLLIN, deadline).ok()) {
      return false;
    }
  }
  return false;
}

std::optional<RankEvidence> ParseAnswer(const std::string& answer) {
  const Result<Json> json = ParseJson(answer);
  if (!json.ok()) {
    return std::nullopt;
  }
  std::vector<Error> errors;
  RankEvidence evidence = DecodeRankEvidence(*json, "", &errors);
  return errors.empty() ? std::optional(std::move(evidence)) : std::nullopt;
}

}  // namespace

void SleepUnlessStopped(Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock<std::mutex> lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, duration, [] { return false; });
}

HangLook AskProcesses(const std::string& socket_name,
                      const std::vector<std::vector<pid_t>>& families,
                      Duration patience) {
  std::vector<Asked> asked;
  for (std::size_t i = 0; i < families.size(); ++i) {
    for (const pid_t pid : families[i]) {
      if (asked.size() == kProcessesAskedMax) {
        break;
      }
      if (UniqueFd socket = ConnectToProcess(socket_name, pid); socket.is_open()) {
        asked.push_back({std::move(socket), static_cast<int>(i), ""});
      }
    }
  }
  const Deadline deadline = Deadline::After(SteadyNow(), patience);
  HangLook look;
  for (Asked& one : asked) {
    std::optional<RankEvidence> evidence =
        ReadAnswer(deadline, &one) ? ParseAnswer(one.answer) : std::nullopt;
    // A loader that imports torch has called nothing, and is not who stands for the rank.
    if (evidence.has_value() && !evidence->groups.empty() &&
        look.local_ranks.emplace(evidence->rank, one.local_rank).second) {
      look.ranks.push_back(*std::move(evidence));
    }
  }
  return look;
}

HangCourt::HangCourt(HangCourtOptions options) : options_(std::move(options)) {
  LOCKSTEP_CHECK(options_.limit > Duration(0), "the time limit for hangs must be above 0");
  LOCKSTEP_CHECK(options_.look != nullptr,
                 "the check for hangs needs a function that asks the processes");
}

std::optional<HangFinding> HangCourt::Look(TimePoint now,
                                           int64_t report_count,
                                           bool has_stepped,
                                           const std::vector<std::vector<pid_t>>& families) {
  if (report_count_ != report_count || !has_stepped) {
    report_count_ = report_count;
    stepped_at_ = now;
    next_sitting_ = now + options_.limit;
    reserved_until_.reset();
    is_left_to_operator_ = false;
    evidence_.clear();
  }
  if (is_sitting_) {
    return Close(now);
  }
  if (now >= next_sitting_) {
    Open(families);
  }
  return std::nullopt;
}

bool HangCourt::Reserves(TimePoint now) const {
  return is_sitting_ || (reserved_until_.has_value() && now < *reserved_until_);
}

void HangCourt::Open(const std::vector<std::vector<pid_t>>& families) {
  is_sitting_ = true;
  thread_ = std::jthread([this, families](const std::stop_token& stop) {
    const HangLook first = options_.look(families);
    SleepUnlessStopped(options_.between, stop);
    HangLook second = options_.look(families);
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_ = Sitting{CompareLooks(first.ranks, second.ranks), std::move(second.local_ranks)};
  });
}

// A step that came meanwhile shows in the counts, or will: then nobody is judged.
std::optional<HangFinding> HangCourt::Close(TimePoint now) {
  std::optional<Sitting> sitting;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    sitting = std::exchange(taken_, std::nullopt);
  }
  if (!sitting.has_value()) {
    return std::nullopt;
  }
  is_sitting_ = false;
  if (now - stepped_at_ < options_.limit) {
    return std::nullopt;
  }
  next_sitting_ = now + kRecess;
  evidence_ = sitting->evidence;
  if (std::ranges::any_of(evidence_, &RankEvidence::is_moving)) {
    reserved_until_ = next_sitting_;  // who is idle waits for a slow one
    return std::nullopt;
  }
  const HangVerdict verdict = JudgeHang(evidence_);
  std::set<int> culprits;
  for (const int rank : verdict.culprits) {
    if (const auto local = sitting->local_ranks.find(rank); local != sitting->local_ranks.end()) {
      culprits.insert(local->second);
    }
  }
  if (!culprits.empty()) {
    reserved_until_ = now + kCulpritPatience;
    return HangFinding{{culprits.begin(), culprits.end()}, verdict.sentence};
  }
  if (!evidence_.empty() && options_.has_peers_elsewhere && !is_left_to_operator_) {
    is_left_to_operator_ = true;
    reserved_until_ = now + kOperatorPatience;
  }
  return std::nullopt;
}

}  // namespace lockstep::runtime
