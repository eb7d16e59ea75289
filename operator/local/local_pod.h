#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <sys/types.h>

#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/local/pod_log.h"
#include "operator/local/pod_processes.h"
#include "operator/local/process.h"

namespace lockstep::control {

// Where a pod lives and what marks its processes.
struct LocalPodOptions {
  std::string directory;         // made here; holds pod.log and the termination message
  std::string termination_file;  // what the program may write; at most 4,096 bytes are read
  PodLogOptions log;
  std::map<std::string, std::string> environment;  // whole, the marker included
  std::string working_dir;                         // absolute; empty: `directory`
  std::string marker;         // "NAME=value" in `environment`; how no other pod's begins
  uint64_t lineage_mark = 0;  // its alone, as in SpawnOptions
};

// Passes of one sweep. Choice: a process that forks at every look is given up at last.
inline constexpr int kKillRoundsMax = 50;

// One pod: the session that its program leads, its output, its end. The cluster calls it when its
// descriptors are readable. Destroying a living pod kills it. Thread: one.
class LocalPod {
 public:
  // Starts the pod's program. A program that cannot be started is not an error here but a pod that
  // has failed with reason StartError and exit code 127 (no such file), 126 (not executable) or
  // 128 (the machine refused a process), as a kubelet reports it.
  // Errors: kIo and its kin when the folder or the log cannot be made.
  static Result<LocalPod> Start(kube::Pod pod, LocalPodOptions options);

  LocalPod(LocalPod&&) noexcept = default;
  LocalPod& operator=(LocalPod&&) = delete;
  ~LocalPod();

  const kube::Pod& pod() const { return pod_; }

  bool is_running() const { return process_.pidfd.is_open(); }

  const LostOutput& lost_output() const { return log_.lost(); }

  // Leader of the session and of the process group; 0 when the pod does not run.
  pid_t leader() const { return is_running() ? process_.pid : 0; }

  int pidfd() const { return process_.pidfd.get(); }

  int output_fd() const { return output_.get(); }

  // Moves what the pod has printed into its log. Returns false when all writers have closed.
  bool DrainOutput();

  // Sends `signal` to the process group. Nothing happens when the pod does not run.
  void Signal(int signal);

  // Sends `signal` to the process group and to what has left it.
  void SignalAll(int signal);

  // Asks the pod to end: SIGTERM now, SIGKILL at `kill_at`. A deadline in the past kills its group
  // at once. A program that a signal has stopped cannot hear the request: it is killed as soon as
  // that is seen.
  void Terminate(TimePoint now, Deadline kill_at);

  // When to call KillIfDue next, or to sweep; null when no SIGKILL is asked for or it has been
  // sent.
  std::optional<TimePoint> kill_time() const;

  // Sends SIGKILL to its process group where it is due. What has left the group is the caller's to
  // kill, as needs_sweep() says, for many pods in one pass.
  void KillIfDue(TimePoint now);

  // The same for using more memory than its limit.
  void KillOutOfMemory(int64_t used_bytes);

  // Whether its group was killed and not yet what has left it.
  bool needs_sweep() const { return is_running() && sweep_ == Sweep::kNeeded; }

  // Whether nothing is left but the leader, dying or dead.
  bool is_swept() const { return sweep_ == Sweep::kDone; }

  // All that is the pod's. While the leader is not reaped, no other process can be given its
  // number.
  ProcessSelector Processes() const;

  // KillMatching has been through with Processes().
  void NoteSwept() { sweep_ = Sweep::kDone; }

  // The program has ended, and what it left behind was swept: reads its last words, fills the
  // status. `kernel_killed`: whether the kernel's out-of-memory killer was at work meanwhile.
  void Finish(bool kernel_killed);

 private:
  enum class Sweep { kNone, kNeeded, kDone };

  LocalPod(kube::Pod pod, LocalPodOptions options, PodLog log)
      : pod_(std::move(pod)), options_(std::move(options)), log_(std::move(log)) {}

  Status StartProgram();
  void FailToStart(const Error& error);
  void KillGroup();
  std::string ReadTerminationMessage() const;

  kube::Pod pod_;
  LocalPodOptions options_;
  PodLog log_;
  UniqueFd output_;
  SpawnedProcess process_;
  std::optional<Deadline> kill_at_;
  TimePoint look_at_ = TimePoint::min();  // for a program that is stopped, while it has its grace
  Sweep sweep_ = Sweep::kNone;
  std::string memory_verdict_;  // set when the memory limit ended the pod
};

}  // namespace lockstep::control
