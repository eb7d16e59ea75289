#include "trainer-runtime/session/session.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "common/contract/status/lost_peer.h"
#include "common/process/silence.h"
#include "trainer-runtime/session/descriptors.h"
#include "trainer-runtime/session/state_source.h"

namespace lockstep::runtime {

Session::Session(SessionOptions options)
    : options_(std::move(options)),
      rank_(options_.mesh.identity.rank),
      world_size_(options_.mesh.identity.world_size),
      loss_patience_(LossNoticedWithin(options_.mesh.silent_after)),
      at_least_(options_.mesh.initial_epoch),
      on_stop_(options_.stop, [this] { abort_switch_.Stop(); }) {}

Result<std::unique_ptr<Session>> Session::Start(SessionOptions options) {
  LOCKSTEP_RETURN_IF_ERROR(MakeRoomForLinks(options.mesh.identity.world_size));
  std::unique_ptr<Session> session(new Session(std::move(options)));
  MeshOptions mesh = std::move(session->options_.mesh);
  mesh.on_peer_lost = [session = session.get(),
                       tell = std::move(mesh.on_peer_lost)](const PeerLoss& loss) {
    if (tell) {
      tell(loss);
    }
    session->abort_switch_.Trip(
        loss.epoch,
        Error(ErrorCode::kPeerLost, DescribeLostPeers({loss.rank}, LossReasonName(loss.reason))));
  };
  LOCKSTEP_ASSIGN_OR_RETURN(session->mesh_, Mesh::Start(std::move(mesh)));
  return session;
}

Result<Meeting> Session::Meet(bool has_state, Step last_applied) {
  return Meet(has_state,
              last_applied,
              {Deadline::After(SteadyNow(), options_.meeting_timeout), options_.stop});
}

Result<Meeting> Session::Meet(bool has_state, Step last_applied, const MeetingLimits& limits) {
  Leave();
  LOCKSTEP_ASSIGN_OR_RETURN(Meeting meeting,
                            mesh_->Meet(SelfFacts{has_state, last_applied, options_.plan_hash},
                                        at_least_,
                                        limits.deadline,
                                        limits.stop));
  at_least_ = meeting.epoch.Next();
  newest_epoch_ = meeting.epoch;
  members_ = meeting.members;
  return meeting;
}

Result<JoinedMeeting> Session::Join(Meeting meeting) {
  return Join(std::move(meeting), Deadline::After(SteadyNow(), options_.meeting_timeout));
}

Result<JoinedMeeting> Session::Join(Meeting meeting, Deadline deadline) {
  CommunicatorOptions options;
  options.rank = rank_;
  options.world_size = world_size_;
  options.epoch = meeting.epoch;
  options.plan_hash = options_.plan_hash;
  options.lent = lent_;
  options.links = std::move(meeting.data_links);
  for (const MemberFacts& member : meeting.members) {
    options.host_ids.push_back(member.host_id);
  }
  LOCKSTEP_RETURN_IF_ERROR(abort_switch_.ArmLinks(options.links, meeting.epoch));
  Result<std::unique_ptr<Communicator>> joined = MakeCommunicator(std::move(options), deadline);
  if (!joined.ok()) {
    abort_switch_.Disarm();
    // The links may have ended because we ended them.
    return abort_switch_.Reason(meeting.epoch).value_or(joined.error());
  }
  communicator_ = std::move(joined).value();
  abort_switch_.ArmCommunicator(communicator_.get(), meeting.epoch);
  const std::optional<int> source = PickStateSource(meeting.members);
  // Where nobody brings a state, all take what rank 0 begins with: whoever has one has it from it.
  members_[static_cast<std::size_t>(source.value_or(0))].has_state = true;
  return JoinedMeeting{meeting.epoch, source, communicator_.get()};
}

void Session::NoteAllHold() {
  for (MemberFacts& member : members_) {
    member.has_state = true;
  }
}

bool Session::AwaitFirstOfHolders() const {
  constexpr Duration kLookAgain = std::chrono::milliseconds(10);
  const Deadline deadline = Deadline::After(SteadyNow(), loss_patience_);
  while (!IsFirstOfHolders(rank_, members_, mesh_->Peers())) {
    if (deadline.HasPassed(SteadyNow())) {
      return false;
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

void Session::Leave() {
  abort_switch_.Disarm();
  communicator_.reset();
}

void Session::Finish() {
  // A peer that does not listen is silent after a second or two, and not waited for. Choice.
  constexpr Duration kFarewellPatience = std::chrono::seconds(5);
  mesh_->Finish(Deadline::After(SteadyNow(), kFarewellPatience));
}

bool Session::MayMeetAgain(const Error& error) const {
  const ErrorCode code = error.code();
  return !options_.stop.stop_requested() &&
         (code == ErrorCode::kPeerLost || code == ErrorCode::kAborted ||
          code == ErrorCode::kTimeout);
}

}  // namespace lockstep::runtime
