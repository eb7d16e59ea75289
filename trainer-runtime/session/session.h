#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/rendezvous/mesh.h"
#include "trainer-runtime/session/abort_switch.h"
#include "trainer-runtime/session/session_options.h"

namespace lockstep::runtime {

// A meeting whose ranks are joined for collective operations.
struct JoinedMeeting {
  Epoch epoch;
  std::optional<int> state_source;       // whose state all take; empty: nobody holds one
  Communicator* communicator = nullptr;  // the session's; good until it meets again or ends
};

// How long a meeting, or joining it, may take, and what ends the wait before.
struct MeetingLimits {
  Deadline deadline;
  std::stop_token stop;
};

// One process's part in the meetings of a job, from its mesh to the communicator of the newest
// meeting: what everything that reduces over the ranks of a job stands on, whatever it trains with.
//
// Meet, Join, work with the communicator; after an error that MayMeetAgain, Meet again. A loss that
// the mesh reports ends joining and the collective in progress at once.
// Thread: one calls Meet and Join; the others from any.
class Session {
 public:
  // Starts the mesh. `options.mesh.on_peer_lost` is called before work in progress is ended.
  // Errors: those of MakeRoomForLinks and of Mesh::Start.
  static Result<std::unique_ptr<Session>> Start(SessionOptions options);

  // Waits until all ranks meet, at a newer epoch than the last time. The communicator of the last
  // meeting is gone from here on. Errors: those of Mesh::Meet.
  Result<Meeting> Meet(bool has_state, Step last_applied);

  // The same within limits of the caller's, in place of the session's own.
  Result<Meeting> Meet(bool has_state, Step last_applied, const MeetingLimits& limits);

  // Joins the ranks of `meeting`: collective. Ends within a second of a loss or of a request to
  // stop. Errors: those of MakeCommunicator; kAborted (stop requested).
  Result<JoinedMeeting> Join(Meeting meeting);
  Result<JoinedMeeting> Join(Meeting meeting, Deadline deadline);

  // What all joins from now on lend to the ranks of this one's host: CommunicatorOptions::lent. It
  // must outlive the session's communicators.
  void Lend(const SharedSegment* memory) { lent_ = memory; }

  // Ends what this rank is joining, or the collective in progress and all later ones of the newest
  // meeting, with `reason`. Thread: any.
  void Abort(const Error& reason) { abort_switch_.TripNewest(reason); }

  // Waits until the meeting of `epoch` is over, and returns why; empty: the deadline has passed.
  // Thread: any.
  std::optional<Error> AwaitLoss(Epoch epoch, Deadline deadline) const {
    return abort_switch_.AwaitReason(epoch, deadline);
  }

  // Ends the newest meeting for this rank: its communicator is gone.
  void Leave();

  // All ranks have done all their work, this one knows: tells the others, and waits a moment until
  // they have heard. Whoever meets after that fails with kAborted, and HasFinished().
  void Finish();

  bool HasFinished() const { return mesh_->HasFinished(); }

  // All ranks of the newest meeting have taken a step together: each holds a state. Before, only
  // those do that brought one, and the one whose state all take. Thread: that of Meet.
  void NoteAllHold();

  // Whether no lower rank of the newest meeting is left with a state. The end of a connection may
  // be seen before the mesh knows of the loss, and a lower rank may be leaving, too: waits until
  // this is so, at most for as long as the mesh takes to notice a loss.
  // Thread: that of Meet; blocks.
  bool AwaitFirstOfHolders() const;

  // The newest meeting's epoch and incarnation of its chief; 0 before the first. Thread: that of
  // Meet.
  Epoch newest_epoch() const { return newest_epoch_; }

  Incarnation newest_chief() const {
    return members_.empty() ? Incarnation() : members_.front().incarnation;
  }

  // Whether `error`, of Join or of work with its communicator, is a loss that others make good: a
  // process that was asked to stop does not wait for that.
  bool MayMeetAgain(const Error& error) const;

  // The operator's word, as for Mesh::NoteGone.
  void NoteGone(int rank, Incarnation replacement, Epoch epoch) {
    mesh_->NoteGone(rank, replacement, epoch);
  }

  // Lives as long as the session.
  const Mesh& mesh() const { return *mesh_; }

 private:
  explicit Session(SessionOptions options);

  SessionOptions options_;  // without the mesh's: they are given away
  int rank_;
  int world_size_;
  const SharedSegment* lent_ = nullptr;
  Duration loss_patience_;  // within it the mesh notices a peer that is gone, or that is not heard
  Epoch at_least_;          // of the next meeting
  Epoch newest_epoch_;
  std::vector<MemberFacts> members_;  // of the newest meeting, and who of them holds a state by now
  std::unique_ptr<Communicator> communicator_;
  AbortSwitch abort_switch_;
  std::stop_callback<std::function<void()>> on_stop_;
  std::unique_ptr<Mesh> mesh_;  // last: its thread trips the switch
};

}  // namespace lockstep::runtime
