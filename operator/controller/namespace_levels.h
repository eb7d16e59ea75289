#pragma once

#include <map>
#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/kube/request.h"
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
  // `api` and `logger` outlive it.
  NamespaceLevels(PodSecurityLevel otherwise, kube::ApiCaller* api, Logger* logger)
      : otherwise_(otherwise), api_(api), logger_(logger) {}

  // May call the API server, once, and wait for it.
  PodSecurityLevel Of(const std::string& namespace_name, TimePoint now);

 private:
  struct Seen {
    PodSecurityLevel level = PodSecurityLevel::kBaseline;
    TimePoint at{};
  };

  PodSecurityLevel Ask(const std::string& namespace_name);

  PodSecurityLevel otherwise_;
  kube::ApiCaller* api_;
  Logger* logger_;
  std::map<std::string, Seen> seen_;
};

}  // namespace lockstep::control
