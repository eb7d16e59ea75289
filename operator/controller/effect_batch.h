#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/api/training_job.h"
#include "operator/controller/control_sender.h"
#include "operator/controller/world.h"
#include "operator/kube/request.h"
#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// Where a batch takes place; all outlive it.
struct EffectBatchParts {
  World* world = nullptr;
  kube::ApiCaller* api = nullptr;
  ControlSender* control = nullptr;
  News* news = nullptr;  // what the replies have told
};

// Carries out the effects of one decision: control messages first, which nobody waits for; then
// what makes room and what pods need; then all pods side by side; the job's own removal last.
// Each can be repeated without harm. Lives on the stack.
class EffectBatch {
 public:
  EffectBatch(const EffectBatchParts& parts,
              const PodSettings& settings,
              const TrainingJob& job,
              std::string job_key);

  // One answer for each effect.
  std::vector<Status> Run(const std::vector<Effect>& effects);

  // Pods that the server would not create, and those that it has, by name.
  const std::map<std::string, PodRefusal>& refused_pods() const { return refused_pods_; }

  const std::vector<std::string>& created_pods() const { return created_pods_; }

  // Somebody else's service has the job's name.
  bool is_service_foreign() const { return is_service_foreign_; }

 private:
  // One request for an effect, and how its reply is read.
  struct Call {
    std::size_t effect = 0;
    kube::Request request;
    std::function<Status(kube::CallResult)> read;
  };

  void RunCalls(std::vector<Call> calls);
  void Answer(std::size_t effect, Status status);
  void SendControls(const std::vector<Effect>& effects);
  void Prepare(const std::vector<Effect>& effects);
  void CreatePods(const std::vector<Effect>& effects);
  void DeleteTheJob(const std::vector<Effect>& effects);

  Call PodDeletion(std::size_t effect, const DeletePod& removal);
  kube::Request ServiceApplication(const std::string& uid) const;
  Call ServiceRenewal(std::size_t effect, const std::string& uid);
  Call ServiceCreation(std::size_t effect);
  Call SecretCreation(std::size_t effect);
  Call PodCreation(std::size_t effect, const CreatePod& creation);
  Call PodInspection(std::size_t effect, const std::string& name);

  Status ReadService(kube::CallResult result);
  Status ReadCreatedPod(const std::string& name, kube::CallResult result);
  Status ReadExistingPod(const std::string& name, kube::CallResult result);
  // A service that was there: ours, a forgotten one of an earlier job, or somebody's.
  void SettleService(std::size_t effect);
  Status YieldOrRefuse(const kube::ResourceType& type,
                       const std::string& name,
                       const std::string& body);

  EffectBatchParts parts_;
  const PodSettings& settings_;
  const TrainingJob& job_;
  std::string job_key_;
  std::vector<Status> answers_;
  std::vector<std::pair<std::size_t, std::string>> existing_pods_;
  std::map<std::string, PodRefusal> refused_pods_;
  std::vector<std::string> created_pods_;
  bool has_service_ahead_ = false;  // the service's name may be another's
  bool is_service_foreign_ = false;
};

}  // namespace lockstep::control
