#include "operator/cmd/rights_probe.h"

#include <cstddef>
#include <utility>
#include <variant>

namespace lockstep::control {
namespace {

constexpr std::size_t kNamespacesMax = 64;  // choice: a look stays a small burst

bool IsForbidden(const kube::CallResult& answer) {
  const auto* const reply = std::get_if<kube::Reply>(&answer);
  return reply != nullptr &&
         (reply->status == kube::kHttpUnauthorized || reply->status == kube::kHttpForbidden);
}

}  // namespace

std::vector<kube::Request> ProbeRights(const std::string& where) {
  kube::ListOptions one;
  one.limit = 1;  // what is there does not matter
  return {kube::List({kube::kTrainingJobs, where, "", ""}, one),
          kube::List({kube::kPods, "", "", ""}, one),
          kube::List({kube::kNodes, "", "", ""}, one),
          kube::List({kube::kServices, where, "", ""}, one),
          kube::List({kube::kTrainingQueues, "", "", ""}, one),
          kube::List({kube::kPriorityClasses, "", "", ""}, one)};
}

std::vector<kube::Request> ProbeNamespaces(const std::vector<std::string>& namespaces) {
  std::vector<kube::Request> requests;
  for (const std::string& name : namespaces) {
    if (requests.size() == kNamespacesMax) {
      break;
    }
    requests.push_back(kube::Get(kube::kTrainingJobs, name, "lockstep-asks-for-its-rights"));
  }
  return requests;
}

Status JudgeRights(std::vector<kube::CallResult> answers) {
  Status judgement = OkStatus();
  for (kube::CallResult& answer : answers) {
    if (IsForbidden(answer)) {
      return kube::RequireSuccess(std::move(answer)).error();
    }
    if (!std::holds_alternative<kube::Reply>(answer)) {
      judgement = Error(ErrorCode::kUnavailable, "the API server does not answer");
    }
  }
  return judgement;
}

}  // namespace lockstep::control
