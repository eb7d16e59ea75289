#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::control {

// What one run of a shape came to.
struct ShapeRun {
  double milliseconds = 0;  // of processor time; of "event" the median of all events
  double p99_milliseconds = 0;
  double wall_milliseconds = 0;  // as a clock on the wall counts
  int64_t pods = 0;              // placed, or to be evicted
  std::string wrong;             // empty: the answer is the right one
};

// A cluster and what is asked of it, as others publish it.
struct Shape {
  std::string name;
  std::string what;
  std::string anchor;  // a peer's figure, with its source in shared facts: P published, M measured
  double bar_milliseconds = 0;  // 0: there is none
  double bar_pods_per_second = 0;
  double bar_resident_mib = 0;
  ShapeRun (*run)();
};

const std::vector<Shape>& Shapes();

// Runs it so often, at least once: the median run by processor time, with the largest p99 and what
// was wrong with any.
ShapeRun MedianRun(const Shape& shape, int64_t run_count);

}  // namespace lockstep::control
