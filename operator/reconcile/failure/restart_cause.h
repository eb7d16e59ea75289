#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace lockstep::control {

// Causes of restarts that no exit code tells.
enum class OutsideCause {
  kHang,          // alive but silent
  kStartTimeout,  // never came to run
  kNotStarted,    // or a peer did not
  kStuck,         // asked to go, and its node does not end it
  kDeleted,       // by somebody
  kEvicted,       // by Kubernetes: a drain, a preemption, a taint
  kEnded,         // until its kubelet tells how; last, for the count below
};

inline constexpr std::size_t kOutsideCauseCount =
    static_cast<std::size_t>(OutsideCause::kEnded) + 1;

// "hang", "start_timeout", ...
constexpr std::string_view OutsideCauseName(OutsideCause cause) {
  switch (cause) {
    case OutsideCause::kHang:
      return "hang";
    case OutsideCause::kStartTimeout:
      return "start_timeout";
    case OutsideCause::kNotStarted:
      return "not_started";
    case OutsideCause::kStuck:
      return "stuck";
    case OutsideCause::kDeleted:
      return "deleted";
    case OutsideCause::kEvicted:
      return "evicted";
    case OutsideCause::kEnded:
      return "ended";
  }
  return "";
}

// The words under which restarts are counted for them.
inline constexpr std::string_view kCauseHang = OutsideCauseName(OutsideCause::kHang);
inline constexpr std::string_view kCauseStartTimeout =
    OutsideCauseName(OutsideCause::kStartTimeout);
inline constexpr std::string_view kCauseNotStarted = OutsideCauseName(OutsideCause::kNotStarted);
inline constexpr std::string_view kCauseStuck = OutsideCauseName(OutsideCause::kStuck);
inline constexpr std::string_view kCauseDeleted = OutsideCauseName(OutsideCause::kDeleted);
inline constexpr std::string_view kCauseEvicted = OutsideCauseName(OutsideCause::kEvicted);
inline constexpr std::string_view kCauseEnded = OutsideCauseName(OutsideCause::kEnded);

// Every cause that a restart can be counted for: those of ExitCause, and these.
std::vector<std::string_view> RestartCauses();

}  // namespace lockstep::control
