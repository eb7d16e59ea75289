#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/io/unique_fd.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/local/local_pod.h"
#include "operator/local/pod_guard.h"

namespace lockstep::control {

struct PodRunnerOptions {
  std::string directory;  // the run's; pods live in DIRECTORY/pods/NAME
  // Given to every pod below its own environment: PATH, HOME and their like.
  std::map<std::string, std::string> base_environment;
  // Programs start here, or in their working folder below it; absolute.
  std::string manifest_directory;
  // The address of a pod, for its status; may be empty.
  std::function<std::string(const kube::Pod&)> address_of;
  // Called for every line a pod prints; may be empty.
  std::function<void(const kube::Pod&, std::string_view line)> on_line;
  // Removed when this process is killed; empty: nothing is. An orderly end is its owner's affair.
  std::string secret_file;
  // The variable that tells a pod's program where to put its termination message.
  std::string termination_file_variable;
  Duration memory_sweep_interval = std::chrono::milliseconds(250);  // a sweep costs ~2 ms (choice)
  Duration guard_patience = std::chrono::seconds(5);  // for the pods' guard to end (choice)
};

enum class PodChange {
  kStarted,     // the process runs, or could not be started
  kOutputLost,  // for the first time its log could not be written
  kEnded,       // the process has ended; status.termination says how
  kDeleted      // nothing is left of the pod
};

struct PodEvent {
  PodChange change = PodChange::kStarted;
  kube::Pod pod;             // as it was right after the change
  TimePoint at;              // kEnded: when the end was noticed, before any cleaning up
  LostOutput lost_output{};  // up to then
};

// The cluster of one machine: a pod is a process group with its own session, folder, log and
// loopback address, reported on as a kubelet would. Nothing outlives this object: all processes of
// the pods are killed with it, and with this process however that ends (see PodGuard).
//
// It takes charge of every child process of this process, adopted orphans included.
// Thread: one, which must live as long as the pods (see SpawnProcess).
class PodRunner {
 public:
  // `logger` outlives the cluster.
  // Errors: kIo, kResourceExhausted.
  static Result<std::unique_ptr<PodRunner>> Start(PodRunnerOptions options, Logger* logger);

  PodRunner(const PodRunner&) = delete;
  PodRunner& operator=(const PodRunner&) = delete;
  ~PodRunner();

  // Starts the pod. Its change comes as kStarted with the next TakeEvents, and kEnded at once after
  // it where the program cannot be started.
  // Errors: kAlreadyExists (the name is in use), kIo and its kin (folder, log, or nothing left to
  // watch it with); then nothing of it runs.
  Status CreatePod(kube::Pod pod, TimePoint now);

  // Asks a pod to end: SIGTERM to its group, SIGKILL `grace` later (zero: at once) or when a signal
  // has stopped its program; then the pod is removed. A shorter grace than before takes over.
  // Errors: kNotFound.
  Status DeletePod(const std::string& name, Duration grace, TimePoint now);

  // Sends a signal to all processes of the pod: for experiments with failures. Errors: kNotFound.
  Status SignalPod(const std::string& name, int signal);

  // Makes the pod's program end with `exit_code`, without its consent: for experiments too.
  // Errors: kNotFound (no such pod, or it does not run), and as InjectExit.
  Status ForceExit(const std::string& name, int exit_code);

  // The pods that exist, in order of creation.
  std::vector<kube::Pod> pods() const;

  // The pod of this name, null if there is none; not copied, as all of them are above. Valid until
  // the next call that may create or remove a pod.
  const kube::Pod* FindPod(const std::string& name) const;

  // Readable when Process has something to do.
  int fd() const { return epoll_.get(); }

  // When Process has something to do though fd() is silent; null if never.
  std::optional<TimePoint> NextDeadline(TimePoint now) const;

  // Handles all that has happened, without waiting.
  void Process(TimePoint now);

  // What changed since the last call, in order.
  std::vector<PodEvent> TakeEvents();

  // How often the system's processes were looked through for those of pods that were killed or had
  // ended: once for all of a turn.
  int64_t sweep_count() const { return sweep_count_; }

 private:
  // What all processes of the run carry; each pod's own adds its serial.
  struct Marks {
    std::string environment;  // "NAME=token."
    LineageRange lineage;
  };

  struct Slot {
    explicit Slot(LocalPod started) : local(std::move(started)) {}

    LocalPod local;
    bool output_open = true;
    bool has_told_loss = false;
  };

  PodRunner(PodRunnerOptions options, Logger* logger, Marks marks, PodGuard guard);

  static ProcessSelector AllMarked(const Marks& marks);

  LocalPodOptions PodOptions(const kube::Pod& pod, int64_t serial) const;
  Status Register(int64_t serial, const Slot& slot);
  void HandleOutput(int64_t serial);
  void HandleEnds(const std::vector<int64_t>& ended);
  void SweepAll(const std::vector<LocalPod*>& pods);
  void AddEvent(PodChange change, const LocalPod& pod, TimePoint at);
  void NoteLostOutput(Slot* slot);
  void WatchGuard();
  void RestartGuard();
  void HandleExit(int64_t serial, TimePoint noticed, Slot* slot);
  void RemoveDeleted(TimePoint now);
  void SweepMemory(TimePoint now);
  void ReapOrphans();
  bool HasMemoryLimits() const;
  std::pair<const int64_t, Slot>* Find(const std::string& name);

  PodRunnerOptions options_;
  Logger* logger_;
  Marks marks_;
  std::optional<PodGuard> guard_;  // null: it was ended so often that no other is started
  int guards_ended_ = 0;           // by somebody, before their time
  UniqueFd epoll_;
  std::map<int64_t, Slot> pods_;  // by serial, in order of creation
  int64_t next_serial_ = 1;
  std::vector<PodEvent> events_;
  TimePoint next_sweep_;
  int64_t oom_kill_count_ = -1;
  int64_t sweep_count_ = 0;
};

}  // namespace lockstep::control
