#include "trainer-runtime/supervisor/output/last_words.h"

#include <algorithm>
#include <array>
#include <unistd.h>

#include "common/base/io/file.h"
#include "common/contract/text/text.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kWordsBytesMax = 512;      // choice: a sentence; the log has the rest
constexpr std::size_t kTailBytesMax = 1024;      // choice: half of what a kubelet keeps of a log
constexpr std::size_t kPlaceBytesMax = 128;      // choice, of a file's or function's name
constexpr std::size_t kLookedAtBytesMax = 4096;  // of which the first part is looked at
// Choice: frameworks say goodbye in a dozen lines after a traceback that ended the program; one
// that was caught, logged and survived lies further back.
constexpr int kLinesAfterExceptionMax = 40;

// With this torchrun ends, whatever became of its ranks.
constexpr std::string_view kChildFailed = "ChildFailedError";

constexpr std::size_t kErrorFileBytesMax = 1 << 20;  // choice: a traceback of any depth

constexpr std::string_view kTraceback = "Traceback (most recent call last):";

// How faulthandler begins the stack of the thread that took the signal, which is the main one where
// the process was sent it, and the marks of files that are not the program's own.
constexpr std::string_view kStack = "Current thread ";
constexpr std::string_view kFrame = "  File \"";
constexpr std::array<std::string_view, 4> kForeignFiles = {
    "/lib/python", "/site-packages/", "/dist-packages/", "<frozen "};

// What PyTorch Lightning says of its own settings where the job's are others, and what mends it.
constexpr std::string_view kOfLightning = "in Lightning, but the product";
constexpr std::string_view kLightningHint =
    " In Lockstep, `devices` must be the role's `processes`, and `num_nodes` the number of pods "
    "that train";

// Without the sequences that set colours and move the cursor (ECMA-48: ESC [ ... letter).
std::string WithoutEscapes(std::string_view line) {
  std::string plain;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] != '\x1b' || at + 1 == line.size() || line[at + 1] != '[') {
      plain += line[at];
      continue;
    }
    at = std::min(line.find_first_of("ABCDEFGHJKSTfhlmnsu", at + 2), line.size() - 1);
  }
  return plain;
}

// PyTorch writes "[rank1]: " before the lines of a rank's traceback.
std::string_view WithoutRank(std::string_view line) {
  constexpr std::string_view kMark = "[rank";
  const std::size_t end = line.find("]: ");
  const bool has_rank =
      line.starts_with(kMark) && end != std::string_view::npos &&
      line.substr(kMark.size(), end - kMark.size()).find_first_not_of("0123456789") ==
          std::string_view::npos;
  return has_rank ? line.substr(end + 3) : line;
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// What points at a part of the line above it, as Python's tracebacks and compilers do: ^^^^ or
// ~~~~^~~~, in a nested traceback from the first column on.
bool IsPointer(std::string_view words) {
  return words.find_first_not_of("^~ \t") == std::string_view::npos;
}

}  // namespace

LastWords::LastWords() : lines_(kLookedAtBytesMax) {}

void LastWords::Append(std::string_view bytes, TimePoint now) {
  lines_.Append(bytes, now, [this](std::string_view line) { Take(line); });
}

void LastWords::Take(std::string_view line) {
  const std::string plain = WithoutEscapes(line);
  const std::string_view words = WithoutRank(plain);
  const bool is_in_summary = torchrun_.Take(words);
  TakeStack(words);
  if (Trimmed(words).empty()) {
    return;
  }
  tail_ += CutText(plain, kWordsBytesMax) + "\n";
  while (tail_.size() > kTailBytesMax) {
    tail_.erase(0, tail_.find('\n') + 1);
  }
  if (is_in_summary || IsPointer(words)) {  // a summary repeats what a rank has raised
    return;
  }
  last_line_ = CutText(Trimmed(words), kWordsBytesMax);
  lines_since_exception_ = std::min(lines_since_exception_ + 1, kLinesAfterExceptionMax + 1);
  if (words.find(kTraceback) != std::string_view::npos) {
    is_in_traceback_ = true;
  } else if (is_in_traceback_ && words.front() != ' ' && words.front() != '\t') {
    is_in_traceback_ = false;
    lines_since_exception_ = 0;
    if (words.find(kChildFailed) == std::string_view::npos) {
      exception_ = last_line_;
    }
  }
}

// Lines of a frame: `  File "/job/train.py", line 88 in load_batch`.
void LastWords::TakeStack(std::string_view line) {
  if (line.starts_with(kStack)) {
    is_in_stack_ = true;
    python_place_.clear();
    is_place_of_program_ = false;
    return;
  }
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = " in ";
  const std::size_t path_end = line.find(kLine);
  const std::size_t number_end = line.find(kIn, path_end);
  is_in_stack_ = is_in_stack_ && line.starts_with(kFrame) && number_end != std::string_view::npos;
  if (!is_in_stack_ || is_place_of_program_) {
    return;
  }
  const std::string_view path = line.substr(kFrame.size(), path_end - kFrame.size());
  is_place_of_program_ =
      std::none_of(kForeignFiles.begin(), kForeignFiles.end(), [path](std::string_view mark) {
        return path.find(mark) != std::string_view::npos;
      });
  if (!is_place_of_program_ && !python_place_.empty()) {
    return;
  }
  const std::size_t number_begin = path_end + kLine.size();
  python_place_ = CutText(line.substr(number_end + kIn.size()), kPlaceBytesMax) + " (" +
                  CutText(path.substr(path.rfind('/') + 1), kPlaceBytesMax) + ":" +
                  std::string(line.substr(number_begin, number_end - number_begin)) + ")";
}

// As it would be if the stream ended here.
LastWords LastWords::Finished() const {
  LastWords whole = *this;
  whole.lines_.Finish([&whole](std::string_view line) { whole.Take(line); });
  return whole;
}

std::optional<RankEnd> LastWords::FailedRank(const std::string& error_file) const {
  const Result<std::string> file = error_file.empty() ? Result<std::string>(std::string())
                                                      : ReadFile(error_file, kErrorFileBytesMax);
  ::unlink(error_file.c_str());  // it says nothing about the next one
  const std::optional<RankEnd> cause = Finished().torchrun_.Cause();
  return cause.has_value() || !file.ok() ? cause : ParseErrorFile(*file);
}

std::string LastWords::PythonPlace() const {
  return Finished().python_place_;
}

std::string LastWords::Tail() const {
  return Finished().tail_;
}

std::string LastWords::Find() const {
  const LastWords whole = Finished();
  const bool is_recent = whole.lines_since_exception_ <= kLinesAfterExceptionMax;
  if (!whole.exception_.empty() && is_recent) {
    const bool has_hint = whole.exception_.find(kOfLightning) != std::string::npos;
    return whole.exception_ + std::string(has_hint ? kLightningHint : "");
  }
  return whole.torchrun_.Cause().has_value() ? "" : whole.last_line_;
}

}  // namespace lockstep::runtime
