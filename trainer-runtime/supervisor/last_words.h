#pragma once

#include <string>
#include <string_view>

#include "common/base/time.h"
#include "common/process/terminal_lines.h"

namespace lockstep::runtime {

// Follows what a program writes to its standard error and knows which line says why it ended: the
// exception that the last Python traceback ends with, if it came among the last lines, else the
// last line that is not empty. Memory is bounded. Pure. Thread: one.
class LastWords {
 public:
  LastWords();

  void Append(std::string_view bytes, TimePoint now);

  // The words, at most 512 bytes, without colours and without the rank that PyTorch puts before
  // lines of a traceback. Empty where the program wrote nothing.
  std::string Find() const;

  // The last lines, at most 1,024 bytes, each with its newline.
  std::string Tail() const;

 private:
  void Take(std::string_view line);
  LastWords Finished() const;

  TerminalLines lines_;
  bool is_in_traceback_ = false;
  int lines_since_exception_ = 0;
  std::string exception_;
  std::string last_line_;
  std::string tail_;
};

}  // namespace lockstep::runtime
