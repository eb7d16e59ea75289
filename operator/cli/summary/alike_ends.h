#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::control {

// Pods that end one after another and alike, as those of a program with a mistake do: the first has
// a line, the others have one together. Pure. Thread: one.
class AlikeEnds {
 public:
  // The lines to say now that `pod` has ended in this way: "job-worker-0 ended: exit code 3". None:
  // the same was said of the pod before, with nothing in between, and Rest will count it.
  std::vector<std::string> Add(const std::string& pod, const std::string& how);

  // The lines to say before anything else is: "4 more pods ended: exit code 3", or none.
  std::vector<std::string> Rest();

 private:
  std::string how_;  // of the last one; empty: something else was said since
  int64_t more_ = 0;
};

}  // namespace lockstep::control
