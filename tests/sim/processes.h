#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/contract/environment/environment.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/status_document.h"
#include "common/json/json.h"
#include "tests/sim/sim_context.h"

namespace lockstep::control::sim {

// How a container's process ended.
struct ProcessEnd {
  int code = 0;  // 128 + signal when a signal ended it
  std::string reason;
  std::string message = "";  // the process's last words
};

// The processes of all trainer containers, wherever they run: they meet, train in step, notice each
// other's ends, and stop when told. Ranks that freeze or cannot be reached are noticed as silent.
// A much simplified trainer-runtime; what it promises the operator is the contract's.
class Processes {
 public:
  explicit Processes(SimContext* context) : context_(context) {}

  // A connection to a peer, or what is left of it.
  struct Link {
    Incarnation incarnation;
    bool is_lost = false;
    std::optional<TimePoint> silent_since;
  };

  // What one process is.
  struct Process {
    std::string pod_uid;
    std::string node;
    WorkerEnvironment environment;
    bool is_training = false;  // the built-in trainer; else a command under the supervisor
    bool is_frozen = false;    // alive, and deaf and dumb
    std::optional<ProcessEnd> end;
    std::optional<TimePoint> stop_by;  // asked to end; killed then
    // Of a command: its program has ended so, and its pod waits for a relaunch. Code 0: halted.
    std::optional<ProcessEnd> held;
    TimePoint held_since{};
    int64_t relaunches = 0;
    Epoch epoch;
    Phase phase = Phase::kStarting;
    TimePoint phase_since{};
    int64_t step = 0;
    int64_t control_counter = 0;
    std::map<int, Link> links;                   // to the newest incarnation of each peer
    std::map<int, Incarnation> members;          // of the running epoch, by rank
    std::set<std::pair<int, Incarnation>> gone;  // known to be
    std::set<int> finished;                      // ranks that have done their part
  };

  // Starts the process of a pod as its container says. Errors: the environment is not what the
  // contract says.
  Status Start(const std::string& pod_uid, const std::string& node, const Json& container);

  // SIGTERM now, SIGKILL after `grace`.
  void Stop(const std::string& pod_uid, Duration grace);
  void End(const std::string& pod_uid, ProcessEnd end);

  // The program ends, and its pod with it unless that holds the end.
  void Fail(const std::string& pod_uid, ProcessEnd end);
  void Freeze(const std::string& pod_uid);

  // Wakes those that nobody can miss: commands, and ranks without a peer that is awake.
  void ThawUnmissed();

  // Forgets an ended process.
  void Forget(const std::string& pod_uid) { processes_.erase(pod_uid); }

  // Whether the rank has done all its work in that attempt of the job.
  bool HasFinished(const std::string& job_uid, Attempt attempt, int rank) const {
    return finished_.count({job_uid, attempt, rank}) > 0;
  }

  // Null when there is none.
  const Process* Find(const std::string& pod_uid) const;

  const std::map<std::string, Process>& all() const { return processes_; }

  // A moment passes: meetings, steps, ends.
  void Run();

  // What GET /status of the pod answers; null when nobody answers.
  std::optional<StatusDocument> Report(const std::string& pod_uid) const;

  // Whether nobody listens at the pod's port any more, and one can tell from outside.
  bool IsClosed(const std::string& pod_uid) const;

  // POST /control.
  void Receive(const std::string& pod_uid, const ControlMessage& message);

  // Nodes that nothing reaches, and that reach nothing.
  std::set<std::string> cut_off;
  int64_t steps_total = 200;
  std::map<std::string, int64_t> steps_by_job;  // by uid, of jobs that have another number
  // Programs that were started beside peers of before: they would talk to each other.
  std::vector<std::string> mixed;

 private:
  bool IsAlive(const Process& process) const { return !process.end.has_value(); }

  bool CanHear(const Process& a, const Process& b) const;
  int64_t StepsOf(const Process& process) const;
  void Enter(Process* process, Phase phase);
  void RunOne(Process* process);
  void Listen(Process* process);
  void RunTraining(Process* process);
  void RunCommand(Process* process);
  void RunHeld(Process* process);
  void Hear(Process* process, const ControlMessage& message);
  void Meet(Process* process);
  void Finish(Process* process);
  void Train(Process* process);
  std::vector<Process*> PeersOf(const Process& process);

  SimContext* context_;
  std::map<std::string, Process> processes_;  // by pod uid
  std::set<std::tuple<std::string, Attempt, int>> finished_;
};

}  // namespace lockstep::control::sim
