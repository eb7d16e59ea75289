#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "operator/round_log/log_line.h"

namespace lockstep::control {

// Keeps all that goes into a state from its beginning on, and what its rounds come to, as lines of
// a round log: names, labels, amounts, queues and words of refusals; nothing of what a pod is told
// beyond what it asks of a node.
//
// It ends where it would become too long, or cannot be written: a log without its beginning could
// not be decided again. The state goes on as if nobody had listened.
// Thread: one.
class RoundLogWriter final : public StateRecorder {
 public:
  struct Options {
    std::vector<std::string> levels;  // of the state, as is_one_machine
    bool is_one_machine = false;
    std::size_t bytes_max = std::size_t{256} << 20U;
    // Writes all of it.
    std::function<Status(std::string_view text)> write;
    // Says, once, why nothing is written any more though the state goes on.
    std::function<void(const std::string& why)> on_stop;
  };

  explicit RoundLogWriter(Options options);
  // Says that the log ends here.
  ~RoundLogWriter() override;
  RoundLogWriter(const RoundLogWriter&) = delete;
  RoundLogWriter& operator=(const RoundLogWriter&) = delete;

  void OnEvent(const StateEvent& event) override;
  // What is known by then is written.
  void OnRound(WallTime now, const RoundOptions& options, const RoundResult& result) override;

 private:
  void Add(const LogLine& line);
  void Flush();
  void Stop(const std::string& why, const std::string& word);

  Options options_;
  LineChain chain_;
  std::string text_;             // not written yet
  std::size_t bytes_count_ = 0;  // with text_
  bool is_stopped_ = false;
};

}  // namespace lockstep::control
