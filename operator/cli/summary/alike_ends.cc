#include "operator/cli/summary/alike_ends.h"

#include <utility>

#include "common/base/plural.h"

namespace lockstep::control {

std::vector<std::string> AlikeEnds::Add(const std::string& pod, const std::string& how) {
  if (how == how_) {
    ++more_;
    return {};
  }
  std::vector<std::string> lines = Rest();
  how_ = how;
  lines.push_back(pod + " ended: " + how);
  return lines;
}

std::vector<std::string> AlikeEnds::Rest() {
  const std::string how = std::exchange(how_, "");
  const int64_t more = std::exchange(more_, 0);
  return more > 0 ? std::vector{Plural(more, "more pod") + " ended: " + how}
                  : std::vector<std::string>();
}

}  // namespace lockstep::control
