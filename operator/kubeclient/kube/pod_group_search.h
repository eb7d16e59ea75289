#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/time.h"
#include "operator/kubeclient/kube/pod_groups.h"

namespace lockstep::control::kube {

// In which version PodGroups are to be had from this API server.
struct PodGroupsFound {
  std::optional<PodGroupVersion> version;  // null: in none, as far as is known
  std::string trouble;                     // why nothing is known; empty: it is

  friend bool operator==(const PodGroupsFound&, const PodGroupsFound&) = default;
};

// Asks the API server for that, again and again: it may be upgraded, or restarted with other flags.
// A state machine without I/O or clock: the driver asks NextRequest, sends it when its time has
// come, hands over every byte, and says how it ended.
// Thread: one.
class PodGroupSearch {
 public:
  struct Next {
    TimePoint not_before{};
    Request request;
  };

  // Precondition: no exchange is open.
  Next NextRequest() const { return {not_before_, AskForSchedulingVersions()}; }

  void OnStatus(int http_status) { http_status_ = http_status; }

  // Body bytes, cut anywhere. Returns false when there are too many: OnEnd follows all the same.
  bool OnBytes(std::string_view bytes);

  // The exchange is over: cleanly (nullopt), or with a fault. Returns what was found where that is
  // news. A server that does not answer changes nothing about what is known.
  std::optional<PodGroupsFound> OnEnd(const std::optional<Fault>& fault, TimePoint now);

  // Why the last exchange was of no use, for logs. Empty: it was.
  const std::string& last_failure() const { return last_failure_; }

 private:
  Result<std::vector<std::string>> Versions(const std::optional<Fault>& fault) const;

  std::optional<PodGroupsFound> told_;  // last
  std::string last_failure_;
  TimePoint not_before_{};

  // The open exchange.
  int http_status_ = 0;
  std::string body_;
};

}  // namespace lockstep::control::kube
