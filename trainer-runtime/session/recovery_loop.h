#pragma once

#include <functional>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "trainer-runtime/session/session.h"

namespace lockstep::runtime {

// What a rank holds between two meetings.
struct HeldState {
  bool has_state = false;
  Step last_applied;
};

// What one process does in every meeting. All are required and called on the loop's thread.
struct MeetingSteps {
  std::function<HeldState()> held;
  std::function<void()> on_waiting;                    // for the others to meet
  std::function<Status(const Meeting&)> prepare;       // met, not yet joined
  std::function<Status(const JoinedMeeting&)> work;    // until the end of all work, or a loss
  std::function<void(Epoch, const Error&)> on_broken;  // a loss: all will meet again
};

// Meets, joins and works, again after every loss, until the work ends or something fails for good.
// The work has also ended when this rank would meet again and another says that all have finished.
// Errors: of Meet, Join, prepare and work; those that MayMeetAgain only when many meetings in a row
// led to no step.
Status RepeatMeetings(Session* session, const MeetingSteps& steps);

}  // namespace lockstep::runtime
