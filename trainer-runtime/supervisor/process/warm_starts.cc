#include "trainer-runtime/supervisor/process/warm_starts.h"

#include <chrono>
#include <poll.h>
#include <utility>

namespace lockstep::runtime {
namespace {

// For a fork of a process of many gigabytes, on a machine that is busy. Choice: a fork takes some
// 10 ms, and nothing else is done meanwhile.
constexpr std::chrono::seconds kForkPatience{5};

}  // namespace

WarmStarts::WarmStarts(std::vector<std::string> names, Logger* logger)
    : names_(std::move(names)), logger_(logger) {}

void WarmStarts::TellMissing(Slot* slot, const std::string& why) {
  if (!slot->is_told) {
    logger_->Warn("there is no warm interpreter, so the process starts without one",
                  {{"process", slot->name}, {"error", why}});
    slot->is_told = true;
  }
}

void WarmStarts::Add(const WarmInterpreterOptions& options) {
  slots_.push_back({names_[slots_.size()], std::nullopt, false});
  Result<WarmInterpreter> started = WarmInterpreter::Start(options);
  if (started.ok()) {
    slots_.back().interpreter = std::move(started).value();
  } else {
    TellMissing(&slots_.back(), started.error().ToString());
  }
}

void WarmStarts::TakeNews(Slot* slot) {
  WarmInterpreter& interpreter = *slot->interpreter;
  const WarmInterpreter::State before = interpreter.state();
  interpreter.TakeNews();
  if (interpreter.state() == before) {
    return;
  }
  if (interpreter.state() == WarmInterpreter::State::kGone) {
    TellMissing(slot, interpreter.trouble());
  } else if (interpreter.thread_count() > 0) {
    logger_->Warn(
        "modules in the warm interpreter have started threads, which forked processes do not get",
        {{"process", slot->name}, {"threads", interpreter.thread_count()}});
  }
}

void WarmStarts::AwaitReady(Deadline deadline, int wake_fd) {
  while (!deadline.HasPassed(SteadyNow())) {
    std::vector<pollfd> entries = {{wake_fd, POLLIN, 0}};
    for (Slot& slot : slots_) {
      if (slot.interpreter.has_value() &&
          slot.interpreter->state() == WarmInterpreter::State::kImporting) {
        entries.push_back({slot.interpreter->fd(), POLLIN, 0});
      }
    }
    if (entries.size() == 1) {
      return;
    }
    ::poll(entries.data(), entries.size(), deadline.RemainingMilliseconds(SteadyNow()));
    if (entries.front().revents != 0) {
      return;
    }
    for (Slot& slot : slots_) {
      if (slot.interpreter.has_value()) {
        TakeNews(&slot);
      }
    }
  }
}

std::optional<ChildProcess> WarmStarts::Fork(int local_rank, const WarmStart& start) {
  Slot& slot = slots_[static_cast<std::size_t>(local_rank)];
  if (!slot.interpreter.has_value()) {
    return std::nullopt;
  }
  TakeNews(&slot);
  switch (slot.interpreter->state()) {
    case WarmInterpreter::State::kGone:
      return std::nullopt;  // and told
    case WarmInterpreter::State::kImporting:
      logger_->Warn(
          "the warm interpreter is not ready yet; the process starts without the interpreter",
          {{"process", slot.name}});
      return std::nullopt;
    case WarmInterpreter::State::kReady:
      break;
  }
  Result<ChildProcess> child =
      slot.interpreter->Fork(start, Deadline::After(SteadyNow(), kForkPatience));
  if (child.ok()) {
    return std::move(child).value();
  }
  logger_->Warn(
      "the warm interpreter did not provide a process; the process starts without the interpreter",
      {{"process", slot.name}, {"error", child.error().ToString()}});
  return std::nullopt;
}

std::vector<pid_t> WarmStarts::pids() const {
  std::vector<pid_t> pids;
  for (const Slot& slot : slots_) {
    if (slot.interpreter.has_value()) {
      pids.push_back(slot.interpreter->pid());
    }
  }
  return pids;
}

void WarmStarts::NoteEnded(pid_t pid) {
  for (Slot& slot : slots_) {
    if (slot.interpreter.has_value() && slot.interpreter->pid() == pid) {
      TakeNews(&slot);
    }
  }
}

}  // namespace lockstep::runtime
