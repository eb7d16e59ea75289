#include "operator/cli/terminal/shell_words.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace lockstep::control {
namespace {

constexpr std::string_view kBlanks = " \t\n";
constexpr std::string_view kEscapedInQuotes = "\"\\$`";  // of POSIX, 2.2.3

// Reads one letter of a word after the other.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> Read() {
    while (at_ < text_.size()) {
      const char letter = text_[at_++];
      if (kBlanks.find(letter) != std::string_view::npos) {
        EndWord();
      } else if (letter == '\'' || letter == '"') {
        LOCKSTEP_RETURN_IF_ERROR(ReadQuoted(letter));
      } else if (letter == '\\' && at_ == text_.size()) {
        return Error(ErrorCode::kInvalidArgument,
                     "the last character is a backslash, expected a character after it");
      } else {
        Add(letter == '\\' ? text_[at_++] : letter);
      }
    }
    EndWord();
    return std::move(words_);
  }

 private:
  Status ReadQuoted(char quote) {
    is_in_word_ = true;  // quotes around nothing are an empty word
    while (at_ < text_.size()) {
      const char letter = text_[at_++];
      if (letter == quote) {
        return OkStatus();
      }
      const bool is_escape = letter == '\\' && quote == '"' && at_ < text_.size() &&
                             kEscapedInQuotes.find(text_[at_]) != std::string_view::npos;
      Add(is_escape ? text_[at_++] : letter);
    }
    return Error(ErrorCode::kInvalidArgument,
                 std::string("a quote ") + quote + " found, expected a second one to close it");
  }

  void Add(char letter) {
    is_in_word_ = true;
    word_ += letter;
  }

  void EndWord() {
    if (is_in_word_) {
      words_.push_back(std::exchange(word_, ""));
      is_in_word_ = false;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string word_;
  bool is_in_word_ = false;
  std::vector<std::string> words_;
};

}  // namespace

Result<std::vector<std::string>> SplitShellWords(std::string_view text) {
  return WordReader(text).Read();
}

std::string QuoteShellWord(const std::string& text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("/._-+=:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) {
    return text;
  }
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted + "'";
}

}  // namespace lockstep::control
