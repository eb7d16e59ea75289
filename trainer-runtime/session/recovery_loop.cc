#include "trainer-runtime/session/recovery_loop.h"

#include <string>
#include <utility>

namespace lockstep::runtime {
namespace {

// Meetings in a row that led to no step before this process gives up: the operator's budget ends a
// job much earlier, so this only bounds a loop that nobody watches. Choice.
constexpr int kFruitlessMeetingsMax = 20;

Status JoinAndWork(Session* session, Meeting meeting, const MeetingSteps& steps) {
  LOCKSTEP_ASSIGN_OR_RETURN(const JoinedMeeting joined, session->Join(std::move(meeting)));
  return steps.work(joined);
}

}  // namespace

Status RepeatMeetings(Session* session, const MeetingSteps& steps) {
  int fruitless_meetings = 0;
  while (true) {
    const HeldState before = steps.held();
    steps.on_waiting();
    Result<Meeting> meeting = session->Meet(before.has_state, before.last_applied);
    if (!meeting.ok() && session->HasFinished()) {
      return OkStatus();
    }
    if (!meeting.ok()) {
      return std::move(meeting).error();
    }
    const Epoch epoch = meeting->epoch;
    LOCKSTEP_RETURN_IF_ERROR(steps.prepare(*meeting));
    Status worked = JoinAndWork(session, std::move(meeting).value(), steps);
    session->Leave();
    if (worked.ok() || !session->MayMeetAgain(worked.error())) {
      return worked;
    }
    steps.on_broken(epoch, worked.error());
    fruitless_meetings =
        steps.held().last_applied > before.last_applied ? 0 : fruitless_meetings + 1;
    if (fruitless_meetings >= kFruitlessMeetingsMax) {
      return std::move(worked).error().Wrap(std::to_string(fruitless_meetings) +
                                            " rendezvous in a row led to no completed step");
    }
  }
}

}  // namespace lockstep::runtime
