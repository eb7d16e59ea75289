#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// A word of a shell's text without its quotes. Substitutions stay as written: "$N", "$(nproc)".
struct ShellWord {
  std::string text;
  bool is_quoted = false;  // some of it is

  friend bool operator==(const ShellWord&, const ShellWord&) = default;
};

// One simple command of a shell's text, without redirections and without the reserved words that
// stand before it ("if", "then", "do", "{").
struct ShellCommand {
  std::vector<ShellWord> words;
  std::string input;        // of its here-document or here-string
  bool reads_pipe = false;  // what the command before it writes

  friend bool operator==(const ShellCommand&, const ShellCommand&) = default;
};

// The simple commands of `text` in the order in which they are written, those of subshells,
// functions and command substitutions among them. Comments, patterns of `case` and the bodies of
// here-documents are none. Never fails: what a shell would refuse is read as far as it goes.
std::vector<ShellCommand> ReadShellText(std::string_view text);

}  // namespace lockstep
