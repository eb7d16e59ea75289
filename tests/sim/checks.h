#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/job/training_job.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "tests/sim/api_server.h"
#include "tests/sim/casualties.h"
#include "tests/sim/check_capacity.h"
#include "tests/sim/decoded.h"
#include "tests/sim/gang_reader.h"
#include "tests/sim/nodes.h"
#include "tests/sim/sim_context.h"

namespace lockstep::control::sim {

// The job as the API server has it. Precondition (checked): it can be read.
TrainingJob DecodeJob(const Json& object);

// What the pods of a role ask for, by the job's manifest.
Amounts RequestsOfRole(const Json& job, Role name);

Labels LabelsOf(const Json& pod);

// As broken promises call it.
std::string NameOf(const TrainingJob& job);

// Calendars of operators differ from the server's by two seconds.
inline constexpr std::chrono::seconds kCalendarError{5};

// What a status says may have been decided so long before it was written: a slow call, and
// calendars that differ.
inline constexpr std::chrono::seconds kDecisionError{50};

// Views of the cluster lag: what has changed within this time is no reason for blame. Choice:
// watches of a cluster at peace are told within a second or two.
inline constexpr std::chrono::seconds kViewLag{15};

// What a user runs again and again, as users of the simulation say in the label.
inline constexpr const char* kRecipeLabel = "example.com/recipe";

// What must always hold, whatever happens. Keeps the first promise that was broken.
class Checks {
 public:
  Checks(SimContext* context,
         const ApiServer* server,
         const Nodes* nodes,
         const Processes* processes)
      : context_(context),
        server_(server),
        nodes_(nodes),
        processes_(processes),
        capacity_(context, server, [this](bool holds, const std::string& what) {
          Require(holds, what);
        }) {}

  // A status write of the operator was accepted: null `before` is a status that was never written.
  void OnStatusWrite(const ObjectPtr& before, const ObjectPtr& after);

  // The operator has changed or removed an object other than a job: null `after` is a removal.
  void OnWrite(const ObjectPtr& before, const ObjectPtr& after);

  // The operator has made an object.
  void OnCreated(const kube::ResourceType& type, const Json& object) {
    capacity_.OnCreated(type, object);
  }

  // Of what autoscalers are asked.
  CapacityChecks* capacity() { return &capacity_; }

  // The server has answered the operator's question for one pod; null: there is none.
  void OnPodRead(const ObjectPtr& pod);

  // Whether jobs that wait say where they stand in their queues, as it is when nothing happens.
  bool ArePositionsRight() const;

  // What has happened to pods: restarts may be counted for it.
  Casualties* casualties() { return &casualties_; }

  // Looks at everything.
  void CheckWorld();

  // The job that the object is, as the checks read it; see DecodedCache for how long it lasts.
  const TrainingJob& JobOf(const ObjectPtr& object) const { return jobs_.Of(object); }

  // Something else that must hold.
  void Require(bool holds, const std::string& what);

  // Empty while all promises hold.
  const std::string& problem() const { return problem_; }

  int64_t status_writes() const { return status_writes_; }

  int64_t restarts() const { return restarts_; }

  int64_t rollbacks() const { return rollbacks_; }

 private:
  // A gang that has left its places, or some of its workers, which are done.
  struct Departure {
    TimePoint at{};
    ObjectPtr job;   // as it was before
    ObjectPtr rest;  // as it is since, where some of its workers stay
  };

  // What is promised to the first of the queue.
  struct Turn {
    std::string of;  // which gang of which job
    TimePoint since{};
    WallTime due{};                 // those that may be stopped have been
    std::set<std::string> endless;  // others that ran then, and still do
  };

  // How long a job has had its places since it was resumed, and whether it has them.
  struct Holding {
    Duration held{};
    std::optional<TimePoint> since;
  };

  void CheckProgress(const TrainingJob& before, const TrainingJob& after);
  void CheckCounts(const TrainingJob& before, const TrainingJob& after);
  void CheckPlan(const TrainingJob& before, const TrainingJob& after);
  void CheckPauses(const TrainingJob& before, const TrainingJob& after);
  void CheckEnds(const TrainingJob& before, const ObjectPtr& after_object);
  void CheckSuccess(const TrainingJob& job);
  void CheckFailure(const ObjectPtr& object);
  void CheckBudget(const TrainingJob& before, const ObjectPtr& after_object);
  void CheckFuture(const Json& before, const Json& after);
  void CheckPreemption(const ObjectPtr& before_object, const ObjectPtr& after_object);
  void CheckRoomIsFree(const TrainingJob& placed);
  void CheckRoomIsKept(const ObjectPtr& placed_object);
  bool HasPlaces(const ClaimedGang& gang) const;
  bool IsKept(const ObjectPtr& claimant) const;
  bool MayBeTakenOver(const TrainingJob& claimant) const;
  std::map<std::string, Amounts> HeldBeside(const TrainingJob& claimant, const TrainingJob& placed);
  void CheckReclaim(const TrainingJob& claimant);
  void CheckPriorities(const TrainingJob& claimant);
  void NoteShareOf(const TrainingJob& before, const TrainingJob& after);
  SchedulingSpec ShareOf(const TrainingJob& job) const;
  void NoteShares();
  TimePoint OldestView() const;
  void CheckTurns(const ObjectPtr& before_object, const ObjectPtr& after_object);
  bool MayGoFirst(const Json& older, const Json& placed) const;
  bool StandsInLine(const Json& job) const;
  bool MayAllPass() const;
  bool HasJustLeft(const Json& older) const;
  void NoteDeparture(const ObjectPtr& before, const ObjectPtr& after);
  AmountsByNode RoomForJobs() const;
  AmountsByNode RoomBeside(const Json& older) const;
  void NoteRun(const Json& before, const Json& after);
  std::optional<WallTime> StopOf(const Json& job) const;
  std::optional<WallTime> LearntEndOf(const Json& job) const;
  std::optional<WallTime> LatestStart(const Json& older,
                                      const std::vector<ObjectPtr>& holders) const;
  std::optional<WallTime> LastExpected(const Json& older,
                                       const std::vector<ObjectPtr>& holders,
                                       const Json* stays) const;
  bool MayPass(const Json& older, const ObjectPtr& placed) const;
  bool EndsInTime(const Json& older, const ObjectPtr& placed) const;
  bool EndsInTimeBeside(std::vector<ObjectPtr> holders,
                        const Json& older,
                        const ObjectPtr& placed,
                        bool is_past) const;
  std::vector<ObjectPtr> HoldersBefore(std::size_t departure, const Json& placed) const;
  ObjectPtr FirstInLine() const;
  void CheckStarvation();
  void CheckAsksForRoom(const Json& job);
  void NoteCluster();
  void NotePlacing(const TrainingJob& job);
  void CheckQueue(const Json& job);
  void NoteLimits();
  bool WasStoppedByQueue(const Json& job);
  void CheckHolding(const Json& job);
  void CheckServedQueue(const TrainingJob& before, const ObjectPtr& after_object);
  void CheckQuotas();
  void CheckServer(const TrainingJob& before, const ObjectPtr& after_object);
  void CheckFairTurn(const TrainingJob& before, const ObjectPtr& after_object);
  bool IsAnyPodLeaving() const;
  void CheckLimitEndsPods(const Json& job);
  void CheckDeadGiveWay(const ObjectPtr& job);
  void CheckReasons(const Json& job);
  void CheckRackHasNoRoom(const Json& job);
  bool MayRun(const ObjectPtr& object, const PodPlacement& placement);
  Duration Lasts(const std::string& what, bool is_so);
  void CheckReady(const Json& job, const std::vector<ObjectPtr>& pods);
  void CheckPods(const ObjectPtr& job_object);
  void CheckPartialGang(const TrainingJob& job, std::size_t bound, std::size_t left_over);
  bool HasLosses(const TrainingJobStatus& status) const;
  ObjectPtr PodAt(const TrainingJob& job, const PodPlacement& placement) const;
  bool HasSuffered(const std::string& pod_uid) const;
  bool IsNodeGood(const std::string& name) const;
  bool MaySeemLost(const std::string& node) const;
  bool MaySeemPending(const Json& pod) const;
  void NoteGivenUp(const TrainingJob& before, const TrainingJob& after);

  SimContext* context_;
  const ApiServer* server_;
  const Nodes* nodes_;
  const Processes* processes_;
  std::string problem_;
  Casualties casualties_;
  std::map<std::string, TimePoint> partial_since_;  // by job uid
  std::map<std::string, TimePoint> waiting_since_;  // by job uid: for a gang that runs
  std::map<std::string, TimePoint> placed_since_;   // by job uid: the first gang since a resume
  std::map<std::string, Duration> placed_before_;   // by job uid: until its last suspension
  // By queue: how long it lets jobs run, in seconds, since when; null: for ever.
  std::map<std::string, std::map<TimePoint, std::optional<int64_t>>> limits_;
  std::map<std::string, Holding> holding_;  // by job uid
  // By job uid, of all its pods by uid: since when they are about to go, or gone.
  std::map<std::string, std::map<std::string, std::optional<TimePoint>>> leaving_since_;
  std::map<std::string, TimePoint> unready_at_;  // by node: when it was last seen not to report
  std::map<std::string, TimePoint> read_pending_at_;  // by uid: pods that did not run by then
  std::set<std::string> given_up_;  // uids of pods that were asked to go where nobody answered
  std::set<std::pair<std::string, Attempt>> claimed_;  // gangs, by job uid, that were asked to go
  std::set<std::pair<std::string, Attempt>> gone_;     // those that did go for another
  std::map<std::string, TimePoint> claimed_at_;        // by job uid
  // By job uid: what the manifest said when its gang got its places.
  std::map<std::string, SchedulingSpec> placed_by_;
  std::map<std::string, std::map<TimePoint, int64_t>> gpus_held_;  // by queue, in thousandths
  std::string cluster_seen_;                                       // nodes and pods of others
  TimePoint cluster_since_{};
  std::string pods_seen_;  // of jobs
  TimePoint pods_since_{};
  TimePoint pod_left_at_{};            // when one was last seen that was about to, of fair queues
  std::vector<Departure> departures_;  // of late
  std::map<std::string, TimePoint> pause_left_at_;  // by uid, of gangs that were rolled back
  std::map<std::string, std::vector<std::chrono::milliseconds>> runs_;  // by recipe
  std::map<std::string, WallTime> placed_at_;                           // by job uid: its gang
  std::optional<Turn> turn_;
  std::map<std::string, TimePoint> unreadable_at_;  // by job uid: when it was last seen to be
  std::map<std::string, TimePoint> lasts_since_;    // what is so and should not be for long
  CapacityChecks capacity_;
  int64_t status_writes_ = 0;
  int64_t restarts_ = 0;
  int64_t rollbacks_ = 0;
  int64_t checked_version_ = -1;
  TimePoint checked_at_{};
  mutable DecodedCache<TrainingJob> jobs_{DecodeJob};
};

}  // namespace lockstep::control::sim
