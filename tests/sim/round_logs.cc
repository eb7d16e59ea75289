#include "tests/sim/round_logs.h"

#include <sstream>
#include <utility>

#include "operator/round_log/round_log_player.h"
#include "operator/round_log/round_log_writer.h"

namespace lockstep::control::sim {

std::unique_ptr<StateRecorder> RoundLogs::Begin(const std::string& identity,
                                                std::vector<std::string> levels) {
  std::string* const text =
      logs_.emplace_back(identity, std::make_unique<std::string>()).second.get();
  RoundLogWriter::Options options;
  options.levels = std::move(levels);
  options.write = [text](std::string_view more) {
    *text += more;
    return OkStatus();
  };
  options.on_stop = [](const std::string&) {};  // its end says so
  return std::make_unique<RoundLogWriter>(std::move(options));
}

std::string RoundLogs::Replay(Tally* tally) const {
  for (const auto& [identity, text] : logs_) {
    std::istringstream input(*text);
    RoundLogPlayer player(&input, identity);
    while (true) {
      const Result<bool> has_round = player.NextRound();
      if (!has_round.ok()) {
        return has_round.error().ToString();
      }
      if (const auto& difference = player.difference()) {
        return identity + ": round " + std::to_string(difference->round) + " came to \"" +
               difference->recorded + "\" and then to \"" + difference->decided + "\"";
      }
      if (!*has_round) {
        break;
      }
    }
    if (player.end() != "stopped") {
      return identity + ": its log of rounds ends as " + player.end();
    }
    tally->replayed_rounds += player.round_count();
  }
  return "";
}

}  // namespace lockstep::control::sim
