#pragma once

#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/base/result.h"

#pragma GCC visibility push(default)  // all else in the library is hidden
#include "trainer-runtime/capi/lockstep.h"
#pragma GCC visibility pop

namespace lockstep::runtime {

// How one call of the library ended: a code, and the sentence of an error.
struct ApiOutcome {
  lockstep_status status = LOCKSTEP_OK;
  std::string sentence;
  int system_number = 0;  // an errno; 0: the operating system had no part

  bool ok() const { return status == LOCKSTEP_OK; }
};

// The code for an error that a session's work met.
lockstep_status StatusOf(ErrorCode code);

ApiOutcome OutcomeOf(const Error& error);
ApiOutcome OutcomeOf(const Status& status);

// LOCKSTEP_ERROR_INVALID_ARGUMENT.
ApiOutcome InvalidArgument(std::string sentence);

// Keeps the sentence for this thread's next question, and returns the code. Never throws.
lockstep_status Tell(const ApiOutcome& outcome) noexcept;

// Forgets it: the thread's next call begins.
void ForgetSentence() noexcept;

// That sentence; empty before the first error. Good until the thread's next Tell or ForgetSentence.
const char* LastSentence() noexcept;

// The errno of that error; 0: none.
int LastSystemNumber() noexcept;

}  // namespace lockstep::runtime
