#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/time.h"

namespace lockstep::control {

// What the progress line shows.
struct Progress {
  std::string job;
  bool is_training = false;
  int64_t step = 0;
  int64_t steps_total = 0;  // 0: not known
  int64_t steps_done = 0;   // by this run within `elapsed`; fewer than `step` where it resumed
  double loss = 0;
  bool has_loss = false;
  bool has_diverged = false;  // the loss of a step is not a finite number
  double samples_per_second = 0;
  double eta_seconds = 0;  // of a program of the user's own, as its pod says; 0: not known
  int64_t pods_running = 0;
  int64_t pods_total = 0;
  std::string state;  // one word: "Running", "Restarting", ...
  Duration elapsed{};
};

// "mnist  step 120/664  18%  loss 0.3121  4321 samples/s  eta 12 s  3/3 running".
std::string FormatProgress(const Progress& progress);

// The same with a bar in front of the figures, at most `columns` wide.
std::string FormatProgressBar(const Progress& progress, int columns);

// What takes a bar of that many columns off a terminal that now has `columns`: a terminal that was
// made narrower has broken it into several rows.
std::string EraseBar(std::size_t bar_columns, int columns);

// "12 s", "3 min 05 s", "2 h 07 min".
std::string FormatDuration(Duration duration);

// Writes "lockstep: MESSAGE" to standard error. Returns `exit_code`, for the command to end with.
int Complain(int exit_code, const std::string& message);

struct ConsoleOptions {
  int fd = 1;
  bool is_terminal = false;
  bool is_quiet = false;                                   // no progress, only the end
  Duration line_interval = std::chrono::seconds(2);        // plain progress lines
  Duration bar_interval = std::chrono::milliseconds(100);  // redraws of a bar
};

// The run's one voice: lines for people, and a progress line that lives at the bottom of a
// terminal. When the reader is gone (a closed pipe, a terminal that was hung up) it falls silent
// and the run goes on. Thread: one.
class Console {
 public:
  explicit Console(ConsoleOptions options) : options_(options) {}

  // Takes the progress line off the screen.
  ~Console() { Clear(); }

  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Prints whole lines on what happens on the way, unless they are not wanted.
  void Tell(std::string_view line);

  // Prints whole lines; control characters of others' output are the caller's to escape.
  void Print(std::string_view line);

  // Shows progress if it is time to; `now` decides.
  void Show(const Progress& progress, TimePoint now);

  // Removes the progress line until the next Show.
  void Clear();

  // Whether the reader is gone.
  bool is_silent() const { return is_silent_; }

 private:
  void Write(std::string_view bytes);
  int Columns() const;

  ConsoleOptions options_;
  bool is_silent_ = false;
  std::size_t bar_columns_ = 0;  // of the bar on the screen; 0: there is none
  TimePoint next_show_{};
  std::string last_line_;
};

}  // namespace lockstep::control
