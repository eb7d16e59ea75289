#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "tests/sim/autoscaler.h"
#include "tests/sim/checks.h"
#include "tests/sim/nodes.h"
#include "tests/sim/processes.h"
#include "tests/sim/sim_operator.h"

namespace lockstep::control::sim {

// What many seeds came to, together.
struct Tally {
  int64_t writes = 0;
  int64_t restarts = 0;
  int64_t rollbacks = 0;
  int64_t operator_deaths = 0;
  int64_t succeeded = 0;
  int64_t failed = 0;
  int64_t replayed_rounds = 0;
  int64_t work_max = 0;                  // bytes that one step took from the heap
  std::map<std::string, int64_t> moves;  // by name

  Tally& operator+=(const Tally& other);
};

// One seed: a cluster, a few jobs, two operators; a time of faults, then a time of peace in which
// everything must come to its end.
class Simulation {
 public:
  // `lets_bad_users`: in every fifth seed users write manifests that are large, unreadable, or ask
  // for what no node has.
  Simulation(uint64_t seed, bool lets_bad_users, std::function<void(const std::string&)> trace);

  // Makes what hears of the rounds of the operator of that identity.
  using MakeRecorder = std::function<std::unique_ptr<StateRecorder>(const std::string& identity)>;

  void RecordRounds(MakeRecorder make) { make_recorder_ = std::move(make); }

  const SimContext& context() const { return context_; }

  // Returns the first broken promise; empty when all held.
  std::string Run(Tally* tally);

 private:
  // A move of the adversary, once in `odds` ticks.
  struct Odds {
    uint64_t odds;
    void (Simulation::*move)();
  };

  // What a user runs again and again, for about as long each time.
  struct Recipe {
    std::string name;
    TrainingJob job;
    int64_t steps = 0;
  };

  void CreateShares();
  void LimitRunTimes();
  void LimitDefaultQueue();
  void MakeRecipes();
  void EditLimit();
  void GiveShare(TrainingJob* job);
  void CreateJobs();
  void CreateJob(const std::string& name);
  void CreateJob(const std::string& name, int workers, int64_t gpus);
  void CreateRegularJob(const std::string& name);
  void CreateLongTraining(TrainingJob job, int64_t gpus, int64_t steps);
  std::string Submit(TrainingJob job, const std::string& recipe);
  void ForgetOldest();
  void LetUsersGoOn();
  void MakeAQueue();
  void Tick();
  void Interlude();
  void Adversary();
  void Settle(const std::string& what, Duration within, const std::function<bool()>& is_done);
  bool AllEnded();
  bool IsClean() const;
  bool IsQuiet();
  std::string Describe() const;
  void KeepOperatorsAlive();
  void MakePeace();

  // Moves of the adversary.
  void KillProcess();
  void FreezeProcess();
  void LoseNode();
  void ReturnNode();
  void RemoveNode();
  void TogglePlugin();
  void Cordon();
  void DeletePod();
  void TouchService();
  void Suspend();
  void DeleteJob();
  void AddForeignPod();
  void ChangeQuota();
  void ForgetHistory();
  void BreakImage();
  void FreezeOperator();
  void StopOperator();
  void CrashOperator();
  void Outage();
  void CollectGarbage();
  void TakeName();
  void FreeNames();
  void LagBehind();
  void StepClock();
  void DeleteNamespace();
  void CrashAutoscaler();
  void TakeNameOfAsk();
  void RemoveAsked();
  void EditAsked();
  void DrainNode();
  void DrainFirstRank();
  void EditManifest();
  void MoveToOtherShare(const ObjectPtr& job);
  void SetWebhook();
  void HoldPod();
  void LetPodsGo();
  void SetNodeTemper();
  void SetLimitRange();
  void ClonePod();
  void WriteFutureStatus();

  // Of bad users, and what becomes of it in peace.
  void RunBadUsers();
  void WriteUnreadable();
  void MendManifests();
  void CreateHugeJob();
  void AddManyNodes();
  void RemoveManyNodes();
  void ServeQuota(const Quota& quota);
  void DropQuota();
  void ChangeServedQuota();
  void TakeLabelAway();
  void ReturnLabel();
  void CreateCrowd();
  void CreateFairQueues();
  void LeaveBadUsers();
  void PrepareLosses();
  void LosePodBesideQuota();
  void KeepQuotaFull();
  void MendBadUsers();

  // What goes on in peace.
  void LeaveSomethingBroken();
  void BreakProgram();
  void RunProgramBreaks();
  void RunAdministrator();
  std::string NodeToStartAnew(const ObjectPtr& job);

  void Evict(const ObjectPtr& pod, int act);
  void EvictAll(const std::string& node);

  std::string RandomNode();
  ObjectPtr RandomPod(bool is_ours);
  ObjectPtr RandomJob();
  ObjectPtr JobThatClaims();
  void NoteDeaths();
  void NoteLoss(const std::string& node);

  static constexpr int kGpusOfNode = 4;

  SimContext context_;
  bool is_over_ = false;     // users start nothing any more
  bool keeps_time_ = false;  // all calendars go on evenly, and some jobs have deadlines
  ApiServer server_;
  Processes processes_;
  Nodes nodes_;
  Autoscaler autoscaler_;
  std::unique_ptr<Logger> logger_;
  MakeRecorder make_recorder_ = [](const std::string&) { return nullptr; };
  Checks checks_;
  std::map<int, std::unique_ptr<SimOperator>> operators_;
  std::map<int, TimePoint> starts_at_;  // of operators that have died
  int next_identity_ = 1;
  int next_name_ = 1;
  int depth_ = 0;
  int64_t deaths_ = 0;
  int64_t first_version_ = 0;  // of the API server, when all nodes were there
  TimePoint outage_until_{};
  std::vector<std::pair<kube::ResourceType, std::string>> taken_names_;
  int next_edition_ = 1;
  std::vector<Recipe> recipes_;             // where operators learn how long programs run
  std::vector<std::string> crowd_;          // nodes that are there for a moment
  std::string unlabelled_;                  // the node that lost the label of its rack
  std::string long_training_;               // uid of the job that bad users made last to go on
  bool is_quota_full_ = false;              // for that job, whoever else comes or goes
  void (Simulation::*loss_)() = nullptr;    // in peace: what is yet to be done to that job
  bool is_crowd_due_ = false;               // in peace: jobs of two queues are yet to come at once
  bool has_large_jobs_ = false;             // for which an autoscaler has to add nodes
  std::map<std::string, int> breaks_left_;  // by job uid: times that its program is yet to break
  std::map<std::string, TimePoint> stuck_since_;  // by job uid
};

}  // namespace lockstep::control::sim
