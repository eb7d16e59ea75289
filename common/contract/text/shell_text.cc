#include "common/contract/text/shell_text.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/contract/text/text.h"

namespace lockstep {
namespace {

constexpr int kNestingMax = 16;  // choice: of substitutions in each other

// A command that is read, with the here-documents whose bodies follow on later lines.
struct OpenCommand {
  std::vector<ShellWord> words;
  std::vector<std::size_t> documents;
  std::string input;  // of a here-string
  bool reads_pipe = false;
};

struct HereDocument {
  std::string end;
  bool has_tabs_cut = false;
  bool is_read = false;
  std::string body;
};

bool IsReserved(const ShellWord& word) {
  return !word.is_quoted &&
         IsListed(word.text, "if then elif else fi while until do done ! { } coproc");
}

class ShellTextReader {
 public:
  ShellTextReader(std::string_view text, int nesting) : text_(text), nesting_(nesting) {}

  std::vector<ShellCommand> Read() {
    while (at_ < text_.size()) {
      ReadOne();
    }
    EndLine();
    std::vector<ShellCommand> commands;
    for (OpenCommand& one : commands_) {
      ShellCommand command{std::move(one.words), std::move(one.input), one.reads_pipe};
      for (const std::size_t document : one.documents) {
        command.input += documents_[document].body;
      }
      commands.push_back(std::move(command));
    }
    return commands;
  }

 private:
  char Next(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void Append(char c) {
    word_.text += c;
    has_word_ = true;
  }

  void ReadOne() {
    const char c = text_[at_];
    if (c == '\\') {
      ReadEscaped();
    } else if (c == '\'' || c == '"' || c == '$' || c == '`') {
      ReadQuotedOrSubstituted();
    } else if (c == '\n') {
      ++at_;
      EndLine();
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
      EndWord();
    } else if (c == '#' && !has_word_) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (is_test_ &&
               word_.text != "]]") {  // within [[ ]] the characters below are operators of its own
      ++at_;
      Append(c);
    } else if (c == '<' || c == '>' || (c == '&' && Next(1) == '>')) {
      ReadRedirection();
    } else if (c == '(' || c == ')') {
      ReadParenthesis();
    } else if (c == ';' || c == '&' || c == '|') {
      ReadSeparator();
    } else {
      ++at_;
      Append(c);
    }
  }

  void ReadEscaped() {
    if (Next(1) == '\r' && Next(2) == '\n') {
      at_ += 3;
      return;
    }
    if (Next(1) != '\n') {  // which continues the line
      word_.is_quoted = true;
      Append(Next(1));
    }
    at_ += 2;
  }

  void ReadQuotedOrSubstituted() {
    const char c = text_[at_];
    if (c == '$' && (Next(1) == '\'' || Next(1) == '"')) {
      ++at_;
      ReadQuotedOrSubstituted();
    } else if (c == '\'') {
      const std::size_t end = std::min(text_.find('\'', at_ + 1), text_.size());
      word_.text += text_.substr(at_ + 1, end - at_ - 1);
      word_.is_quoted = has_word_ = true;
      at_ = end + 1;
    } else if (c == '"') {
      ReadDoubleQuoted();
    } else {
      ReadSubstitution();
    }
  }

  void ReadDoubleQuoted() {
    constexpr std::string_view kEscaped = "$`\"\\";
    word_.is_quoted = has_word_ = true;
    for (++at_; at_ < text_.size() && text_[at_] != '"';) {
      const char c = text_[at_];
      if (c == '\\' && Next(1) == '\n') {
        at_ += 2;
      } else if (c == '\\' && kEscaped.find(Next(1)) != std::string_view::npos) {
        Append(Next(1));
        at_ += 2;
      } else if (c == '$' || c == '`') {
        ReadSubstitution();
      } else {
        ++at_;
        Append(c);
      }
    }
    ++at_;
  }

  // "$(...)", "${...}", "`...`", or a lone "$". The commands in it run, too.
  void ReadSubstitution() {
    const char c = text_[at_];
    std::size_t end = at_ + 1;
    if (c == '`') {
      while (end < text_.size() && text_[end] != '`') {
        end += text_[end] == '\\' ? 2 : 1;
      }
      end = std::min(end + 1, text_.size());
      ReadInner(text_.substr(at_ + 1, end - at_ - 1 - (end > at_ + 1 ? 1 : 0)));
    } else if (Next(1) == '(' || Next(1) == '{') {
      end = EndOfNested(at_ + 1);
      if (Next(1) == '(' && Next(2) != '(') {  // which computes
        ReadInner(text_.substr(at_ + 2, end - at_ - 3));
      }
    }
    word_.text += text_.substr(at_, end - at_);
    has_word_ = true;
    at_ = end;
  }

  void ReadInner(std::string_view text) {
    if (nesting_ >= kNestingMax) {
      return;
    }
    for (ShellCommand& command : ShellTextReader(text, nesting_ + 1).Read()) {
      commands_.push_back(
          {std::move(command.words), {}, std::move(command.input), command.reads_pipe});
    }
  }

  // Behind the bracket that closes the one at `begin`.
  std::size_t EndOfNested(std::size_t begin) const {
    const char open = text_[begin];
    const char close = open == '(' ? ')' : '}';
    int depth = 0;
    for (std::size_t i = begin; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '\\') {
        ++i;
      } else if (c == '\'') {
        i = std::min(text_.find('\'', i + 1), text_.size());
      } else if (c == open) {
        ++depth;
      } else if (c == close && --depth == 0) {
        return i + 1;
      }
    }
    return text_.size();
  }

  void ReadRedirection() {
    if (has_word_ && !word_.is_quoted && std::ranges::all_of(word_.text, IsDigit)) {
      word_ = {};  // the number of a descriptor
      has_word_ = false;
    }
    EndWord();
    if (Next(1) == '(' && Next() != '&') {  // the file that a process reads or writes
      const std::size_t end = EndOfNested(at_ + 1);
      ReadInner(text_.substr(at_ + 2, end - at_ - 3));
      word_.text = text_.substr(at_, end - at_);
      has_word_ = true;
      at_ = end;
      return;
    }
    const std::size_t begin = at_;
    while (Next() == '<' || Next() == '>' || Next() == '&' || Next() == '|') {
      ++at_;
    }
    takes_file_ = true;
    is_here_string_ = text_.substr(begin, at_ - begin) == "<<<";
    if (text_.substr(begin, at_ - begin) == "<<") {
      HereDocument document;
      if (Next() == '-') {
        ++at_;
        document.has_tabs_cut = true;
      }
      current_.documents.push_back(documents_.size());
      documents_.push_back(document);
      names_document_ = true;
    }
  }

  void ReadParenthesis() {
    if (text_[at_] == '(' && has_word_ && (word_.text.ends_with('=') || Next(1) != ')')) {
      const std::size_t end = EndOfNested(at_);  // values of an array, or a pattern
      word_.text += text_.substr(at_, end - at_);
      at_ = end;
      return;
    }
    const bool is_function = text_[at_] == '(' && Next(1) == ')';
    EndWord();
    if (is_function || (text_[at_] == ')' && is_pattern_)) {
      current_ = {};
    }
    if (text_[at_] == ')') {
      is_pattern_ = false;
    }
    at_ += is_function ? 2 : 1;
    EndCommand();
  }

  void ReadSeparator() {
    const bool ends_clause = text_[at_] == ';' && (Next(1) == ';' || Next(1) == '&');
    const bool is_or = text_[at_] == '|' && Next(1) == '|';
    const bool is_pipe = text_[at_] == '|' && !is_or;
    at_ += is_or ? 2 : 1;
    EndWord();
    EndCommand();
    current_.reads_pipe = current_.reads_pipe || is_pipe;
    is_pattern_ = is_pattern_ || (ends_clause && cases_ > 0);
  }

  void EndWord() {
    if (!has_word_) {
      return;
    }
    has_word_ = false;
    ShellWord word = std::exchange(word_, {});
    if (std::exchange(takes_file_, false)) {
      if (std::exchange(names_document_, false)) {
        documents_.back().end = word.text;
      } else if (std::exchange(is_here_string_, false)) {
        current_.input = word.text + "\n";
      }
      return;
    }
    if (current_.words.empty() && IsReserved(word)) {
      return;
    }
    std::vector<ShellWord>& words = current_.words;
    if (words.size() == 2 && words[0].text == "function" && word.text == "{") {
      words.clear();
      return;
    }
    words.push_back(std::move(word));
    is_test_ = words.front().text == "[[" && words.back().text != "]]";
    if (words.size() == 3 && words[0].text == "case" && words[2].text == "in") {
      EndCommand();
      is_pattern_ = true;
      ++cases_;
    }
  }

  void EndCommand() {
    is_test_ = takes_file_ = names_document_ = is_here_string_ = false;
    OpenCommand command = std::exchange(current_, {});
    if (command.words.empty() && command.documents.empty()) {
      current_.reads_pipe = command.reads_pipe;
      return;
    }
    if (!command.words.empty() && command.words.front().text == "esac" && cases_ > 0) {
      --cases_;
      is_pattern_ = false;
    } else if (!is_pattern_) {
      commands_.push_back(std::move(command));
    }
  }

  void EndLine() {
    EndWord();
    EndCommand();
    for (HereDocument& document : documents_) {
      if (!document.is_read) {
        ReadBody(&document);
      }
    }
  }

  void ReadBody(HereDocument* document) {
    document->is_read = true;
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = std::min(end + 1, text_.size());
      if (document->has_tabs_cut) {
        line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      }
      if (line == document->end) {
        return;
      }
      document->body += std::string(line) + "\n";
    }
  }

  std::string_view text_;
  int nesting_ = 0;
  std::size_t at_ = 0;
  ShellWord word_;
  bool has_word_ = false;
  bool takes_file_ = false;      // the next word is a redirection's
  bool names_document_ = false;  // and ends a here-document
  bool is_here_string_ = false;  // or is what the command reads
  bool is_test_ = false;         // within [[ ]]
  bool is_pattern_ = false;      // of a clause of `case`
  int cases_ = 0;
  OpenCommand current_;
  std::vector<OpenCommand> commands_;
  std::vector<HereDocument> documents_;
};

}  // namespace

std::vector<ShellCommand> ReadShellText(std::string_view text) {
  return ShellTextReader(text, 0).Read();
}

}  // namespace lockstep
