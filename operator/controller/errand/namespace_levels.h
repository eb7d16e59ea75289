#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/kubeclient/kube/request.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// Which Pod Security level the namespaces of jobs enforce: their label
// pod-security.kubernetes.io/enforce. It is asked for when pods are about to be created, and
// believed for a minute: a watch would be a right to see all namespaces, for a word that hardly
// ever changes.
// Thread: one, the controller's.
class NamespaceLevels {
 public:
  // `otherwise` is the level of namespaces without the label, and of those that cannot be read.
  // `logger` outlives it.
  NamespaceLevels(PodSecurityLevel otherwise, Logger* logger)
      : otherwise_(otherwise), logger_(logger) {}

  // Null: the namespace has to be read, and Learn told of it.
  std::optional<PodSecurityLevel> Of(const std::string& namespace_name, TimePoint now) const;

  // Returns the level. What a failure has hidden is asked for again.
  PodSecurityLevel Learn(const std::string& namespace_name, kube::CallResult read, TimePoint now);

 private:
  struct Seen {
    PodSecurityLevel level = PodSecurityLevel::kBaseline;
    TimePoint at{};
  };

  PodSecurityLevel LevelIn(const std::string& namespace_name, kube::CallResult read) const;

  PodSecurityLevel otherwise_;
  Logger* logger_;
  std::map<std::string, Seen> seen_;
};

}  // namespace lockstep::control
