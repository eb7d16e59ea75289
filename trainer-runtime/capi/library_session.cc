#include "trainer-runtime/capi/library_session.h"

#include <cstring>
#include <utility>

#include "common/base/digest.h"
#include "trainer-runtime/capi/stop_catcher.h"
#include "trainer-runtime/collectives/reduce/communicator_reducer.h"
#include "trainer-runtime/collectives/reduce/divide.h"
#include "trainer-runtime/session/session_options.h"

namespace lockstep::runtime {
namespace {

// Meetings in one call that broke before they were joined. Choice: as in RepeatMeetings.
constexpr int kFruitlessMeetingsMax = 20;

// Ranks that are asked to stop together hear of it within this time; one that hears of it alone
// leaves after it. Choice: a fraction of any grace period.
constexpr Duration kStopSkewMax = std::chrono::seconds(1);

// What ranks compare when they meet: the plan, and that all of them speak as this release does.
uint64_t PlanHash(const std::string& plan) {
  return std::stoull(Sha256Hex("liblockstep 1\n" + plan).substr(0, 16), nullptr, 16);
}

// The first of each `count` ranks stands for all of them, at its own address.
void KeepOneOf(int count, MeshOptions* mesh) {
  std::vector<std::string> kept;
  for (std::size_t rank = 0; rank < mesh->addresses.size();
       rank += static_cast<std::size_t>(count)) {
    kept.push_back(std::move(mesh->addresses[rank]));
  }
  mesh->addresses = std::move(kept);
  mesh->identity.rank /= count;
  mesh->identity.world_size /= count;
}

}  // namespace

LibrarySession::LibrarySession(LibraryEnvironment environment,
                               bool one_per_pod,
                               std::unique_ptr<Logger> logger)
    : processes_per_rank_(one_per_pod ? environment.worker.processes : 1),
      rank_(environment.worker.rank.value_or(0) / processes_per_rank_),
      world_size_(environment.worker.world_size / processes_per_rank_),
      ranks_per_pod_(environment.worker.processes / processes_per_rank_),
      logger_(std::move(logger)),
      report_(std::make_unique<LibraryReport>(
          environment, processes_per_rank_, logger_.get(), [this](const ControlMessage& message) {
            OnControl(message);
          })) {}

Result<std::unique_ptr<LibrarySession>> LibrarySession::Open(LibraryEnvironment environment,
                                                             const std::string& plan,
                                                             bool one_per_pod) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionOptions options,
                            MakeSessionOptions(environment.worker, environment.job_key));
  std::unique_ptr<LibrarySession> library(new LibrarySession(
      std::move(environment), one_per_pod, MakeStderrLogger({LogLevel::kWarn, "lockstep: "})));
  options.plan_hash = PlanHash(plan);
  KeepOneOf(library->processes_per_rank_, &options.mesh);
  options.mesh.logger = library->logger_.get();
  options.mesh.on_peer_lost = [report = library->report_.get()](const PeerLoss& loss) {
    report->PeerLost(loss);
  };
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Start(std::move(options)));
  {
    const std::lock_guard<std::mutex> lock(library->session_mutex_);
    library->session_ = std::move(session);
  }
  library->report_->WatchPeers(&library->session_->mesh(), [library = library.get()] {
    if (StopCatcher::WasAsked() && !library->is_stop_requested()) {
      library->Stop();
    }
  });
  return library;
}

std::unique_ptr<LibrarySession> LibrarySession::OpenReport(LibraryEnvironment environment) {
  return std::unique_ptr<LibrarySession>(new LibrarySession(
      std::move(environment), false, MakeStderrLogger({LogLevel::kWarn, "lockstep: "})));
}

void LibrarySession::OnControl(const ControlMessage& message) {
  if (message.kind == ControlKind::kStop) {
    Stop();
    return;
  }
  const std::lock_guard<std::mutex> lock(session_mutex_);
  // A pod goes with all its ranks.
  for (int local = 0; session_ != nullptr && local < ranks_per_pod_; ++local) {
    session_->NoteGone(
        message.rank / processes_per_rank_ + local, message.incarnation, message.epoch);
  }
}

LibrarySession::~LibrarySession() {
  report_->StopWatchingPeers();
  report_->SayGoodbye();
  EndCalls();
}

Result<JoinedMeeting> LibrarySession::Meet(bool has_state, Step step, Deadline deadline) {
  EndCalls();
  communicator_ = nullptr;
  MeetingLimits limits{deadline, {}};
  {
    const std::lock_guard<std::mutex> lock(meet_mutex_);
    meet_stop_ = std::stop_source();
    limits.stop = meet_stop_.get_token();
  }
  if (is_stop_requested()) {
    return Error(ErrorCode::kAborted, "asked to stop");
  }
  report_->RendezvousBegins();
  for (int tries = 1;; ++tries) {
    Result<JoinedMeeting> joined = MeetOnce({has_state, step, 0}, limits);
    const bool may_try_again = !joined.ok() && joined.error().code() == ErrorCode::kPeerLost &&
                               !deadline.HasPassed(SteadyNow()) && tries < kFruitlessMeetingsMax;
    if (!may_try_again) {
      if (!joined.ok() && HasFinished()) {
        report_->Finished();
      }
      return joined;
    }
  }
}

Result<JoinedMeeting> LibrarySession::MeetOnce(const SelfFacts& facts,
                                               const MeetingLimits& limits) {
  LOCKSTEP_ASSIGN_OR_RETURN(Meeting meeting,
                            session_->Meet(facts.has_state, facts.last_applied, limits));
  members_ = meeting.members;
  LOCKSTEP_ASSIGN_OR_RETURN(const JoinedMeeting joined,
                            session_->Join(std::move(meeting), limits.deadline));
  communicator_ = joined.communicator;
  report_->Joined(joined.epoch, CommunicatorReducer(communicator_));
  return joined;
}

void LibrarySession::EndCalls() {
  if (session_ != nullptr && !calls_.IsIdle()) {
    session_->Abort(Error(ErrorCode::kAborted, "the rendezvous of this call has ended"));
  }
  calls_.AwaitIdle();
}

Result<Communicator*> LibrarySession::Joined() {
  calls_.AwaitIdle();
  if (communicator_ == nullptr) {
    return Error(ErrorCode::kNotFound, "no rendezvous was joined: call lockstep_meet first");
  }
  return communicator_;
}

Status LibrarySession::AllReduce(const Reduction& reduction, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Joined());
  return Reduce(reduction, deadline);
}

Result<CallQueue::Handle> LibrarySession::BeginAllReduce(const Reduction& reduction,
                                                         Deadline deadline) {
  if (communicator_ == nullptr) {
    return Joined().error();
  }
  return calls_.Begin([this, reduction, deadline] { return Reduce(reduction, deadline); });
}

Status LibrarySession::Reduce(const Reduction& reduction, Deadline deadline) {
  communicator_->NoteTerms(reduction.terms);
  LOCKSTEP_RETURN_IF_ERROR(communicator_->AllReduce(
      reduction.data, reduction.count, reduction.type, reduction.op, deadline));
  if (reduction.op == ReduceOp::kMean) {
    Divide(reduction.data, reduction.count, reduction.type, world_size_);
  }
  return OkStatus();
}

// As an all-reduce of all blocks. Twice the bytes that are needed; one way to add, though.
Status LibrarySession::ReduceScatter(const void* input,
                                     const Reduction& reduction,
                                     Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Joined());
  const std::size_t block = reduction.count * DataTypeSize(reduction.type);
  const auto* const bytes = static_cast<const std::byte*>(input);
  scratch_.assign(bytes, bytes + block * static_cast<std::size_t>(world_size_));
  LOCKSTEP_RETURN_IF_ERROR(AllReduce({scratch_.data(),
                                      reduction.count * static_cast<std::size_t>(world_size_),
                                      reduction.type,
                                      reduction.op,
                                      reduction.terms},
                                     deadline));
  if (block > 0) {
    std::memcpy(reduction.data, &scratch_[block * static_cast<std::size_t>(rank_)], block);
  }
  return OkStatus();
}

Status LibrarySession::AllGather(const Reduction& reduction, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const communicator, Joined());
  const std::size_t block = reduction.count * DataTypeSize(reduction.type);
  auto* const bytes = static_cast<std::byte*>(reduction.data);
  for (int rank = 0; rank < world_size_; ++rank) {
    if (rank != rank_ && block > 0) {
      std::memset(bytes + block * static_cast<std::size_t>(rank), 0, block);
    }
  }
  communicator->NoteTerms(reduction.terms);
  return communicator->AllReduce(bytes,
                                 reduction.count * static_cast<std::size_t>(world_size_),
                                 reduction.type,
                                 ReduceOp::kGather,
                                 deadline);
}

Status LibrarySession::Broadcast(const Reduction& data, int root, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const communicator, Joined());
  communicator->NoteTerms(data.terms);
  return communicator->Broadcast(data.data, data.count * DataTypeSize(data.type), root, deadline);
}

Status LibrarySession::Barrier(Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const communicator, Joined());
  return communicator->Barrier(deadline);
}

Result<Leave> LibrarySession::ShouldStop(Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const communicator, Joined());
  int32_t asked_count = is_stop_requested() ? 1 : 0;
  const TimePoint now = SteadyNow();
  if (asked_count > 0) {
    stop_at_ = stop_at_.value_or(now);
  }
  LOCKSTEP_RETURN_IF_ERROR(
      communicator->AllReduce(&asked_count, 1, DataType::kInt32, ReduceOp::kSum, deadline));
  session_->NoteAllHold();
  if (asked_count == world_size_) {
    return Leave::kTogether;
  }
  const bool is_alone = stop_at_.has_value() && now - *stop_at_ >= kStopSkewMax;
  return is_alone ? Leave::kAlone : Leave::kNot;
}

void LibrarySession::Stop() {
  is_stop_requested_.store(true);
  const std::lock_guard<std::mutex> lock(meet_mutex_);
  meet_stop_.request_stop();
}

Status LibrarySession::Finish(Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Barrier(deadline));
  report_->Finished();
  session_->Finish();
  return OkStatus();
}

void LibrarySession::Abort(const Error& reason) {
  {
    const std::lock_guard<std::mutex> lock(meet_mutex_);
    meet_stop_.request_stop();
  }
  session_->Abort(reason);
}

}  // namespace lockstep::runtime
