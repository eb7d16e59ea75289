#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "common/base/result.h"

namespace lockstep::runtime {

// How one rank ended that torchrun had started.
struct RankEnd {
  std::optional<int> rank;  // absent where torchrun does not say
  pid_t pid = 0;
  int exit_code = 0;  // 128 + signal when a signal ended it
  int signal = 0;     // 0 when it ended itself

  friend bool operator==(const RankEnd&, const RankEnd&) = default;
};

// Finds, in what torchrun writes to its standard error, the summary of a start that failed.
// torchrun itself exits with 1 whatever became of its ranks. Pure. Source: torch's
// distributed/elastic/multiprocessing/errors, releases 1.13 and 2.x.
class TorchrunSummary {
 public:
  // Takes the next line, without colours. Returns whether it belongs to a summary.
  bool Take(std::string_view line);

  // Why it failed: a rank that a signal ended, else the one that torchrun takes for the root cause.
  // Null where the lines hold no summary.
  std::optional<RankEnd> Cause() const;

 private:
  bool is_inside_ = false;
  std::optional<int> rank_;    // of the entry that is being read
  std::vector<RankEnd> ends_;  // bounded; the root cause is the last
};

// The same by the file that torchrun fills where its ranks record their errors, without `rank`
// and `pid`. Null where the text is no such file, or does not say how the rank ended.
std::optional<RankEnd> ParseErrorFile(std::string_view text);

// A path for the file that torchrun fills so. Nothing is there before torchrun makes it. What is
// there goes with this object. If the runtime is killed first, it goes with the pod's own folder.
class TorchrunErrorFile {
 public:
  // In the folder of `pods_file`, which is one of this pod alone; in the folder for temporary files
  // where that one cannot be written to, or `pods_file` is empty. Errors: as mkstemp(3).
  static Result<TorchrunErrorFile> Make(const std::string& pods_file);

  TorchrunErrorFile(TorchrunErrorFile&& other) noexcept;
  TorchrunErrorFile& operator=(TorchrunErrorFile&&) = delete;
  ~TorchrunErrorFile();

  const std::string& path() const { return path_; }

 private:
  explicit TorchrunErrorFile(std::string path) : path_(std::move(path)) {}

  static Result<TorchrunErrorFile> MakeIn(const std::filesystem::path& folder);

  std::string path_;  // empty: moved from
};

}  // namespace lockstep::runtime
