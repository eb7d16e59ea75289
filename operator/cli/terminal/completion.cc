#include "operator/cli/terminal/completion.h"

#include <string_view>

namespace lockstep::control {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) {
    joined += (joined.empty() ? "" : " ") + word;
  }
  return joined;
}

// `text` in single quotes, for any of the three shells.
std::string Quote(std::string_view text) {
  std::string quoted = "'";
  for (const char character : text) {
    quoted += character == '\'' ? std::string("'\\''") : std::string(1, character);
  }
  return quoted + "'";
}

// What zsh takes for the end of a part of an entry is escaped.
std::string EscapeForZsh(std::string_view text) {
  std::string escaped;
  for (const char character : text) {
    if (character == ':' || character == '[' || character == ']') {
      escaped += '\\';
    }
    escaped += character;
  }
  return escaped;
}

std::vector<std::string> OptionNames(const CommandWords& command) {
  std::vector<std::string> names;
  for (const OptionWords& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::string BashOfCommand(const CommandWords& command) {
  std::string text;
  for (const OptionWords& option : command.options) {
    if (!option.takes_value) {
      continue;
    }
    for (const std::string& name : option.names) {
      text += "    '" + command.name + " " + name + "') words=" + Quote(Join(option.values)) +
              " value=1 ;;\n";
    }
  }
  const std::string options = Join(OptionNames(command));
  return text + "    '" + command.name + " '*) words=" + Quote(options) +
         " first=" + Quote(Join(command.values)) + " ;;\n";
}

// Files are what bash itself completes where nothing fits.
std::string Bash(const CommandWords& program) {
  std::vector<std::string> first = OptionNames(program);
  std::string commands;
  for (const CommandWords& command : program.commands) {
    first.push_back(command.name);
    commands += BashOfCommand(command);
  }
  const std::string function = "_" + program.name;
  return "# bash completion for " + program.name + "\n" + function + R"(() {
  local word=${COMP_WORDS[COMP_CWORD]} words='' first='' value=''
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W )" +
         Quote(Join(first)) + R"( -- "$word")
    return
  fi
  case "${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]}" in
)" + commands +
         R"(  esac
  if [[ -z $value && $word != -* ]]; then
    words=$first
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F )" +
         function + " " + program.name + "\n";
}

std::string ZshOfOption(const OptionWords& option) {
  std::string entry;
  for (const std::string& name : option.names) {
    std::string text = "*" + name + "[" + EscapeForZsh(option.description) + "]";
    if (option.takes_value) {
      text += ":value:" + (option.values.empty() ? "_files" : "(" + Join(option.values) + ")");
    }
    entry += " \\\n        " + Quote(text);
  }
  return entry;
}

std::string Zsh(const CommandWords& program) {
  std::string names;
  std::string commands;
  for (const CommandWords& command : program.commands) {
    names += "    " + Quote(EscapeForZsh(command.name) + ":" + command.description) + "\n";
    commands += "    " + command.name + ")\n      _arguments";
    for (const OptionWords& option : command.options) {
      commands += ZshOfOption(option);
    }
    const std::string values = command.values.empty() ? "_files" : "(" + Join(command.values) + ")";
    commands += " \\\n        " + Quote("*:argument:" + values) + " ;;\n";
  }
  const std::string function = "_" + program.name;
  return "#compdef " + program.name + "\n" + function + "() {\n  local -a commands=(\n" + names +
         R"(  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
)" + commands +
         "  esac\n}\nif [ \"$funcstack[1]\" = " + function + " ]; then\n  " + function +
         " \"$@\"\nelse\n  compdef " + function + " " + program.name + "\nfi\n";
}

std::string Fish(const CommandWords& program) {
  const std::string start = "complete -c " + program.name + " -n ";
  std::string text = "# fish completion for " + program.name + "\n";
  for (const CommandWords& command : program.commands) {
    text += start + "__fish_use_subcommand -f -a " + command.name + " -d " +
            Quote(command.description) + "\n";
    const std::string seen = Quote("__fish_seen_subcommand_from " + command.name);
    if (!command.values.empty()) {
      text += start + seen + " -f -a " + Quote(Join(command.values)) + "\n";
    }
    for (const OptionWords& option : command.options) {
      text += start + seen;
      for (const std::string& name : option.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.values.empty()) {
        text += " -x -a " + Quote(Join(option.values));
      } else if (option.takes_value) {
        text += " -r";
      }
      text += " -d " + Quote(option.description) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string CompletionScript(Shell shell, const CommandWords& program) {
  switch (shell) {
    case Shell::kBash:
      return Bash(program);
    case Shell::kZsh:
      return Zsh(program);
    case Shell::kFish:
      break;
  }
  return Fish(program);
}

}  // namespace lockstep::control
