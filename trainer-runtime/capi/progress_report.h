#pragma once

#include "trainer-runtime/capi/api_error.h"
#include "trainer-runtime/capi/library_session.h"
#include "trainer-runtime/capi/lockstep.h"

namespace lockstep::runtime {

// Shows a program's figures as lockstep_report. Errors: INVALID_ARGUMENT (no such phase,
// or a value that no figure has).
// Thread: that of the session's calls.
ApiOutcome Report(LibrarySession& session, const lockstep_progress& progress);

}  // namespace lockstep::runtime
