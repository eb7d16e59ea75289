#include "common/contract/environment/torch_variables.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace lockstep {
namespace {

using HungAfter = std::optional<std::chrono::milliseconds>;

// After which torch ends a process whose watchdog thread shows no life. Source: torch 2.15.
constexpr std::chrono::seconds kHeartbeatDefault{480};

// From the limit of a hang to the end of the rank at fault, with its stacks. Choice: several times
// what the court and the operator take.
constexpr std::chrono::seconds kHangCourtTime{120};

// As torch reads a truth value.
bool IsYes(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return value == "1" || value == "t" || value == "true" || value == "y" || value == "yes";
}

std::chrono::seconds WholeSeconds(std::chrono::milliseconds duration) {
  return std::chrono::ceil<std::chrono::seconds>(duration);
}

std::string EndsAtOnce(HungAfter) {
  return "3";  // with 1, torch first tidies up its groups, which can hang
}

std::string ObjectToErrorHandling(const std::string& value, HungAfter) {
  if (value == "0") {
    return "torch does not end a rank that waits for a lost rank";
  }
  return value == "2" ? "after a rank is lost, torch lets the other ranks continue with incomplete "
                        "sums, which they may save"
                      : "";
}

std::string ObjectToBlockingWait(const std::string& value, HungAfter) {
  return IsYes(value) ? "torch does not notice a lost rank, and the other ranks wait for it until "
                        "the timeout of the process group"
                      : "";
}

std::string Records(HungAfter) {
  return "2000";  // as torch from 2.11 on; older releases record nothing by themselves
}

std::string ObjectToRecord(const std::string& value, HungAfter) {
  return value == "0" ? "torch does not record collectives, so Lockstep cannot see which rank the "
                        "other ranks wait for"
                      : "";
}

std::string OutlastsCourt(HungAfter hung_after) {
  const std::chrono::seconds needed =
      hung_after.has_value() ? WholeSeconds(*hung_after) + kHangCourtTime : std::chrono::seconds(0);
  return needed > kHeartbeatDefault ? std::to_string(needed.count()) : "";
}

std::string ObjectToHeartbeat(const std::string& value, HungAfter hung_after) {
  int64_t seconds = 0;
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, seconds);
  if (!hung_after.has_value() || parsed.ec != std::errc() || parsed.ptr != end ||
      std::chrono::seconds(seconds) > *hung_after) {
    return "";
  }
  return "torch may end a rank too early: Lockstep needs recovery.hungAfterSeconds (" +
         std::to_string(WholeSeconds(*hung_after).count()) + ") to find out which rank hangs";
}

struct TorchVariable {
  const char* name;
  const char* other_name;           // under which other releases read it; empty: none
  std::string (*value)(HungAfter);  // to be set; null or empty: torch's own default
  std::string (*objection)(const std::string& value, HungAfter);  // empty: none
};

constexpr TorchVariable kTorchVariables[] = {
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING",
     "NCCL_ASYNC_ERROR_HANDLING",
     EndsAtOnce,
     ObjectToErrorHandling},
    {"TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT", nullptr, ObjectToBlockingWait},
    {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", Records, ObjectToRecord},
    {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "", OutlastsCourt, ObjectToHeartbeat},
};

}  // namespace

void SetTorchVariables(HungAfter hung_after, EnvironmentMap* variables) {
  for (const TorchVariable& one : kTorchVariables) {
    const std::string value = one.value != nullptr ? one.value(hung_after) : "";
    if (!value.empty() && variables->count(one.other_name) == 0) {
      variables->try_emplace(one.name, value);
    }
  }
}

std::vector<std::string> ObjectionsToTorchVariables(const EnvironmentMap& variables,
                                                    HungAfter hung_after) {
  std::vector<std::string> objections;
  for (const TorchVariable& one : kTorchVariables) {
    for (const char* const name : {one.name, one.other_name}) {
      const auto found = variables.find(name);
      if (found == variables.end()) {
        continue;
      }
      if (const std::string why = one.objection(found->second, hung_after); !why.empty()) {
        objections.push_back("with " + found->first + "=" + found->second + ", " + why +
                             "; remove this variable");
      }
    }
  }
  return objections;
}

}  // namespace lockstep
