#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "common/contract/environment/topology.h"
#include "operator/api/job/training_job.h"
#include "tests/sim/checks.h"

namespace lockstep::control::sim {

// For tests of the checks: two nodes, jobs, and pods of the job "j", of which nothing moves by
// itself. Statuses are whatever a test says that an operator wrote.
class SmallWorld {
 public:
  // The job is called "j".
  explicit SmallWorld(TrainingJob job);

  // Another one, a second younger.
  void CreateJob(const std::string& name, TrainingJob job);

  // An operator writes the status of the job, or of "j".
  void Write(const std::string& name, const std::function<void(TrainingJobStatus*)>& change);

  void Write(const std::function<void(TrainingJobStatus*)>& change) { Write("j", change); }

  // A running pod of a worker of "j". Its name, which is its uid as well.
  std::string AddPod(int index, PodNumber number, const std::string& node);

  void EditPod(const std::string& name, const std::function<void(Json*)>& change);

  // An operator makes a request, or a template, by which "j" asks for room.
  void Ask(const kube::ResourceType& type, const std::string& name, const std::string& revision);

  // Somebody edits it.
  void EditAsked(const kube::ResourceType& type, const std::string& name);

  // It is removed.
  void TakeBack(const kube::ResourceType& type, const std::string& name);

  // Somebody deletes the pod, and it does not end.
  void AskToGo(const std::string& name);

  void SetPhase(const std::string& name, const std::string& phase);

  // The server tells an operator of the pod.
  void ReadPod(const std::string& name);

  // The checks look at the world that has come of it.
  void SetNodeReady(const std::string& name, bool is_ready);

  // A pod of somebody else, on the node.
  void AddForeignPod(const std::string& name, const std::string& node, int gpus);

  // The process of a pod of worker 0.
  void StartProcess(const std::string& pod, const std::string& node);

  void BeAtPeace();

  Casualties* casualties() { return checks.casualties(); }

  SimContext context{1};

 private:
  void PutPod(const std::string& name, Json pod);

  ApiServer server_;
  Nodes nodes_{&context, &server_, &processes};

 public:
  Processes processes{&context};
  Checks checks{&context, &server_, &nodes_, &processes};
};

// In the status: worker `index` has its place and its pod; it is replaced for that cause; one more
// incident is counted.
void Place(int index, const std::string& node, const std::string& pod, TrainingJobStatus* status);
void Replace(std::size_t index, const std::string& cause, TrainingJobStatus* status);
void CountIncident(const std::string& cause, TrainingJobStatus* status);

// What was said of the world, against what was to be: `verdict` is the end of the broken promise,
// empty where all are kept.
void ExpectVerdict(const SmallWorld& world, const std::string& verdict, const std::string& what);

}  // namespace lockstep::control::sim
