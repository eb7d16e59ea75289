#include "operator/controller/errand/beyond_cure.h"

#include <string>
#include <variant>
#include <vector>

#include "common/json/json.h"

namespace lockstep::control {

bool IsRefusal(const Error& error) {
  return error.code() == ErrorCode::kResourceExhausted ||
         error.code() == ErrorCode::kInvalidArgument;
}

bool HasServerFailed(const kube::CallResult& result) {
  const auto* const fault = std::get_if<kube::Fault>(&result);
  return kube::MayHaveHappened(result) &&
         (fault == nullptr || fault->kind == kube::FaultKind::kTimeout);
}

bool IsBeyondCure(const kube::Reply& reply) {
  if (reply.status != 400 && reply.status != 422) {
    return false;
  }
  const Result<Json> status = ParseJson(reply.body);
  if (!status.ok()) {
    return false;
  }
  std::vector<Error> ignored;
  ObjectReader reader(*status, "", &ignored);
  const std::string message = reader.String("message").value_or("");
  if (reply.status == 400) {
    return message.starts_with("Pod in version \"v1\" cannot be handled as a Pod");
  }
  const Json* const details = reader.Find("details");
  if (!message.starts_with("Pod \"") || details == nullptr) {
    return false;
  }
  ObjectReader detail(*details, "details", &ignored);
  bool has_cause = false;
  for (const Json* cause : detail.List("causes")) {
    ObjectReader one(*cause, "causes", &ignored);
    const std::string field = one.String("field").value_or("");
    if (!field.starts_with("spec.") && !field.starts_with("metadata.")) {
      return false;
    }
    has_cause = true;
  }
  return has_cause;
}

}  // namespace lockstep::control
