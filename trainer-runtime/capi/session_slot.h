#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "trainer-runtime/capi/api_error.h"
#include "trainer-runtime/capi/library_session.h"
#include "trainer-runtime/capi/stop_catcher.h"

namespace lockstep::runtime {

// The session of this process, while it is open.
struct OpenSession {
  uintptr_t handle = 0;  // what the program holds: a number, never an address
  StopCatcher stop_catcher;
  std::unique_ptr<LibrarySession> session;
  std::mutex call_mutex;  // held during each call of the program
};

// A session for the time of one call; `outcome` says why there is none.
struct SessionUse {
  ApiOutcome outcome;
  std::shared_ptr<OpenSession> open;  // shared: another thread may close or abort meanwhile
  std::unique_lock<std::mutex> call;  // after `open`: let go first
};

// Opens the session of this process from its environment. `handle` is written on success.
// Errors: as lockstep_open. Thread: any.
ApiOutcome OpenTheSession(const lockstep_options& options, lockstep_session** handle);

// The open session of that handle, for a call of this thread's. Errors: CLOSED, FORKED, BUSY.
SessionUse UseSession(const lockstep_session* handle);

// The same beside calls of other threads. Errors: CLOSED, FORKED.
SessionUse LookUpSession(const lockstep_session* handle);

// Closes it. Errors: as UseSession.
ApiOutcome CloseTheSession(const lockstep_session* handle);

}  // namespace lockstep::runtime
