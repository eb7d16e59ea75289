#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "operator/api/training_job.h"
#include "operator/controller/control_sender.h"
#include "operator/kube/request.h"
#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {

// Where batches take place; all outlive them.
struct EffectBatchParts {
  ClusterView* view = nullptr;
  kube::ApiCaller* api = nullptr;
  ControlSender* control = nullptr;
  News* news = nullptr;  // what the replies have told
};

// Carries out the effects of one decision. Each can be repeated without harm.
class EffectBatch {
 public:
  // `settings` and `effects` outlive it.
  EffectBatch(const EffectBatchParts& parts,
              const PodSettings& settings,
              TrainingJob job,
              std::string job_key,
              const std::vector<Effect>& effects);

  EffectBatch(const EffectBatch&) = delete;
  EffectBatch& operator=(const EffectBatch&) = delete;

  // Carries out all batches side by side, phase after phase: control messages first, which nobody
  // waits for; then what makes room and what pods need; then all pods, while those that have ended
  // are removed; the jobs' own removals last.
  static void RunAll(std::deque<EffectBatch>* batches, kube::ApiCaller* api);

  // One answer for each effect, after RunAll.
  const std::vector<Status>& answers() const { return answers_; }

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

  using Phase = std::vector<Call> (EffectBatch::*)();

  static void RunPhase(Phase phase, std::deque<EffectBatch>* batches, kube::ApiCaller* api);
  void Answer(std::size_t effect, Status status);
  void SendControls();
  std::vector<Call> Preparations();
  std::vector<Call> PodDeletions(bool have_ended);
  std::vector<Call> PodCreations();
  std::vector<Call> PodInspections();
  std::vector<Call> JobDeletions();

  Call JobDeletion(std::size_t effect) const;
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
  void SettleService();
  Status YieldOrRefuse(const kube::ResourceType& type,
                       const std::string& name,
                       const std::string& body);

  EffectBatchParts parts_;
  const PodSettings& settings_;
  TrainingJob job_;
  std::string job_key_;
  const std::vector<Effect>& effects_;
  std::vector<Status> answers_;
  std::optional<std::size_t> preparation_;  // which effect that is
  std::vector<std::pair<std::size_t, std::string>> existing_pods_;
  std::map<std::string, PodRefusal> refused_pods_;
  std::vector<std::string> created_pods_;
  bool has_service_ahead_ = false;  // the service's name may be another's
  bool is_service_foreign_ = false;
};

}  // namespace lockstep::control
