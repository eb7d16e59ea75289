#include "operator/controller/errand/namespace_levels.h"

#include <cstddef>
#include <utility>
#include <variant>

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

std::optional<PodSecurityLevel> NamespaceLevels::Of(const std::string& namespace_name,
                                                    TimePoint now) const {
  const auto known = seen_.find(namespace_name);
  if (known == seen_.end() || now - known->second.at >= kBelievedFor) {
    return std::nullopt;
  }
  return known->second.level;
}

PodSecurityLevel NamespaceLevels::Learn(const std::string& namespace_name,
                                        kube::CallResult read,
                                        TimePoint now) {
  const auto* const reply = std::get_if<kube::Reply>(&read);
  const bool is_answer = reply != nullptr && reply->status < 500 && reply->status != 429;
  const PodSecurityLevel level = LevelIn(namespace_name, std::move(read));
  if (!is_answer) {
    return level;
  }
  if (seen_.count(namespace_name) == 0 && seen_.size() >= kNamespacesMax) {
    seen_.clear();
  }
  seen_[namespace_name] = {level, now};
  return level;
}

PodSecurityLevel NamespaceLevels::LevelIn(const std::string& namespace_name,
                                          kube::CallResult read) const {
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(read));
  if (!reply.ok()) {
    logger_->Debug("the namespace's Pod Security level could not be read",
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
