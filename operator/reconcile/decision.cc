#include "operator/reconcile/decision.h"

namespace lockstep::control {
namespace {

struct Describer {
  std::string operator()(const DeletePod& effect) const {
    return "delete pod " + effect.name + " within " + std::to_string(effect.grace.count()) +
           " s: " + effect.reason;
  }

  std::string operator()(const PrepareJob& /*effect*/) const { return "prepare service and key"; }

  std::string operator()(const RenewKey& /*effect*/) const { return "renew the key"; }

  std::string operator()(const CreatePod& effect) const {
    const std::string& node = effect.pod.spec.node_name;
    return "create pod " + effect.pod.name + (node.empty() ? "" : " on node " + node);
  }

  std::string operator()(const SendControl& effect) const {
    std::string text = "tell pod " + effect.pod + ": ";
    text += ControlKindName(effect.message.kind);
    if (effect.message.kind == ControlKind::kPeerGone) {
      text += " rank " + std::to_string(effect.message.rank) + ", epoch " +
              std::to_string(effect.message.epoch.value());
    } else if (effect.message.relaunch > 0) {
      text += effect.message.kind == ControlKind::kHalt ? " for relaunch " : " ";
      text += std::to_string(effect.message.relaunch);
    }
    return text;
  }

  std::string operator()(const WriteObject& effect) const {
    const bool is_new = effect.kind == WriteObject::Kind::kCreate;
    const bool is_patch = effect.kind == WriteObject::Kind::kPatch;
    return (is_new     ? "create "
            : is_patch ? "patch "
                       : "delete ") +
           std::string(effect.resource.plural) + "/" + effect.name;
  }

  std::string operator()(const DeleteJob& /*effect*/) const { return "delete the job"; }
};

struct Phases {
  bool pod_has_ended = false;

  EffectPhase operator()(const SendControl& /*effect*/) const { return EffectPhase::kTell; }

  EffectPhase operator()(const DeletePod& /*effect*/) const {
    return pod_has_ended ? EffectPhase::kFillRoom : EffectPhase::kMakeRoom;
  }

  EffectPhase operator()(const PrepareJob& /*effect*/) const { return EffectPhase::kMakeRoom; }

  EffectPhase operator()(const RenewKey& /*effect*/) const { return EffectPhase::kFillRoom; }

  EffectPhase operator()(const CreatePod& /*effect*/) const { return EffectPhase::kFillRoom; }

  // A placeholder pod holds nothing of a node, but of its namespace's quota, and its gang goes on
  // asking for nodes for as long as it is there.
  EffectPhase operator()(const WriteObject& effect) const {
    const bool is_pod = effect.resource == kube::kPods;
    return is_pod && effect.kind == WriteObject::Kind::kDelete ? EffectPhase::kMakeRoom
                                                               : EffectPhase::kFillRoom;
  }

  EffectPhase operator()(const DeleteJob& /*effect*/) const { return EffectPhase::kLeave; }
};

}  // namespace

EffectPhase PhaseOf(const Effect& effect, bool pod_has_ended) {
  return std::visit(Phases{pod_has_ended}, effect);
}

std::string DescribeEffect(const Effect& effect) {
  return std::visit(Describer{}, effect);
}

}  // namespace lockstep::control
