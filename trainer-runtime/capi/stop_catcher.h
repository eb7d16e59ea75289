#pragma once

#include "common/base/result.h"

namespace lockstep::runtime {

// Turns SIGTERM into a request that a program can ask about, until destruction. One at a time.
class StopCatcher {
 public:
  StopCatcher() = default;
  ~StopCatcher();
  StopCatcher(const StopCatcher&) = delete;
  StopCatcher& operator=(const StopCatcher&) = delete;

  // Errors: kInvalidArgument (the program does something else with SIGTERM already).
  Status Install();

  // Whether SIGTERM has come since the last Install. Thread: any.
  static bool WasAsked();

 private:
  bool is_installed_ = false;
};

}  // namespace lockstep::runtime
