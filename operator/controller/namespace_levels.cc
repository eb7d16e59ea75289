#include "operator/controller/namespace_levels.h"

#include <cstddef>
#include <utility>

#include "common/json/json.h"

namespace lockstep::control {
namespace {

constexpr Duration kBelievedFor = std::chrono::minutes(1);
constexpr std::size_t kNamespacesMax = 4096;  // choice: beyond, all are asked anew

constexpr const char* kEnforceLabel = "pod-security.kubernetes.io/enforce";

// The label's value; empty when there is none.
std::string EnforcedLevel(const std::string& body) {
  const Result<Json> object = ParseJson(body);
  if (!object.ok() || !object->is_object()) {
    return "";
  }
  const Json metadata = object->value("metadata", Json::object());
  const Json labels = metadata.is_object() ? metadata.value("labels", Json()) : Json();
  const auto found = labels.is_object() ? labels.find(kEnforceLabel) : labels.end();
  return found != labels.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

PodSecurityLevel NamespaceLevels::Of(const std::string& namespace_name, TimePoint now) {
  const auto known = seen_.find(namespace_name);
  if (known != seen_.end() && now - known->second.at < kBelievedFor) {
    return known->second.level;
  }
  if (known == seen_.end() && seen_.size() >= kNamespacesMax) {
    seen_.clear();
  }
  const PodSecurityLevel level = Ask(namespace_name);
  seen_[namespace_name] = {level, now};
  return level;
}

PodSecurityLevel NamespaceLevels::Ask(const std::string& namespace_name) {
  const Result<kube::Reply> reply =
      kube::RequireSuccess(api_->Call(kube::Get(kube::kNamespaces, "", namespace_name)));
  if (!reply.ok()) {
    logger_->Debug("the namespace's Pod Security level is not known",
                   {{"namespace", namespace_name}, {"error", reply.error().ToString()}});
    return otherwise_;
  }
  const std::string level = EnforcedLevel(reply->body);
  if (level.empty()) {
    return otherwise_;
  }
  return level == "restricted" ? PodSecurityLevel::kRestricted : PodSecurityLevel::kBaseline;
}

}  // namespace lockstep::control
