#include "operator/reconcile/decision.h"

namespace lockstep::control {
namespace {

struct Describer {
  std::string operator()(const DeletePod& effect) const {
    return "delete pod " + effect.name + " within " + std::to_string(effect.grace.count()) +
           " s: " + effect.reason;
  }

  std::string operator()(const PrepareJob& /*effect*/) const { return "prepare service and key"; }

  std::string operator()(const CreatePod& effect) const {
    return "create pod " + effect.pod.name + " on node " + effect.pod.spec.node_name;
  }

  std::string operator()(const SendControl& effect) const {
    std::string text = "tell pod " + effect.pod + ": ";
    text += ControlKindName(effect.message.kind);
    if (effect.message.kind == ControlKind::kPeerGone) {
      text += " rank " + std::to_string(effect.message.rank) + ", epoch " +
              std::to_string(effect.message.epoch.value());
    }
    return text;
  }

  std::string operator()(const DeleteJob& /*effect*/) const { return "delete the job"; }
};

}  // namespace

std::string DescribeEffect(const Effect& effect) {
  return std::visit(Describer{}, effect);
}

}  // namespace lockstep::control
