#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace lockstep::runtime {

// What makes two steps the same work on other numbers.
struct StepShape {
  int64_t sample_count = 0;
  bool has_update = false;  // a guarded one
  // StepOptions::ready_at, where somebody listens.
  std::optional<std::vector<int64_t>> ready_at = {};

  friend bool operator==(const StepShape&, const StepShape&) = default;
};

enum class StepWay {
  kEager,    // operation by operation
  kCapture,  // taken down, and then done from that
  kReplay    // done from what was taken down
};

// Decides which steps of an engine are captured as a graph, and which are replayed. There is one
// graph at a time: of the steps that come in rows.
//
//                  kWarmUpSteps alike               the same again
//   eager steps ----------------------> kCapture ------------------> kReplay
//        ^    ^                            |
//        |    +---- another shape: that step alone, and the row begins anew
//        +--------- capture failed, or kCapturesMax of them: for good
//
// What is worth telling people is told once. Pure; thread: one.
class CapturePolicy {
 public:
  // Source: PyTorch's documentation of CUDA graphs: what libraries make at their first calls must
  // be there before.
  static constexpr int kWarmUpSteps = 3;
  // Choice: a job whose batch changes so often, by ranks that come and go, pays for each capture
  // and may go on without.
  static constexpr int kCapturesMax = 16;

  // How the next step is done.
  StepWay Next(const StepShape& shape);

  // What became of the capture that Next() asked for.
  void Captured();
  void Failed(const Error& reason);

  // The graph is no more: what it works on has moved.
  void Forget() { captured_.reset(); }

  // Whether there is a graph that a step may be done from: without, its memory is for others.
  bool needs_graph() const { return captured_.has_value(); }

  std::optional<std::string> TakeNotice();

 private:
  // Each sentence once.
  void Tell(bool* has_told, std::string notice);

  std::optional<StepShape> captured_;
  std::optional<StepShape> row_;  // the shape of the steps that came last
  int row_length_ = 0;
  int capture_count_ = 0;
  bool is_given_up_ = false;
  bool has_told_of_other_ = false;
  bool has_told_of_capture_ = false;
  bool has_told_of_end_ = false;
  std::deque<std::string> notices_;  // at most one of each kind
};

}  // namespace lockstep::runtime
