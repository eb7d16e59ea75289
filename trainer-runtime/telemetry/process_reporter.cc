#include "trainer-runtime/telemetry/process_reporter.h"

#include <chrono>
#include <poll.h>
#include <utility>

#include "common/base/time.h"
#include "trainer-runtime/telemetry/process_channel.h"

namespace lockstep::runtime {
namespace {

// Choices: what a status server tells is as old at most, a `lockstep run` asks every 100 ms; a
// scraper asks every few seconds; a supervisor's patience is some seconds.
constexpr std::chrono::milliseconds kStatusInterval{50};
constexpr Duration kMetricsInterval = std::chrono::seconds(1);
constexpr Duration kAliveInterval = std::chrono::milliseconds(250);

// For the supervisor to read: it does nothing else. Choice.
constexpr Duration kTellPatience = std::chrono::seconds(1);

Status Tell(int channel_fd, ChannelWord word, const std::string& text) {
  return SendToChannel(channel_fd, {word, text}, Deadline::After(SteadyNow(), kTellPatience));
}

}  // namespace

ProcessReporter::ProcessReporter(int channel_fd,
                                 StatusBoard* board,
                                 Metrics* metrics,
                                 Logger* logger,
                                 std::function<void(const ControlMessage&)> on_control)
    : channel_fd_(channel_fd),
      board_(board),
      metrics_(metrics),
      logger_(logger),
      on_control_(std::move(on_control)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void ProcessReporter::TellNow() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text = EncodeStatusDocument(board_->Snapshot());
  if (text != told_ && Tell(channel_fd_, ChannelWord::kStatus, text).ok()) {
    told_ = std::move(text);
  }
}

void ProcessReporter::SayGoodbye() {
  thread_ = std::jthread();  // asks the thread to stop and waits for it
  TellNow();
  static_cast<void>(Tell(channel_fd_, ChannelWord::kGoodbye, ""));
}

// A supervisor that is gone takes this process along: errors of the channel need no answer.
void ProcessReporter::Run(const std::stop_token& stop) {
  TimePoint metrics_at;
  TimePoint alive_at;
  while (!stop.stop_requested()) {
    TellNow();
    const TimePoint now = SteadyNow();
    if (now - metrics_at >= kMetricsInterval) {
      metrics_at = now;
      static_cast<void>(Tell(channel_fd_, ChannelWord::kMetrics, metrics_->RenderText()));
    }
    if (now - alive_at >= kAliveInterval) {
      alive_at = now;
      static_cast<void>(Tell(channel_fd_, ChannelWord::kAlive, ""));
    }
    pollfd entry{channel_fd_, POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(kStatusInterval.count()));
    HearControl();
  }
}

void ProcessReporter::HearControl() {
  const auto message = ReceiveFromChannel(channel_fd_);
  if (!message.ok() || !message->has_value() || (*message)->word != ChannelWord::kControl) {
    return;
  }
  const Result<ControlMessage> control = DecodeControlMessage((*message)->text);
  if (!control.ok()) {
    logger_->Warn("a control message from lockstep-runtime could not be read",
                  {{"error", control.error().ToString()}});
    return;
  }
  metrics_->ControlMessageReceived(ControlVerdict::kAccepted);
  on_control_(*control);
}

void TellLastWords(const TerminationMessage& message, Logger* logger) {
  const Status told =
      Tell(kTrainerChannelFd, ChannelWord::kLastWords, EncodeTerminationMessage(message));
  if (!told.ok()) {
    logger->Warn("termination message could not be sent",
                 {{"error", told.error().ToString()}, {"reason", message.reason}});
  }
}

}  // namespace lockstep::runtime
