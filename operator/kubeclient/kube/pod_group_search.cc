#include "operator/kubeclient/kube/pod_group_search.h"

#include <chrono>
#include <cstddef>
#include <utility>

namespace lockstep::control::kube {
namespace {

// Choice: after a restart of the API server, its change of versions shows within a minute.
constexpr Duration kAgainAfter = std::chrono::seconds(30);
constexpr Duration kAgainAfterFailure = std::chrono::seconds(2);
constexpr std::size_t kBodyBytesMax = 65536;  // choice: an answer has less than 1 KiB

}  // namespace

bool PodGroupSearch::OnBytes(std::string_view bytes) {
  body_ += bytes.substr(0, kBodyBytesMax - body_.size());
  return body_.size() < kBodyBytesMax;
}

Result<std::vector<std::string>> PodGroupSearch::Versions(const std::optional<Fault>& fault) const {
  if (http_status_ == kHttpNotFound) {
    return std::vector<std::string>();  // it does not know the group at all
  }
  if (http_status_ != 0 && (http_status_ < 200 || http_status_ >= 300)) {
    return ToError(Reply{http_status_, body_, std::nullopt});
  }
  if (fault || http_status_ == 0) {
    return ToError(fault.value_or(Fault{FaultKind::kReset, true, "no answer"}));
  }
  return ReadServedVersions(body_);
}

std::optional<PodGroupsFound> PodGroupSearch::OnEnd(const std::optional<Fault>& fault,
                                                    TimePoint now) {
  const Result<std::vector<std::string>> served = Versions(fault);
  http_status_ = 0;
  body_.clear();
  last_failure_ = served.ok() ? "" : served.error().ToString();
  not_before_ = now + (served.ok() ? kAgainAfter : kAgainAfterFailure);
  PodGroupsFound found;
  if (served.ok()) {
    found.version = ChoosePodGroups(*served, told_ ? told_->version : std::nullopt);
  } else if (told_ && told_->trouble.empty()) {
    return std::nullopt;
  } else {
    found.trouble = last_failure_;
  }
  if (told_ == found) {
    return std::nullopt;
  }
  told_ = found;
  return found;
}

}  // namespace lockstep::control::kube
