#include "trainer-runtime/capi/session_slot.h"

#include <atomic>
#include <csignal>
#include <string>
#include <unistd.h>
#include <utility>

namespace lockstep::runtime {
namespace {

// The one session of the process. A fork has a copy of it, and none of its threads.
struct Slot {
  std::atomic<pid_t> owner{0};  // who has a session, or is opening one; 0: nobody
  std::mutex mutex;             // guards the rest; may be held for ever in a fork
  std::shared_ptr<OpenSession> open;
  uintptr_t last_handle = 0;
};

// Never torn down: at the end of the process its threads may still run, and in a fork there are
// none to wait for.
Slot& TheSlot() {
  static Slot& slot = *new Slot;  // NOLINT: see above
  return slot;
}

bool IsFork(const Slot& slot) {
  const pid_t owner = slot.owner.load();
  return owner != 0 && owner != ::getpid();
}

ApiOutcome Forked() {
  return {
      LOCKSTEP_ERROR_FORKED,
      "this process was forked from a process with an open session. Only the parent can use this "
      "session: use it there, or start a new program instead of forking"};
}

ApiOutcome Closed() {
  return {LOCKSTEP_ERROR_CLOSED, "this handle belongs to no open session"};
}

// The program's signals are for its own threads: those of the library are made without any.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  ~WithoutSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_;
};

EnvironmentMap ReadEnvironment() {
  EnvironmentMap variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

Result<std::shared_ptr<OpenSession>> MakeOpenSession(LibraryEnvironment environment,
                                                     const lockstep_options& options) {
  auto open = std::make_shared<OpenSession>();
  if (options.catch_stop != 0) {
    LOCKSTEP_RETURN_IF_ERROR(open->stop_catcher.Install());
  }
  const WithoutSignals masked;
  if (options.report_only != 0) {
    open->session = LibrarySession::OpenReport(std::move(environment));
    return open;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(open->session,
                            LibrarySession::Open(std::move(environment),
                                                 options.plan == nullptr ? "" : options.plan,
                                                 options.one_per_pod != 0));
  return open;
}

}  // namespace

ApiOutcome OpenTheSession(const lockstep_options& options, lockstep_session** handle) {
  Slot& slot = TheSlot();
  if (IsFork(slot)) {
    return Forked();
  }
  slot.owner.store(::getpid());
  const std::lock_guard<std::mutex> lock(slot.mutex);
  if (slot.open != nullptr) {
    return {LOCKSTEP_ERROR_ALREADY_OPEN,
            "this process already has a session, and can have only one at a time: use that "
            "session, or close it first (lockstep_close; in Python its close())"};
  }
  Result<LibraryEnvironment> environment = ReadLibraryEnvironment(ReadEnvironment());
  if (!environment.ok()) {
    slot.owner.store(0);
    return {LOCKSTEP_ERROR_NO_JOB, environment.error().ToString()};
  }
  Result<std::shared_ptr<OpenSession>> open =
      MakeOpenSession(std::move(environment).value(), options);
  if (!open.ok()) {
    slot.owner.store(0);
    return OutcomeOf(open.error());
  }
  slot.open = std::move(open).value();
  slot.open->handle = ++slot.last_handle;
  *handle = reinterpret_cast<lockstep_session*>(slot.last_handle);  // NOLINT: never followed
  return {};
}

SessionUse LookUpSession(const lockstep_session* handle) {
  Slot& slot = TheSlot();
  SessionUse use;
  if (IsFork(slot)) {
    use.outcome = Forked();
    return use;
  }
  const std::lock_guard<std::mutex> lock(slot.mutex);
  if (slot.open == nullptr || slot.open->handle != reinterpret_cast<uintptr_t>(handle)) {
    use.outcome = Closed();
    return use;
  }
  use.open = slot.open;
  return use;
}

SessionUse UseSession(const lockstep_session* handle) {
  SessionUse use = LookUpSession(handle);
  if (!use.outcome.ok()) {
    return use;
  }
  use.call = std::unique_lock<std::mutex>(use.open->call_mutex, std::try_to_lock);
  if (!use.call.owns_lock()) {
    use.outcome = {LOCKSTEP_ERROR_BUSY, "another thread is using this session"};
  }
  return use;
}

ApiOutcome CloseTheSession(const lockstep_session* handle) {
  SessionUse use = UseSession(handle);
  if (!use.outcome.ok()) {
    return use.outcome;
  }
  Slot& slot = TheSlot();
  const std::lock_guard<std::mutex> lock(slot.mutex);
  if (slot.open != use.open) {
    return Closed();  // by another thread, a moment ago
  }
  slot.open.reset();
  use.call.unlock();
  use.open.reset();  // its end, unless another thread is just aborting it
  slot.owner.store(0);
  return {};
}

}  // namespace lockstep::runtime
