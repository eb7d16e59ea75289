#include "operator/round_log/round_log_player.h"

#include <algorithm>
#include <utility>

namespace lockstep::control {
namespace {

// The first decision in which the two are not the same; null: they are.
std::optional<RoundDifference> DifferenceOf(const std::vector<std::string>& recorded,
                                            const std::vector<std::string>& decided) {
  const std::size_t count = std::max(recorded.size(), decided.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (i >= recorded.size() || i >= decided.size() || recorded[i] != decided[i]) {
      RoundDifference difference;
      difference.decision = static_cast<int64_t>(i) + 1;
      difference.recorded = i < recorded.size() ? recorded[i] : "";
      difference.decided = i < decided.size() ? decided[i] : "";
      return difference;
    }
  }
  return std::nullopt;
}

}  // namespace

RoundLogPlayer::RoundLogPlayer(std::istream* input, std::string name)
    : input_(input), name_(std::move(name)) {}

Error RoundLogPlayer::At(const std::string& why) const {
  return Error(ErrorCode::kCorrupt, name_ + ":" + std::to_string(line_count_) + ": " + why);
}

Result<bool> RoundLogPlayer::ReadLine() {
  using Traits = std::istream::traits_type;
  text_.clear();
  std::streambuf* const bytes = input_->rdbuf();
  int next = bytes->sbumpc();
  if (next == Traits::eof()) {
    return false;
  }
  ++line_count_;
  for (; next != '\n'; next = bytes->sbumpc()) {
    if (next == Traits::eof()) {
      return At("cut off after " + std::to_string(text_.size()) +
                " bytes, expected the end of the line; to read the lines before it, cut the log "
                "with head -n " +
                std::to_string(line_count_ - 1));
    }
    if (text_.size() == kLogLineBytesMax) {
      return At("longer than " + std::to_string(kLogLineBytesMax) + " bytes");
    }
    text_.push_back(Traits::to_char_type(next));
  }
  return true;
}

Result<bool> RoundLogPlayer::NextRound() {
  while (true) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool has_line, ReadLine());
    if (!has_line) {
      return state_ ? Result<bool>(false)
                    : Result<bool>(Error(ErrorCode::kCorrupt, name_ + " is empty"));
    }
    Result<LogLine> line = chain_.Read(text_);
    if (!line.ok()) {
      return At(line.error().ToString());
    }
    if (!end_.empty()) {
      return At("a line after the last line of the log");
    }
    if (std::holds_alternative<LogBegin>(*line) == state_.has_value()) {
      return At(state_ ? "the log begins a second time" : "the beginning of the log is missing");
    }
    if (const auto* begin = std::get_if<LogBegin>(&*line)) {
      LOCKSTEP_RETURN_IF_ERROR(Begin(*begin));
    } else if (const auto* event = std::get_if<StateEvent>(&*line)) {
      ++event_count_;
      if (const Status played = Play(*event, &*state_); !played.ok()) {
        return At(played.error().ToString());
      }
    } else if (const auto* end = std::get_if<LogEnd>(&*line)) {
      end_ = end->why;
    } else {
      Decide(std::get<LogRound>(*line));
      return true;
    }
  }
}

Status RoundLogPlayer::Begin(const LogBegin& begin) {
  if (begin.version != kRoundLogVersion) {
    return At("version " + std::to_string(begin.version) + " found, expected " +
              std::to_string(kRoundLogVersion));
  }
  state_.emplace(ClusterState::Options{begin.levels, begin.is_one_machine});
  return OkStatus();
}

// What is carried out follows as events of its own.
void RoundLogPlayer::Decide(const LogRound& round) {
  now_ = round.now;
  ++round_count_;
  const std::vector<std::string> decided =
      DecisionsOf(Round(&*state_, round.now, &memory_, round.options));
  decision_count_ += static_cast<int64_t>(decided.size());
  difference_ = DifferenceOf(round.decisions, decided);
  if (difference_) {
    difference_->line = line_count_;
    difference_->round = round_count_;
  }
}

}  // namespace lockstep::control
