#include "trainer-runtime/supervisor/output/torchrun_summary.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <unistd.h>

#include "common/base/io/unique_fd.h"
#include "common/contract/status/exit_code.h"
#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kEndsMax = 256;  // choice: above the processes of a pod
constexpr int kRankSignalMax = 64;     // Linux: SIGRTMAX

std::string_view WithoutBlanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The number that `text` begins with.
std::optional<int> LeadingNumber(std::string_view text) {
  int number = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() ? std::optional(number) : std::nullopt;
}

// What stands behind `label` and its colon: "rank      : 1 (local_rank: 1)".
std::optional<std::string_view> ValueBehind(std::string_view line, std::string_view label) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || WithoutBlanks(line.substr(0, colon)) != label) {
    return std::nullopt;
  }
  return WithoutBlanks(line.substr(colon + 1));
}

// torchrun counts as Python does: -9 is SIGKILL.
std::optional<RankEnd> EndByCode(std::optional<int> rank, pid_t pid, int code) {
  if (code == 0 || code < -kRankSignalMax || code > 255) {
    return std::nullopt;
  }
  return code < 0 ? RankEnd{rank, pid, kExitSignalBase - code, -code} : RankEnd{rank, pid, code, 0};
}

}  // namespace

bool TorchrunSummary::Take(std::string_view line) {
  const std::string_view words = WithoutBlanks(line);
  if (words == "Failures:") {
    is_inside_ = true;
    rank_.reset();
    ends_.clear();
    return true;
  }
  if (!is_inside_) {
    return false;
  }
  if (!words.empty() && words.find_first_not_of('=') == std::string_view::npos) {
    is_inside_ = false;
  } else if (const auto rank = ValueBehind(words, "rank")) {
    rank_ = LeadingNumber(*rank);
  } else if (const auto text = ValueBehind(words, "exitcode"); text && rank_) {
    constexpr std::string_view kPid = "(pid: ";
    const std::size_t at = text->find(kPid);
    const std::optional<int> pid =
        at == std::string_view::npos ? 0 : LeadingNumber(text->substr(at + kPid.size()));
    const std::optional<int> code = LeadingNumber(*text);
    const auto end = code ? EndByCode(rank_, pid.value_or(0), *code) : std::nullopt;
    if (end.has_value() && ends_.size() < kEndsMax) {
      ends_.push_back(*end);
    }
    rank_.reset();
  }
  return true;
}

// A rank that loses its peer ends too, within the same look of torchrun's, and whole seconds are
// all that torchrun tells them apart by. torchrun's own SIGTERM to the others is no cause.
std::optional<RankEnd> TorchrunSummary::Cause() const {
  if (ends_.empty()) {
    return std::nullopt;
  }
  const auto killed = std::find_if(ends_.begin(), ends_.end(), [](const RankEnd& end) {
    return end.signal != 0 && end.signal != SIGTERM;
  });
  return killed != ends_.end() ? *killed : ends_.back();
}

std::optional<RankEnd> ParseErrorFile(std::string_view text) {
  const Result<Json> document = ParseJson(text);
  if (!document.ok() || !document->is_object()) {
    return std::nullopt;
  }
  const auto message = document->find("message");
  if (message == document->end() || !message->is_object()) {
    return std::nullopt;
  }
  const auto code = message->find("errorCode");
  const bool is_number = code != message->end() && code->is_number_integer();
  const auto number = is_number ? code->get<int64_t>() : 0;
  return number >= -kRankSignalMax && number <= 255
             ? EndByCode(std::nullopt, 0, static_cast<int>(number))
             : std::nullopt;
}

Result<TorchrunErrorFile> TorchrunErrorFile::Make(const std::string& pods_file) {
  if (!pods_file.empty()) {
    Result<TorchrunErrorFile> made = MakeIn(std::filesystem::path(pods_file).parent_path());
    if (made.ok()) {
      return made;
    }
  }
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  return MakeIn(error ? "/tmp" : temporary);
}

Result<TorchrunErrorFile> TorchrunErrorFile::MakeIn(const std::filesystem::path& folder) {
  // A name that nobody can guess, as others may write in the folder for temporary files.
  std::string path = folder / "lockstep-torchrun-XXXXXX";
  const UniqueFd file(::mkstemp(path.data()));
  if (!file.is_open()) {
    return SystemError(errno, "making " + path);
  }
  ::unlink(path.c_str());
  return TorchrunErrorFile(std::move(path));
}

TorchrunErrorFile::TorchrunErrorFile(TorchrunErrorFile&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

TorchrunErrorFile::~TorchrunErrorFile() {
  if (!path_.empty()) {
    ::unlink(path_.c_str());
  }
}

}  // namespace lockstep::runtime
