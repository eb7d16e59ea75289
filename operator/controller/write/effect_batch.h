#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/api/job/training_job.h"
#include "operator/controller/errand/cluster_notes.h"
#include "operator/controller/errand/errand.h"
#include "operator/controller/errand/namespace_levels.h"
#include "operator/controller/write/control_sender.h"
#include "operator/controller/write/object_write.h"
#include "operator/kubeclient/kube/request.h"
#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {

// Where batches take place; all outlive them.
struct EffectBatchParts {
  ClusterView* view = nullptr;
  ClusterNotes* notes = nullptr;
  ControlSender* control = nullptr;
  const PodSettings* settings = nullptr;
  NamespaceLevels* levels = nullptr;
  TimePoint now{};
};

// Carries out the effects of one decision, phase after phase (decision.h). Each can be repeated
// without harm, and each may outlast our lease: names of pods and uids are those of the decision.
class EffectBatch final : public Errand {
 public:
  // `job` and `effects` outlive it.
  EffectBatch(const EffectBatchParts& parts,
              const TrainingJob& job,
              std::string job_key,
              const std::vector<Effect>& effects);

  EffectBatch(const EffectBatch&) = delete;
  EffectBatch& operator=(const EffectBatch&) = delete;

  std::vector<ErrandCall> Next() override;

  std::vector<Status> TakeAnswers() override { return answers_; }

 private:
  using Make = std::function<std::optional<kube::Request>()>;
  using Read = std::function<Status(kube::CallResult)>;

  // A call for an effect, whose answer is what `read` makes of the reply.
  ErrandCall CallFor(std::size_t effect, Make make, Read read);
  void Answer(std::size_t effect, Status status);
  std::vector<ErrandCall> CallsOf(EffectPhase phase);
  bool HasEndedPod(const DeletePod& removal) const;
  void Tell(const SendControl& send);
  void Prepare(std::size_t effect, std::vector<ErrandCall>* calls);
  void Create(std::size_t effect, const CreatePod& creation, std::vector<ErrandCall>* calls);

  bool MakesPods() const;
  bool IsWanted() const;
  void LearnLevel(std::vector<ErrandCall>* calls);
  ErrandCall JobDeletion(std::size_t effect);
  ErrandCall ObjectWrite(std::size_t effect, const WriteObject& write);
  ErrandCall ObjectInspection(std::size_t effect, const WriteObject& write);
  ErrandCall PodDeletion(std::size_t effect, const DeletePod& removal);
  ErrandCall ServiceApplication(std::size_t effect, const std::string& uid, Read read);
  ErrandCall ServiceRenewal(std::size_t effect, const std::string& uid);
  ErrandCall ServiceCreation(std::size_t effect);
  ErrandCall ServiceInspection(std::size_t effect);
  ErrandCall SecretCreation(std::size_t effect);
  ErrandCall PodCreation(std::size_t effect, const kube::Pod& pod);
  ErrandCall PodInspection(std::size_t effect, const std::string& name);

  Status ReadObject(std::size_t effect,
                    const WriteObject& write,
                    const Status& answer,
                    const std::optional<SpoiltPod>& spoilt);
  Status ReadService(kube::CallResult result);
  Status ReadServiceInTheWay(std::size_t effect,
                             const std::string& known_uid,
                             kube::CallResult result);
  Status ReadCreatedPod(const kube::Pod& made, kube::CallResult result);
  Status ReadExistingPod(std::size_t effect, const std::string& name, kube::CallResult result);
  void LearnPod(const kube::Item<kube::Pod>& pod);

  EffectBatchParts parts_;
  const TrainingJob& job_;
  const JobId key_;
  const std::string job_key_;
  const std::vector<Effect>& effects_;
  PodSettings settings_;  // with the level that the namespace enforces
  std::vector<Status> answers_;
  std::optional<std::size_t> preparation_;  // which effect that is
  std::vector<ErrandCall> follow_ups_;      // what replies of this phase make necessary
  std::size_t phases_begun_ = 0;
  int64_t lists_seen_ = 0;           // by the view, when the present round began
  bool has_server_failed_ = false;   // over what the pods need
  bool is_service_foreign_ = false;  // somebody else's has the job's name
};

}  // namespace lockstep::control
