#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/time.h"
#include "common/process/terminal_lines.h"
#include "trainer-runtime/supervisor/output/torchrun_summary.h"

namespace lockstep::runtime {

// Follows what a program writes to its standard error and knows which line says why it ended: the
// exception that the last Python traceback ends with, if it came among the last lines, else the
// last line that is not empty. What torchrun raises for a rank of its own is no such exception.
// Memory is bounded. Pure. Thread: one.
class LastWords {
 public:
  LastWords();

  void Append(std::string_view bytes, TimePoint now);

  // The words, at most 512 bytes, without colours and without the rank that PyTorch puts before
  // lines of a traceback; behind them, where a setting of the job mends it, which. Empty where the
  // program wrote nothing.
  std::string Find() const;

  // How the rank ended that torchrun blames, if the program is torchrun: by its summary, else by
  // its file (ParseErrorFile), which is removed; empty: none.
  std::optional<RankEnd> FailedRank(const std::string& error_file) const;

  // Where Python's main thread stood, by the newest stacks that faulthandler wrote, such as
  // "load_batch (train.py:88)": the innermost function of the program itself, not of Python or a
  // package, if there is one. Empty: it has written none.
  std::string PythonPlace() const;

  // The last lines, at most 1,024 bytes, each with its newline.
  std::string Tail() const;

 private:
  void Take(std::string_view line);
  void TakeStack(std::string_view line);
  LastWords Finished() const;

  TerminalLines lines_;
  bool is_in_traceback_ = false;
  int lines_since_exception_ = 0;
  std::string exception_;
  bool is_in_stack_ = false;
  std::string python_place_;
  bool is_place_of_program_ = false;
  std::string last_line_;
  std::string tail_;
  TorchrunSummary torchrun_;
};

}  // namespace lockstep::runtime
