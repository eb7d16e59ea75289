#include "trainer-runtime/supervisor/program_hold.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <utility>

#include <sys/eventfd.h>

namespace lockstep::runtime {
namespace {

// Whoever could start the programs anew asks more often than that; without him the kubelet's word
// is what ends the pod. Choice: a leader that is lost is followed by another within half of it.
constexpr Duration kUnaskedMax = std::chrono::seconds(40);

// Between two looks at who asks. Choice.
constexpr Duration kAskLookInterval = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<ProgramHold>> ProgramHold::Make(const WorkerEnvironment& environment,
                                                       StatusBoard* board,
                                                       Logger* logger) {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) {
    return SystemError(errno, "make an eventfd");
  }
  board->Update([](StatusDocument& document) { document.relaunches = 0; });
  return std::unique_ptr<ProgramHold>(new ProgramHold(environment, board, logger, std::move(wake)));
}

ProgramHold::ProgramHold(const WorkerEnvironment& environment,
                         StatusBoard* board,
                         Logger* logger,
                         UniqueFd wake)
    : time_(environment.hold),
      attempt_(environment.attempt),
      is_rank_(environment.rank.has_value()),
      board_(board),
      logger_(logger),
      wake_(std::move(wake)),
      epoch_(environment.epoch) {}

void ProgramHold::Take(const ControlMessage& message) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (message.relaunch <= done_) {
      return;
    }
    halt_ = std::max(halt_, message.relaunch);
    if (message.kind == ControlKind::kRelaunch && message.relaunch > start_) {
      start_ = message.relaunch;
      next_epoch_ = message.epoch;
    }
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));  // or is awake
}

bool ProgramHold::WantsHalt() {
  Drain();
  const std::lock_guard<std::mutex> lock(mutex_);
  return halt_ > done_;
}

bool ProgramHold::AwaitRelaunch(HeldEnd end, int stop_fd) {
  const TimePoint begin = SteadyNow();
  const Deadline deadline = Deadline::After(begin, time_);
  if (!IsAskedFor(begin)) {
    return false;
  }
  logger_->Info("the programs have ended; the pod waits for their relaunch",
                {{"seconds", ToSeconds(time_)}});
  end.monotonic_ns = end.monotonic_ns.value_or(begin.time_since_epoch().count());
  board_->Update([&end](StatusDocument& document) { document.held = end; });
  bool is_relaunched = false;
  for (TimePoint now = begin; !is_relaunched; now = SteadyNow()) {
    pollfd entries[] = {{wake_.get(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
    ::poll(entries,
           std::size(entries),
           Deadline::After(now, kAskLookInterval).RemainingMilliseconds(now));
    Drain();
    is_relaunched = TakeRelaunch();
    const bool is_to_stop = (entries[1].revents & POLLIN) != 0;
    if (is_to_stop || (!is_relaunched && (deadline.HasPassed(now) || !IsAskedFor(now)))) {
      logger_->Info("the pod no longer waits for a relaunch", {{"asked_to_end", is_to_stop}});
      return false;
    }
  }
  return true;
}

// The document changes in one piece: nobody sees a relaunch whose programs are still said to have
// ended.
bool ProgramHold::TakeRelaunch() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (start_ <= done_) {
    return false;
  }
  done_ = start_;
  epoch_ = next_epoch_;
  board_->Update([this](StatusDocument& document) {
    document.held.reset();
    document.relaunches = done_;
    document.epoch = epoch_;
  });
  logger_->Info("the programs are restarted", {{"relaunch", done_}, {"epoch", epoch_.value()}});
  return true;
}

int64_t ProgramHold::relaunches() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

GangStart ProgramHold::start() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {AttemptOfPrograms(attempt_, done_), epoch_};
}

EnvironmentMap ProgramHold::environment() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (done_ == 0) {
    return {};
  }
  const std::string attempt = std::to_string(AttemptOfPrograms(attempt_, done_).value());
  EnvironmentMap variables = {{env::kAttempt, attempt},
                              {env::kEpoch, std::to_string(epoch_.value())}};
  if (is_rank_) {
    variables[env::kTorchRestartCount] = attempt;
  }
  return variables;
}

bool ProgramHold::IsAskedFor(TimePoint now) const {
  const std::optional<TimePoint> told_at = board_->told_at();
  return told_at.has_value() && now - *told_at <= kUnaskedMax;
}

void ProgramHold::Drain() const {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(wake_.get(), &count, sizeof(count));
}

}  // namespace lockstep::runtime
