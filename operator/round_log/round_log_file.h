#pragma once

#include <string>
#include <string_view>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"

namespace lockstep::control {

// The file that a round log is written to.
class RoundLogFile {
 public:
  // A new and empty one, which nobody but its owner may read. What was there before is kept as
  // `path`.1, in place of what was there: the log of a program that broke is not lost when it
  // starts again. Errors: by errno.
  static Result<RoundLogFile> Create(const std::string& path);

  // Errors: by errno. What was written before stands.
  Status Write(std::string_view text) const;

 private:
  RoundLogFile(UniqueFd fd, std::string path);

  UniqueFd fd_;
  std::string path_;
};

}  // namespace lockstep::control
