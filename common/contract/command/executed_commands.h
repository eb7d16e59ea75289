#pragma once

#include <string>
#include <vector>

namespace lockstep {

// What a command is seen to execute: each program with its arguments, without what only starts it
// ("env", "exec", "timeout 60", "nice"). The text of `sh -c` is read, and each of its simple
// commands is one; variables and arrays that it sets, "$@" and "$(which NAME)" are put in where a
// whole word is one. A shell that reads a here-document, or a pipe of `cat` or `echo`, is read,
// too. Variables that are set before a program stand as a command of their own: {"A=1"}. What a
// script of the image does, or another program with its arguments, is not seen; nor what comes
// after 4 MiB of words, or 65,536 commands.
std::vector<std::vector<std::string>> ExecutedCommands(const std::vector<std::string>& command);

}  // namespace lockstep
