#pragma once

#include <string>
#include <vector>

#include "operator/api/job/training_job.h"
#include "operator/reconcile/decide.h"

namespace lockstep::control {

// For tests: jobs, and a cluster so simple that its every move is written in the test.

// A job of the built-in trainer named "mnist" with uid "uid-1" and `workers` workers.
TrainingJob MakeTrainingJob(int workers);

// A job with the same name whose workers run "python3 train.py".
TrainingJob MakeCommandJob(int workers);

// Adds a role with one container that asks for nothing.
void AddRole(Role role, int replicas, TrainingJob* job);

// One job and the pods it was given. Pods start when told, are deleted at once unless they run, and
// running ones stay, marked, until Vanish or Exit.
class TestWorld {
 public:
  explicit TestWorld(TrainingJob new_job);

  // One turn: decides, stores the status, carries out the effects.
  Decision Step();

  // Another node, as large as the first, "node-a".
  void AddNode(const std::string& name);

  // To be changed.
  std::vector<kube::Node>& nodes() { return observed.nodes.Edit(); }

  // All pending pods run.
  void RunAll();

  // Step, RunAll, Step: a gang that runs.
  void Launch();

  // The pod's process ends, as a kubelet reports it: a `code` above 128 is a signal.
  void Exit(const std::string& pod, int code, const std::string& reason = "");

  // The pod's program gives up, with these last words.
  void GiveUp(const std::string& pod,
              const std::string& words,
              const std::vector<int>& left_ranks = {});

  // The pod object is gone, whatever its process did.
  void Vanish(const std::string& pod);

  // Deleted pods end and disappear.
  void FinishDeletions();

  void Advance(Duration step);

  // Gives every running rank a fresh report in which all peers are connected.
  void ReportAll();

  // The same of programs that have joined their peers by liblockstep.
  void ReportMeeting();

  kube::Pod* Find(const std::string& pod);

  // Names of pods that are there, with a '-' suffix while they are being deleted: "a b- c".
  std::string Pods() const;

  TrainingJob job;
  Observed observed;
  WallTime now{std::chrono::seconds(1'000'000)};

 private:
  void Apply(const Effect& effect);

  int next_uid_ = 1;
};

// The effects as text, one to a line.
std::string DescribeEffects(const Decision& decision);

// The events' reasons, separated by blanks.
std::string EventReasons(const Decision& decision);

// "cause=count ..." as the status has them.
std::string DescribeRestarts(const TrainingJobStatus& status);

// The types of the conditions that are true, separated by blanks.
std::string TrueConditions(const TrainingJobStatus& status);

// The reason and the message of the condition; empty when it was never set.
std::string ReasonOf(const TrainingJobStatus& status, ConditionType type);
std::string MessageOf(const TrainingJobStatus& status, ConditionType type);

}  // namespace lockstep::control
