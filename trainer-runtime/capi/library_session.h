#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "trainer-runtime/capi/call_queue.h"
#include "trainer-runtime/capi/library_environment.h"
#include "trainer-runtime/capi/library_report.h"
#include "trainer-runtime/session/session.h"

namespace lockstep::runtime {

// One reduction of a program: what the library's calls come down to. A broadcast has no `op`.
struct Reduction {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint32_t terms = 0;  // Communicator::NoteTerms
};

// How a rank should leave at the end of a step, if at all: values of lockstep_leave.
enum class Leave {
  kNot = 0,
  kTogether = 1,  // after the same step as all others
  kAlone = 2      // the others go on with its successor
};

// A program's session: what `lockstep.h` offers, in our own types. Errors are those of the header,
// kNotFound standing for "no meeting yet" and kStale for "superseded".
// Thread: one caller at a time; Abort, AwaitLoss, Stop and is_stop_requested from any.
class LibrarySession {
 public:
  // `plan` and `one_per_pod` as in lockstep_options.
  static Result<std::unique_ptr<LibrarySession>> Open(LibraryEnvironment environment,
                                                      const std::string& plan,
                                                      bool one_per_pod);

  // One that only reports: there are no others, and it listens nowhere.
  static std::unique_ptr<LibrarySession> OpenReport(LibraryEnvironment environment);

  ~LibrarySession();
  LibrarySession(const LibrarySession&) = delete;
  LibrarySession& operator=(const LibrarySession&) = delete;

  // Meets and joins; again where a rank is lost on the way, until the deadline.
  Result<JoinedMeeting> Meet(bool has_state, Step step, Deadline deadline);

  // Of the newest meeting, by rank; empty before the first.
  const std::vector<MemberFacts>& members() const { return members_; }

  int rank() const { return rank_; }

  int world_size() const { return world_size_; }

  // Whether all others have done all work.
  bool HasFinished() const { return session_ != nullptr && session_->HasFinished(); }

  bool only_reports() const { return session_ == nullptr; }

  Status AllReduce(const Reduction& reduction, Deadline deadline);
  // Begins it; what it comes to is calls()'s to say. Errors: kNotFound, those of CallQueue::Begin.
  Result<CallQueue::Handle> BeginAllReduce(const Reduction& reduction, Deadline deadline);
  // Reduces `input` [world_size x count] and keeps block `rank` in `reduction.data`.
  Status ReduceScatter(const void* input, const Reduction& reduction, Deadline deadline);
  // `reduction.data` [world_size x count] holds this rank's block already.
  Status AllGather(const Reduction& reduction, Deadline deadline);
  Status Broadcast(const Reduction& data, int root, Deadline deadline);
  Status Barrier(Deadline deadline);
  // How this rank should leave, as lockstep_should_stop.
  Result<Leave> ShouldStop(Deadline deadline);

  // As lockstep_should_save. Precondition: members() is not empty. Blocks.
  bool ShouldSave() const { return session_->AwaitFirstOfHolders(); }

  Status Finish(Deadline deadline);

  void Abort(const Error& reason);

  // As Session::AwaitLoss. Thread: any.
  std::optional<Error> AwaitLoss(Epoch epoch, Deadline deadline) const {
    return session_->AwaitLoss(epoch, deadline);
  }

  // This process was asked to stop: waits for no meeting any more.
  void Stop();

  bool is_stop_requested() const { return is_stop_requested_.load(); }

  LibraryReport& report() { return *report_; }

  CallQueue& calls() { return calls_; }

 private:
  LibrarySession(LibraryEnvironment environment, bool one_per_pod, std::unique_ptr<Logger> logger);

  void OnControl(const ControlMessage& message);
  Result<JoinedMeeting> MeetOnce(const SelfFacts& facts, const MeetingLimits& limits);
  // The communicator of the newest meeting, once all that was begun has ended. Errors: kNotFound.
  Result<Communicator*> Joined();
  Status Reduce(const Reduction& reduction, Deadline deadline);
  // Ends what was begun: it belongs to a meeting that is over.
  void EndCalls();

  int processes_per_rank_;  // of the job's processes: those that this session's ranks stand for
  int rank_;
  int world_size_;
  int ranks_per_pod_;
  std::unique_ptr<Logger> logger_;
  std::atomic<bool> is_stop_requested_{false};
  std::unique_ptr<LibraryReport> report_;
  std::vector<MemberFacts> members_;
  Communicator* communicator_ = nullptr;  // the session's
  std::vector<std::byte> scratch_;        // of ReduceScatter
  std::mutex meet_mutex_;
  std::stop_source meet_stop_;        // of the meeting that is waited for; guarded by meet_mutex_
  std::optional<TimePoint> stop_at_;  // when ShouldStop saw that this process was asked first
  std::mutex session_mutex_;          // the report's thread asks for the session before it exists
  std::unique_ptr<Session> session_;  // its threads use the report; null: only reports
  CallQueue calls_;                   // last: what was begun uses the session
};

}  // namespace lockstep::runtime
