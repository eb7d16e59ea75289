#include "operator/round_log/round_log_writer.h"

#include <utility>

namespace lockstep::control {
namespace {

// What is written at once. Choice: a few hundred events.
constexpr std::size_t kTextBytes = 64 * 1024;

// Room that is kept for the last line.
constexpr std::size_t kEndBytes = 64;

}  // namespace

RoundLogWriter::RoundLogWriter(Options options) : options_(std::move(options)) {
  Add(LogBegin{kRoundLogVersion, options_.levels, options_.is_one_machine});
  Flush();
}

RoundLogWriter::~RoundLogWriter() {
  if (!is_stopped_) {
    text_ += chain_.Write(LogEnd{"stopped"}) + "\n";
    Flush();
  }
}

void RoundLogWriter::OnEvent(const StateEvent& event) {
  Add(event);
  if (text_.size() >= kTextBytes) {
    Flush();
  }
}

void RoundLogWriter::OnRound(WallTime now, const RoundOptions& options, const RoundResult& result) {
  Add(LogRound{now, options, DecisionsOf(result)});
  Flush();
}

void RoundLogWriter::Add(const LogLine& line) {
  if (is_stopped_) {
    return;
  }
  const LineChain before = chain_;
  std::string text = chain_.Write(line) + "\n";
  if (text.size() > kLogLineBytesMax ||
      bytes_count_ + text.size() + kEndBytes > options_.bytes_max) {
    chain_ = before;
    Stop("the log has " + std::to_string(bytes_count_) + " bytes, and one more line of " +
             std::to_string(text.size()) + " bytes would exceed its limit of " +
             std::to_string(options_.bytes_max),
         "full");
    return;
  }
  bytes_count_ += text.size();
  text_ += text;
}

void RoundLogWriter::Flush() {
  if (is_stopped_) {
    return;
  }
  const Status written = options_.write(std::exchange(text_, {}));
  if (!written.ok()) {
    is_stopped_ = true;
    options_.on_stop(written.error().ToString());
  }
}

void RoundLogWriter::Stop(const std::string& why, const std::string& word) {
  text_ += chain_.Write(LogEnd{word}) + "\n";
  Flush();
  if (!std::exchange(is_stopped_, true)) {
    options_.on_stop(why);
  }
}

}  // namespace lockstep::control
