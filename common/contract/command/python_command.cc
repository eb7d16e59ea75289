#include "common/contract/command/python_command.h"

#include <algorithm>

#include "common/contract/text/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kModuleNameMax = 253;  // choice: above every path of packages

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool IsScript(std::string_view word) {
  return word.ends_with(".py") && word.front() != '-' && word.find(' ') == std::string_view::npos;
}

Error Refusal(const std::string& found) {
  return Error(ErrorCode::kInvalidArgument,
               found + " found, expected " + std::string(kPythonCommandWords));
}

}  // namespace

bool IsPythonInterpreter(std::string_view name) {
  constexpr std::string_view kName = "python";
  if (!name.starts_with(kName)) {
    return false;
  }
  name.remove_prefix(kName.size());
  if (name.empty() || name == "3") {
    return true;
  }
  return name.starts_with("3.") && name.size() > 2 &&
         std::all_of(name.begin() + 2, name.end(), IsDigit);
}

bool IsModuleName(std::string_view text) {
  bool begins = true;
  for (const char c : text) {
    if (c == '.') {
      if (begins) {
        return false;
      }
      begins = true;
    } else if (!IsLetter(c) && (begins || !IsDigit(c))) {
      return false;
    } else {
      begins = false;
    }
  }
  return !begins && text.size() <= kModuleNameMax;
}

Result<PythonCommand> ParsePythonCommand(const std::vector<std::string>& command) {
  if (command.empty()) {
    return Refusal("no command");
  }
  const std::string& interpreter = command.front();
  if (!IsPythonInterpreter(BaseName(interpreter)) || interpreter.find(' ') != std::string::npos) {
    return Refusal("\"" + interpreter + "\"");
  }
  PythonCommand parsed{interpreter, {command.begin() + 1, command.end()}};
  const std::size_t at = !parsed.words.empty() && parsed.words.front() == "-u" ? 1 : 0;
  if (parsed.words.size() <= at) {
    return Refusal("\"" + interpreter + "\" without a program");
  }
  const std::string& first = parsed.words[at];
  if (first == "-m") {
    if (parsed.words.size() <= at + 1 || !IsModuleName(parsed.words[at + 1])) {
      return Refusal("-m without the name of a module");
    }
  } else if (!IsScript(first)) {
    return Refusal("\"" + first + "\" after \"" + interpreter + "\"");
  }
  return parsed;
}

}  // namespace lockstep
