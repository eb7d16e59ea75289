// The functions of lockstep.h: arguments are checked here, the work is LibrarySession's.

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "trainer-runtime/capi/api_error.h"
#include "trainer-runtime/capi/call_arguments.h"
#include "trainer-runtime/capi/call_guard.h"
#include "trainer-runtime/capi/memory_check.h"
#include "trainer-runtime/capi/progress_report.h"
#include "trainer-runtime/capi/session_slot.h"

namespace lockstep::runtime {
namespace {

ApiOutcome RefuseReportOnly(const char* what) {
  return InvalidArgument(std::string(what) +
                         " is not possible: the session was opened with report_only");
}

// Runs `work` on the session of `handle`, whatever it is for.
template <typename Work>
lockstep_status InAnySession(const lockstep_session* handle, const Work& work) noexcept {
  return Guarded([&] {
    const SessionUse use = UseSession(handle);
    const ApiOutcome outcome = use.outcome.ok() ? work(*use.open->session) : use.outcome;
    if (outcome.status == LOCKSTEP_ERROR_MISMATCH) {
      use.open->session->report().Differed(outcome.sentence);
    }
    return outcome;
  });
}

// Runs `work` on the session of `handle`, which is one with others.
template <typename Work>
lockstep_status InSession(const lockstep_session* handle, const Work& work) noexcept {
  return InAnySession(handle, [&](LibrarySession& open) -> ApiOutcome {
    return open.only_reports() ? RefuseReportOnly("a call that needs other ranks") : work(open);
  });
}

// The same beside calls of other threads.
template <typename Work>
lockstep_status BesideCalls(const lockstep_session* handle, const Work& work) noexcept {
  return Guarded([&]() -> ApiOutcome {
    const SessionUse use = LookUpSession(handle);
    if (use.outcome.ok() && use.open->session->only_reports()) {
      return RefuseReportOnly("a call that needs other ranks");
    }
    return use.outcome.ok() ? work(*use.open->session) : use.outcome;
  });
}

// Runs `work` with its deadline.
template <typename Work>
ApiOutcome Until(double timeout_seconds, const Work& work) {
  const Result<Deadline> deadline = DeadlineOf(timeout_seconds);
  return OutcomeOf(deadline.ok() ? Status(work(*deadline)) : Status(deadline.error()));
}

ApiOutcome NotMet() {
  return {LOCKSTEP_ERROR_NOT_MET, "no rendezvous yet: call lockstep_meet first"};
}

// Errors: INVALID_ARGUMENT, by the name of what is neither 0 nor 1.
ApiOutcome CheckOptions(const lockstep_options& options) {
  const std::pair<const char*, int32_t> switches[] = {{"catch_stop", options.catch_stop},
                                                      {"report_only", options.report_only},
                                                      {"one_per_pod", options.one_per_pod}};
  for (const auto& [name, value] : switches) {
    if (value != 0 && value != 1) {
      return InvalidArgument(std::string(name) + ": " + std::to_string(value) +
                             " found, expected 0 or 1");
    }
  }
  return options.report_only != 0 && options.plan != nullptr ? RefuseReportOnly("plan")
                                                             : ApiOutcome();
}

ApiOutcome Meet(LibrarySession& session,
                const SelfFacts& facts,
                Deadline deadline,
                lockstep_meeting* meeting) {
  const Result<JoinedMeeting> joined = session.Meet(facts.has_state, facts.last_applied, deadline);
  if (!joined.ok() && session.is_stop_requested()) {
    return {LOCKSTEP_ERROR_STOPPED, "this process was asked to stop"};
  }
  if (!joined.ok() && session.HasFinished()) {
    return {LOCKSTEP_ERROR_FINISHED, "all other ranks have finished: no work is left"};
  }
  if (!joined.ok()) {
    return OutcomeOf(joined.error());
  }
  lockstep_meeting filled{};
  filled.epoch = joined->epoch.value();
  filled.rank = session.rank();
  filled.size = session.world_size();
  filled.state_source = joined->state_source.value_or(-1);
  Write(filled, meeting);
  return {};
}

// What all collectives on memory are called with.
struct CollectiveArguments {
  uint64_t count = 0;
  int type = 0;
  int op = LOCKSTEP_SUM;
  double timeout_seconds = 0;
};

struct CheckedArguments {
  std::size_t count = 0;
  DataType type = DataType::kUInt8;
  ReduceOp op = ReduceOp::kSum;
  uint32_t terms = 0;
  Deadline deadline = Deadline::At(TimePoint());
};

Result<CheckedArguments> Check(const CollectiveArguments& given) {
  CheckedArguments checked;
  checked.count = given.count;
  checked.terms = static_cast<uint32_t>(given.type);
  LOCKSTEP_ASSIGN_OR_RETURN(checked.type, TypeOf(given.type));
  LOCKSTEP_ASSIGN_OR_RETURN(checked.op, OpOf(given.op, checked.type));
  LOCKSTEP_ASSIGN_OR_RETURN(checked.deadline, DeadlineOf(given.timeout_seconds));
  return checked;
}

Status AllReduce(LibrarySession& session, void* data, const CollectiveArguments& given) {
  LOCKSTEP_ASSIGN_OR_RETURN(const CheckedArguments call, Check(given));
  LOCKSTEP_RETURN_IF_ERROR(CheckMemory({"data", data, given.count, call.type, 1}));
  return session.AllReduce({data, call.count, call.type, call.op, call.terms}, call.deadline);
}

Result<CallQueue::Handle> BeginAllReduce(LibrarySession& session,
                                         void* data,
                                         const CollectiveArguments& given) {
  LOCKSTEP_ASSIGN_OR_RETURN(const CheckedArguments call, Check(given));
  LOCKSTEP_RETURN_IF_ERROR(CheckMemory({"data", data, given.count, call.type, 1}));
  return session.BeginAllReduce({data, call.count, call.type, call.op, call.terms}, call.deadline);
}

Status ReduceScatter(LibrarySession& session,
                     const void* input,
                     void* output,
                     const CollectiveArguments& given) {
  LOCKSTEP_ASSIGN_OR_RETURN(const CheckedArguments call, Check(given));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckMemory({"input", input, given.count, call.type, session.world_size()}));
  LOCKSTEP_RETURN_IF_ERROR(CheckMemory({"output", output, given.count, call.type, 1}));
  return session.ReduceScatter(
      input, {output, call.count, call.type, call.op, call.terms}, call.deadline);
}

Status AllGather(LibrarySession& session,
                 const void* input,
                 void* output,
                 const CollectiveArguments& given) {
  LOCKSTEP_ASSIGN_OR_RETURN(const CheckedArguments call, Check(given));
  LOCKSTEP_RETURN_IF_ERROR(CheckMemory({"input", input, given.count, call.type, 1}));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckMemory({"output", output, given.count, call.type, session.world_size()}));
  const std::size_t block = call.count * DataTypeSize(call.type);
  if (block > 0) {
    std::memmove(static_cast<std::byte*>(output) + block * static_cast<std::size_t>(session.rank()),
                 input,
                 block);
  }
  return session.AllGather({output, call.count, call.type, ReduceOp::kGather, call.terms},
                           call.deadline);
}

Status Broadcast(LibrarySession& session, void* data, int root, const CollectiveArguments& given) {
  LOCKSTEP_ASSIGN_OR_RETURN(const CheckedArguments call, Check(given));
  LOCKSTEP_RETURN_IF_ERROR(CheckMemory({"data", data, given.count, call.type, 1}));
  if (root < 0 || root >= session.world_size()) {
    return Error(ErrorCode::kInvalidArgument,
                 "root: there is no rank " + std::to_string(root) + "; the number of ranks is " +
                     std::to_string(session.world_size()));
  }
  return session.Broadcast(
      {data, call.count, call.type, ReduceOp::kSum, call.terms}, root, call.deadline);
}

}  // namespace
}  // namespace lockstep::runtime

namespace run = lockstep::runtime;

const char* lockstep_version(void) {
  return LOCKSTEP_VERSION;
}

const char* lockstep_last_error(void) {
  return run::LastSentence();
}

int lockstep_last_system_error(void) {
  return run::LastSystemNumber();
}

lockstep_status lockstep_open(const lockstep_options* options, lockstep_session** session) {
  return run::Guarded([&]() -> run::ApiOutcome {
    if (session == nullptr) {
      return run::InvalidArgument("session is null");
    }
    *session = nullptr;
    lockstep_options usual{};
    usual.struct_size = sizeof(usual);
    const auto given = options == nullptr ? usual : run::Read(options);
    if (!given.has_value()) {
      return run::InvalidArgument("options: struct_size is not the size of the struct");
    }
    const run::ApiOutcome sound = run::CheckOptions(*given);
    return sound.ok() ? run::OpenTheSession(*given, session) : sound;
  });
}

lockstep_status lockstep_meet(lockstep_session* session,
                              int has_state,
                              int64_t step,
                              double timeout_seconds,
                              lockstep_meeting* meeting) {
  return run::InSession(session, [&](run::LibrarySession& open) -> run::ApiOutcome {
    const auto deadline = run::DeadlineOf(timeout_seconds);
    if (!deadline.ok()) {
      return run::OutcomeOf(deadline.error());
    }
    if (step < 0) {
      return run::InvalidArgument("step: " + std::to_string(step) + " found, expected 0 or more");
    }
    if (!run::Read(meeting).has_value()) {
      return run::InvalidArgument(run::SizeProblem("meeting"));
    }
    return run::Meet(open, {has_state != 0, lockstep::Step(step), 0}, *deadline, meeting);
  });
}

lockstep_status lockstep_get_member(lockstep_session* session, int rank, lockstep_member* member) {
  return run::InSession(session, [&](run::LibrarySession& open) -> run::ApiOutcome {
    if (open.members().empty()) {
      return run::NotMet();
    }
    if (rank < 0 || static_cast<std::size_t>(rank) >= open.members().size()) {
      return run::InvalidArgument("rank: there is no rank " + std::to_string(rank));
    }
    if (!run::Read(member).has_value()) {
      return run::InvalidArgument(run::SizeProblem("member"));
    }
    const run::MemberFacts& facts = open.members()[static_cast<std::size_t>(rank)];
    lockstep_member filled{};
    filled.rank = facts.rank;
    filled.has_state = facts.has_state ? 1 : 0;
    filled.step = facts.last_applied.value();
    filled.incarnation = facts.incarnation.value();
    facts.host_id.copy(filled.host, sizeof(filled.host) - 1);
    run::Write(filled, member);
    return {};
  });
}

lockstep_status lockstep_all_reduce(lockstep_session* session,
                                    void* data,
                                    uint64_t count,
                                    int type,
                                    int op,
                                    double timeout_seconds) {
  return run::InSession(session, [&](run::LibrarySession& open) {
    return run::OutcomeOf(run::AllReduce(open, data, {count, type, op, timeout_seconds}));
  });
}

lockstep_status lockstep_all_reduce_begin(lockstep_session* session,
                                          void* data,
                                          uint64_t count,
                                          int type,
                                          int op,
                                          double timeout_seconds,
                                          uint64_t* handle) {
  return run::InSession(session, [&](run::LibrarySession& open) -> run::ApiOutcome {
    if (handle == nullptr) {
      return run::InvalidArgument("handle is null");
    }
    const auto begun = run::BeginAllReduce(open, data, {count, type, op, timeout_seconds});
    if (!begun.ok()) {
      return run::OutcomeOf(begun.error());
    }
    *handle = *begun;
    return {};
  });
}

lockstep_status lockstep_wait(lockstep_session* session, uint64_t handle) {
  return run::InSession(session, [&](run::LibrarySession& open) {
    return run::OutcomeOf(open.calls().Claim(handle));
  });
}

lockstep_status lockstep_has_ended(lockstep_session* session, uint64_t handle, int* has_ended) {
  return run::InSession(session, [&](run::LibrarySession& open) -> run::ApiOutcome {
    const lockstep::Result<bool> ended = open.calls().HasEnded(handle);
    if (!ended.ok() || has_ended == nullptr) {
      return ended.ok() ? run::InvalidArgument("has_ended is null") : run::OutcomeOf(ended.error());
    }
    *has_ended = *ended ? 1 : 0;
    return {};
  });
}

lockstep_status lockstep_reduce_scatter(lockstep_session* session,
                                        const void* input,
                                        void* output,
                                        uint64_t count,
                                        int type,
                                        int op,
                                        double timeout_seconds) {
  return run::InSession(session, [&](run::LibrarySession& open) {
    return run::OutcomeOf(
        run::ReduceScatter(open, input, output, {count, type, op, timeout_seconds}));
  });
}

lockstep_status lockstep_all_gather(lockstep_session* session,
                                    const void* input,
                                    void* output,
                                    uint64_t count,
                                    int type,
                                    double timeout_seconds) {
  return run::InSession(session, [&](run::LibrarySession& open) {
    return run::OutcomeOf(
        run::AllGather(open, input, output, {count, type, LOCKSTEP_SUM, timeout_seconds}));
  });
}

lockstep_status lockstep_broadcast(lockstep_session* session,
                                   void* data,
                                   uint64_t count,
                                   int type,
                                   int root,
                                   double timeout_seconds) {
  return run::InSession(session, [&](run::LibrarySession& open) {
    return run::OutcomeOf(
        run::Broadcast(open, data, root, {count, type, LOCKSTEP_SUM, timeout_seconds}));
  });
}

lockstep_status lockstep_barrier(lockstep_session* session, double timeout_seconds) {
  return run::InSession(session, [&](run::LibrarySession& open) {
    return run::Until(timeout_seconds,
                      [&](lockstep::Deadline deadline) { return open.Barrier(deadline); });
  });
}

lockstep_status lockstep_should_stop(lockstep_session* session,
                                     int* should_stop,
                                     double timeout_seconds) {
  return run::InSession(session, [&](run::LibrarySession& open) -> run::ApiOutcome {
    const auto deadline = run::DeadlineOf(timeout_seconds);
    if (!deadline.ok() || should_stop == nullptr) {
      return deadline.ok() ? run::InvalidArgument("should_stop is null")
                           : run::OutcomeOf(deadline.error());
    }
    if (run::StopCatcher::WasAsked()) {
      open.Stop();
    }
    const lockstep::Result<run::Leave> leave = open.ShouldStop(*deadline);
    if (!leave.ok()) {
      return run::OutcomeOf(leave.error());
    }
    *should_stop = static_cast<int>(*leave);
    return {};
  });
}

lockstep_status lockstep_should_save(lockstep_session* session, int* should_save) {
  return run::InSession(session, [&](run::LibrarySession& open) -> run::ApiOutcome {
    if (open.members().empty()) {
      return run::NotMet();
    }
    if (should_save == nullptr) {
      return run::InvalidArgument("should_save is null");
    }
    *should_save = open.ShouldSave() ? 1 : 0;
    return {};
  });
}

int lockstep_stop_requested(lockstep_session* session) {
  int is_requested = 0;
  static_cast<void>(run::Guarded([&] {
    const run::SessionUse use = run::LookUpSession(session);
    is_requested =
        use.outcome.ok() && (run::StopCatcher::WasAsked() || use.open->session->is_stop_requested())
            ? 1
            : 0;
    return use.outcome;
  }));
  return is_requested;
}

lockstep_status lockstep_abort(lockstep_session* session, const char* reason) {
  return run::BesideCalls(session, [&](run::LibrarySession& open) -> run::ApiOutcome {
    open.Abort(lockstep::Error(lockstep::ErrorCode::kAborted,
                               reason == nullptr ? "aborted by the program" : reason));
    return {};
  });
}

lockstep_status lockstep_await_loss(lockstep_session* session,
                                    int64_t epoch,
                                    double timeout_seconds) {
  return run::BesideCalls(session, [&](const run::LibrarySession& open) {
    return run::Until(timeout_seconds, [&](lockstep::Deadline deadline) {
      return open.AwaitLoss(lockstep::Epoch(epoch), deadline)
          .value_or(lockstep::Error(lockstep::ErrorCode::kTimeout, "no rank was lost"));
    });
  });
}

lockstep_status lockstep_report(lockstep_session* session, const lockstep_progress* progress) {
  return run::InAnySession(session, [&](run::LibrarySession& open) {
    const auto given = run::Read(progress);
    return given.has_value() ? run::Report(open, *given)
                             : run::InvalidArgument(run::SizeProblem("progress"));
  });
}

lockstep_status lockstep_report_mismatch(lockstep_session* session, const char* sentence) {
  return run::InSession(session, [&](run::LibrarySession& open) -> run::ApiOutcome {
    if (sentence == nullptr) {
      return run::InvalidArgument("sentence is null");
    }
    open.report().Differed(sentence);
    return {};
  });
}

lockstep_status lockstep_finish(lockstep_session* session, double timeout_seconds) {
  return run::InSession(session, [&](run::LibrarySession& open) {
    return run::Until(timeout_seconds,
                      [&](lockstep::Deadline deadline) { return open.Finish(deadline); });
  });
}

lockstep_status lockstep_close(lockstep_session* session) {
  return run::Guarded([&] { return run::CloseTheSession(session); });
}
