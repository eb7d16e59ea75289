#include "operator/cmd/rights_probe.h"

#include <utility>
#include <variant>

namespace lockstep::control {
namespace {

constexpr int kUnauthorized = 401;
constexpr int kForbidden = 403;

bool IsForbidden(const kube::CallResult& answer) {
  const auto* const reply = std::get_if<kube::Reply>(&answer);
  return reply != nullptr && (reply->status == kUnauthorized || reply->status == kForbidden);
}

}  // namespace

std::vector<kube::Request> ProbeRights(const std::string& where) {
  kube::ListOptions one;
  one.limit = 1;  // what is there does not matter
  return {kube::List({kube::kTrainingJobs, where, "", ""}, one),
          kube::List({kube::kPods, "", "", ""}, one),
          kube::List({kube::kNodes, "", "", ""}, one),
          kube::List({kube::kServices, where, "", ""}, one),
          kube::List({kube::kTrainingQueues, "", "", ""}, one)};
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
