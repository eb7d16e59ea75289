#include "common/contract/command/executed_commands.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/contract/text/shell_text.h"
#include "common/contract/text/text.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

constexpr int kNestingMax = 8;  // choice: of shells in each other

// What a command is read up to: texts that name themselves grow without end. Choices: manifests
// have at most 1.5 MiB, and scripts in them some hundred lines.
constexpr std::size_t kBytesMax = std::size_t{4} << 20U;
constexpr std::size_t kCommandsMax = 65'536;

// A program that executes another, whose words follow its own.
struct Wrapper {
  std::string_view name;
  std::string_view options_with_value;  // a word behind each; with blanks between them
  int operands = 0;                     // words before the other's
  std::string_view subcommand = "";
};

constexpr std::string_view kEveryOption = "*";

constexpr std::string_view kAllOfArray = "[@]";

// Sources: the manuals of coreutils 9.1, findutils 4.9, util-linux 2.38, bash 5.2, conda 24, uv
// 0.4, nsys and ncu 2024.
constexpr std::array<Wrapper, 41> kWrappers = {{
    {"env", "-u --unset -C --chdir"},
    {"exec", "-a"},
    {"builtin", ""},
    {"busybox", ""},
    {"catatonit", ""},
    {"catchsegv", ""},
    {"chrt", "-T -P -D", 1},
    {"command", ""},
    {"dumb-init", "-r --rewrite"},
    {"flock", "-w --wait --timeout -E --conflict-exit-code", 1},
    {"gosu", "", 1},
    {"ionice", "-c -n --class --classdata"},
    {"neuron_parallel_compile", ""},
    {"nice", "-n --adjustment"},
    {"nohup", ""},
    {"numactl", "-i -N -m -C -p --interleave --cpunodebind --membind --physcpubind --preferred"},
    {"prlimit", ""},
    {"setpriv", "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits"},
    {"setsid", ""},
    {"stdbuf", "-i -o -e --input --output --error"},
    {"strace", "-e -o -s -E -u -P -I -O -S -a -b -X"},
    {"su-exec", "", 1},
    {"sudo", "-u -g -h -p -C -D -R -T --user --group --host --prompt --chdir"},
    {"taskset", "", 1},
    {"time", "-f -o --format --output"},
    {"timeout", "-k -s --kill-after --signal", 1},
    {"tini", "-p -e"},
    {"unbuffer", ""},
    {"xargs",
     "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-lines --max-args --max-procs "
     "--max-chars"},
    {"_entrypoint.sh", ""},  // of micromamba's images
    {"nvidia_entrypoint.sh", ""},
    {"conda", "-n --name -p --prefix --cwd", 0, "run"},
    {"mamba", "-n --name -p --prefix --cwd", 0, "run"},
    {"micromamba", "-n --name -p --prefix --cwd -r --root-prefix", 0, "run"},
    {"pdm", "-p --project", 0, "run"},
    {"pixi", "-e --environment --manifest-path", 0, "run"},
    {"poetry", "-C --directory -P --project", 0, "run"},
    {"pipenv", "", 0, "run"},
    {"uv",
     "-p --python --with --with-editable --with-requirements --extra --group --only-group "
     "--env-file --directory --project --package --index --default-index",
     0,
     "run"},
    {"ncu", kEveryOption},
    {"nsys", kEveryOption, 0, "profile"},
}};

bool IsOfName(unsigned char c) {
  return std::isalnum(c) != 0 || c == '_';
}

bool IsName(std::string_view text) {
  return !text.empty() && !IsDigit(text.front()) && std::ranges::all_of(text, IsOfName);
}

bool IsAssignment(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 &&
         IsName(word.substr(0, equals - (word[equals - 1] == '+' ? 1 : 0)));
}

Words SplitAtBlanks(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) {
    words.push_back(std::move(word));
  }
  return words;
}

Words From(const Words& words, std::size_t at) {
  return {words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size())), words.end()};
}

// "torchrun" of "$(which torchrun)" and its kin.
std::optional<std::string> FoundProgram(std::string_view text) {
  if (text.starts_with("$(") && text.ends_with(')')) {
    text = text.substr(2, text.size() - 3);
  } else if (text.size() > 2 && text.starts_with('`') && text.ends_with('`')) {
    text = text.substr(1, text.size() - 2);
  } else {
    return std::nullopt;
  }
  const Words words = SplitAtBlanks(std::string(text));
  const bool is_which = words.size() == 2 && words[0] == "which";
  const bool is_looked_up = words.size() == 3 && ((words[0] == "command" && words[1] == "-v") ||
                                                  (words[0] == "type" && words[1] == "-P"));
  return is_which || is_looked_up ? std::optional(words.back()) : std::nullopt;
}

// "NAME" of "$NAME" and "${NAME}", "NAME[@]" of "${NAME[@]}"; empty: it is something else.
std::string VariableOf(std::string_view text) {
  if (!text.starts_with('$')) {
    return "";
  }
  text.remove_prefix(1);
  if (text.starts_with('{') && text.ends_with('}')) {
    text = text.substr(1, text.size() - 2);
  }
  const bool is_parameter =
      text == "@" || text == "*" || (text.size() == 1 && IsDigit(text.front()));
  const bool is_array = text.ends_with(kAllOfArray);
  const std::string_view name = is_array ? text.substr(0, text.size() - 3) : text;
  return is_parameter || IsName(name) ? std::string(text) : "";
}

// The words of an array: of "(a b)(c)".
Words Elements(const std::string& array) {
  Words words;
  for (const ShellCommand& command : ReadShellText(array)) {
    for (const ShellWord& word : command.words) {
      words.push_back(word.text);
    }
  }
  return words;
}

// What `words` writes where that is what it is given; empty: it is something else.
std::string WrittenBy(const Words& words, const std::string& input) {
  if (words == Words{"cat"}) {
    return input;
  }
  std::string text;
  for (std::size_t i = 1; words[0] == "echo" && i < words.size(); ++i) {
    text += words[i].starts_with('-') && text.empty() ? "" : words[i] + " ";
  }
  return text;
}

// The words that `words`, of a wrapper, executes; absent: it executes nothing that is seen.
std::optional<Words> WrappedWords(const Words& words) {
  const std::string_view name = BaseName(words[0]);
  const auto* const wrapper = std::ranges::find(kWrappers, name, &Wrapper::name);
  if (wrapper == kWrappers.end()) {
    return std::nullopt;
  }
  std::size_t at = 1;
  if (!wrapper->subcommand.empty()) {
    if (words.size() < 2 || words[1] != wrapper->subcommand) {
      return std::nullopt;
    }
    ++at;
  }
  for (; at < words.size() && words[at].starts_with('-'); ++at) {
    const std::string& option = words[at];
    if (option == "--") {
      ++at;
      break;
    }
    if (name == "command" && option.find_first_of("vV") != std::string::npos) {
      return std::nullopt;  // it only looks
    }
    if (name == "env" && (option.starts_with("-S") || option.starts_with("--split-string"))) {
      const std::size_t begin = option.starts_with("-S") ? 2 : option.find('=') + 1;
      const bool is_glued = begin > 0 && begin < option.size();
      Words inner = SplitAtBlanks(is_glued                ? option.substr(begin)
                                  : at + 1 < words.size() ? words[at + 1]
                                                          : "");
      const Words rest = From(words, at + (is_glued ? 1 : 2));
      inner.insert(inner.end(), rest.begin(), rest.end());
      inner.insert(inner.begin(), "env");
      return inner;
    }
    const std::string_view with_value = wrapper->options_with_value;
    if (option.find('=') == std::string::npos &&
        (with_value == kEveryOption || IsListed(option, with_value))) {
      ++at;
    }
  }
  if (name == "env" || name == "sudo") {
    while (at < words.size() && words[at].find('=') != std::string::npos) {
      ++at;
    }
  }
  at += static_cast<std::size_t>(wrapper->operands);
  return at < words.size() ? std::optional(From(words, at)) : std::nullopt;
}

// How a shell is called.
struct ShellCall {
  bool has_text = false;
  bool is_fed = false;  // by its input
  Words operands;       // with a text: the text, "$0", "$1" and so on; fed: "$0", "$1" and so on;
                        // else a script and its arguments
};

std::optional<ShellCall> ShellCallOf(const Words& words) {
  if (!IsListed(BaseName(words[0]), "sh bash dash ash zsh ksh")) {
    return std::nullopt;
  }
  ShellCall call;
  std::size_t at = 1;
  for (; at < words.size(); ++at) {
    const std::string& option = words[at];
    if (option.size() < 2 || (option[0] != '-' && option[0] != '+') || option == "--") {
      at += option == "--" || option == "-" ? 1 : 0;
      break;
    }
    if (option.starts_with("--")) {
      at += option == "--rcfile" || option == "--init-file" ? 1 : 0;
      continue;
    }
    call.has_text = call.has_text || (option[0] == '-' && option.find('c') != std::string::npos);
    call.is_fed = call.is_fed || (option[0] == '-' && option.find('s') != std::string::npos);
    at += option.find_first_of("oO") != std::string::npos ? 1 : 0;
  }
  call.operands = From(words, at);
  call.is_fed = !call.has_text && (call.is_fed || call.operands.empty());
  if (call.is_fed) {
    call.operands.insert(call.operands.begin(), words[0]);
  }
  return call;
}

class Execution {
 public:
  std::vector<Words> Take() { return std::move(executed_); }

  // `input`: what the program reads.
  void Execute(Words words, const std::string& input, int nesting) {
    while (!words.empty()) {
      if (const std::optional<ShellCall> call = ShellCallOf(words); call.has_value()) {
        const bool is_read =
            call->has_text ? !call->operands.empty() : call->is_fed && !input.empty();
        if (!is_read || nesting >= kNestingMax) {
          break;
        }
        if (call->has_text) {
          ReadText(call->operands[0], From(call->operands, 1), nesting + 1);
        } else {
          ReadText(input, call->operands, nesting + 1);
        }
        return;
      }
      std::optional<Words> wrapped = WrappedWords(words);
      if (!wrapped.has_value()) {
        break;
      }
      words = std::move(*wrapped);
    }
    if (!words.empty()) {
      executed_.push_back(std::move(words));
    }
  }

 private:
  // Variables that texts have set, and the arguments of this one: "0", "1" and so on.
  void ReadText(const std::string& text, Words arguments, int nesting) {
    std::string written;  // by the command before
    for (const ShellCommand& command : ReadShellText(text)) {
      if (bytes_ > kBytesMax || ++commands_ > kCommandsMax) {
        return;
      }
      Words words;
      for (const ShellWord& word : command.words) {
        Put(word, arguments, &words);
      }
      std::size_t at = 0;
      while (at < words.size() && IsAssignment(words[at])) {
        ++at;
      }
      if (at > 0) {
        executed_.emplace_back(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at));
        words = From(words, at);
        if (words.empty()) {
          Remember(executed_.back());
        }
      }
      if (words.empty()) {
        continue;
      }
      const std::string input = command.reads_pipe ? written : command.input;
      written = WrittenBy(words, input);
      if (words[0] == "eval" && nesting < kNestingMax) {
        std::string joined;
        for (std::size_t i = 1; i < words.size(); ++i) {
          joined += words[i] + " ";
        }
        ReadText(joined, arguments, nesting + 1);
        continue;
      }
      if (words[0] == "set" && words.size() > 1 && words[1] == "--") {
        const std::string name = arguments.empty() ? "" : arguments[0];
        arguments = From(words, 2);
        arguments.insert(arguments.begin(), name);
        continue;
      }
      if (IsListed(words[0], "export readonly local declare")) {
        Remember(words);
      }
      Execute(std::move(words), input, nesting);
    }
  }

  void Remember(const Words& assignments) {
    for (const std::string& word : assignments) {
      if (IsAssignment(word)) {
        const std::size_t equals = word.find('=');
        const bool is_added = word[equals - 1] == '+';
        std::string& value = variables_[word.substr(0, equals - (is_added ? 1 : 0))];
        value = (is_added ? value : "") + WithLeading(word.substr(equals + 1));
      }
    }
  }

  // "p -n" of "$P -n", where P is known to be "p".
  std::string WithLeading(const std::string& value) {
    if (!value.starts_with('$')) {
      return value;
    }
    const auto name = std::find_if_not(value.begin() + 1, value.end(), IsOfName);
    const std::size_t end = value.starts_with("${")
                                ? std::min(value.find('}'), value.size() - 1) + 1
                                : static_cast<std::size_t>(name - value.begin());
    const auto found = variables_.find(VariableOf(value.substr(0, end)));
    if (found == variables_.end() || bytes_ > kBytesMax) {
      return value;
    }
    bytes_ += found->second.size();
    return found->second + value.substr(end);
  }

  // What the shell makes of `word`, as far as that can be told.
  void Put(const ShellWord& word, const Words& arguments, Words* words) {
    const std::string name = VariableOf(word.text);
    if (name == "@" || name == "*") {
      for (std::size_t i = 1; i < arguments.size(); ++i) {
        Add(arguments[i], words);
      }
      return;
    }
    if (name.ends_with(kAllOfArray)) {
      const auto found = variables_.find(name.substr(0, name.size() - kAllOfArray.size()));
      for (const std::string& part :
           found == variables_.end() ? Words{} : Elements(found->second)) {
        Add(part, words);
      }
      if (found != variables_.end()) {
        return;
      }
    }
    std::optional<std::string> value = FoundProgram(word.text);
    if (name.size() == 1 && IsDigit(name[0])) {
      const auto index = static_cast<std::size_t>(name[0] - '0');
      value = index < arguments.size() ? std::optional(arguments[index]) : std::nullopt;
    } else if (const auto found = variables_.find(name); found != variables_.end()) {
      value = found->second;
    }
    if (!value.has_value() || word.is_quoted) {
      Add(value.value_or(word.text), words);
      return;
    }
    for (const std::string& part : SplitAtBlanks(*value)) {
      Add(part, words);
    }
  }

  void Add(const std::string& word, Words* words) {
    bytes_ += word.size() + sizeof word;
    if (bytes_ <= kBytesMax) {
      words->push_back(word);
    }
  }

  std::vector<Words> executed_;
  std::size_t bytes_ = 0;     // of all words that texts had
  std::size_t commands_ = 0;  // that texts had
  std::map<std::string, std::string> variables_;
};

}  // namespace

std::vector<Words> ExecutedCommands(const Words& command) {
  Execution execution;
  execution.Execute(command, "", 0);
  return execution.Take();
}

}  // namespace lockstep
