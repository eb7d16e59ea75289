#pragma once

// liblockstep: what the built-in trainer of Lockstep has, for a program of your own. Processes of a
// TrainingJob meet, reduce and broadcast together, and meet again after one of them was lost: the
// others keep their processes and what they hold in memory.
//
//   lockstep_open
//   again: lockstep_meet        tells who holds the newest state
//          lockstep_broadcast   of that state, where anybody holds one
//          lockstep_all_reduce  and its kin, step after step; lockstep_report
//          an error that LOCKSTEP_MEET_AGAIN: forget the unfinished step, and again;
//          one of lockstep_meet itself: close, and end with code 75
//   lockstep_finish, lockstep_close
//
// docs/reference/own-programs.md has the whole story; examples/own_program.c is a first program.
//
// Terms of every function:
// - C99, and the same in C++. Symbols are versioned; what is here keeps its meaning, and structures
//   grow at their ends only: set `struct_size` to sizeof the structure first.
// - Memory is the host's. GPUs are refused.
// - Errors are codes, with one sentence in lockstep_last_error(). Nothing here ends the process.
// - `timeout_seconds`, above 0 and finite, bounds the whole call.
// - Thread: one at a time, else LOCKSTEP_ERROR_BUSY; lockstep_abort, lockstep_await_loss,
//   lockstep_stop_requested and lockstep_last_error from any.

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOCKSTEP_API_VERSION 1

// One process's part in its job. What it points at is nobody's to read.
typedef struct lockstep_session lockstep_session;

typedef enum lockstep_status {
  LOCKSTEP_OK = 0,
  LOCKSTEP_ERROR_INVALID_ARGUMENT = 1,  // of this call; nobody else hears of it
  LOCKSTEP_ERROR_NO_JOB = 2,            // the environment describes no rank of a job
  LOCKSTEP_ERROR_ALREADY_OPEN = 3,      // use the session that is open, or close it first
  LOCKSTEP_ERROR_CLOSED = 4,            // no session of that handle is open
  LOCKSTEP_ERROR_FORKED = 5,            // the session is the parent's: a fork cannot use it
  LOCKSTEP_ERROR_BUSY = 6,              // another thread is in a call
  LOCKSTEP_ERROR_NOT_MET = 7,           // no meeting yet: call lockstep_meet
  LOCKSTEP_ERROR_LOST_PEER = 8,         // a rank is gone: meet again
  LOCKSTEP_ERROR_TIMEOUT = 9,           // the sentence names whom this rank waited for
  LOCKSTEP_ERROR_MISMATCH = 10,         // ranks called different things; names two of them. Exit
                                        // code 0 is no success until a meeting is joined after it
  LOCKSTEP_ERROR_ABORTED = 11,          // lockstep_abort was called, here or by a peer
  LOCKSTEP_ERROR_SUPERSEDED = 12,       // another process stands for this rank: exit with code 76
  LOCKSTEP_ERROR_FINISHED = 13,         // all others have finished: there is no work left
  LOCKSTEP_ERROR_SYSTEM = 14,           // the operating system refused something
  LOCKSTEP_ERROR_INTERNAL = 15,         // a fault of ours
  LOCKSTEP_ERROR_STOPPED = 16,          // this process was asked to stop: end with code 42
  LOCKSTEP_ERROR_TAKEN_OVER = 17,       // another job writes to this folder of checkpoints by now
  LOCKSTEP_ERROR_DAMAGED = 18           // a file is not what was written
} lockstep_status;

// Whether lockstep_meet is the answer to a status: what was lost is made good by others.
#define LOCKSTEP_MEET_AGAIN(status)                                              \
  ((status) == LOCKSTEP_ERROR_LOST_PEER || (status) == LOCKSTEP_ERROR_TIMEOUT || \
   (status) == LOCKSTEP_ERROR_ABORTED)

typedef enum lockstep_type {
  LOCKSTEP_UINT8 = 0,
  LOCKSTEP_INT32 = 1,
  LOCKSTEP_INT64 = 2,
  LOCKSTEP_FLOAT32 = 3,
  LOCKSTEP_FLOAT64 = 4,
  LOCKSTEP_FLOAT16 = 5,  // IEEE 754 binary16
  LOCKSTEP_BFLOAT16 = 6
} lockstep_type;

// The `type` of a collective with a word of the program's own, such as a hash of a shape, of which
// the lowest 23 bits count: ranks that come with another type or word fail with MISMATCH.
#define LOCKSTEP_TYPE_WITH(type, word) ((type) + (int)((word)&0x7fffff) * 256)

// Sums of integers wrap around; integers have no mean. 16-bit floats are rounded after each
// addition.
typedef enum lockstep_op {
  LOCKSTEP_SUM = 0,
  LOCKSTEP_MIN = 1,
  LOCKSTEP_MAX = 2,
  LOCKSTEP_MEAN = 3
} lockstep_op;

typedef enum lockstep_phase {
  LOCKSTEP_PHASE_KEEP = 0,       // as it is: `rendezvous` in lockstep_meet, `training` after it
  LOCKSTEP_PHASE_RESTORING = 1,  // `step` is where the program goes on from, and none is taken yet
  LOCKSTEP_PHASE_TRAINING = 2,
  LOCKSTEP_PHASE_CHECKPOINTING = 3,
  LOCKSTEP_PHASE_EVALUATING = 4,
  LOCKSTEP_PHASE_STOPPING = 5
} lockstep_phase;

// How a rank is to leave that was asked to stop.
typedef enum lockstep_leave {
  LOCKSTEP_LEAVE_TOGETHER = 1,  // after the same step as all others
  LOCKSTEP_LEAVE_ALONE = 2      // the others go on with its successor
} lockstep_leave;

typedef struct lockstep_options {
  uint64_t struct_size;
  // What must be equal on all ranks for them to work together, such as the text of a configuration;
  // ranks that differ do not meet. Null: nothing.
  const char* plan;
  // 0 or 1. 1: SIGTERM no longer ends this process but is a request to stop, until lockstep_close.
  // Only where SIGTERM has its default action.
  int32_t catch_stop;
  // 0 or 1. 1: the session reports and hears of stops, and no more. It listens nowhere, so another
  // library may at this process's address, and nobody waits for it or replaces it. Calls that need
  // others are INVALID_ARGUMENT; so is a plan.
  int32_t report_only;
  // 0 or 1. 1: this process stands for its whole pod, whose other processes it starts itself, as a
  // launcher does: the ranks of its meetings are the job's pods. So on all ranks.
  int32_t one_per_pod;
  int32_t reserved;
} lockstep_options;

typedef struct lockstep_meeting {
  uint64_t struct_size;
  int64_t epoch;         // grows with each meeting
  int32_t rank;          // of this process, from 0; the same in all meetings
  int32_t size;          // ranks of the job
  int32_t state_source;  // the lowest of those that applied the most steps; -1: nobody has a state
  int32_t reserved;
} lockstep_meeting;

// One rank of the newest meeting, equal on all ranks.
typedef struct lockstep_member {
  uint64_t struct_size;
  int64_t step;         // as it said in lockstep_meet
  int64_t incarnation;  // differs from the last meeting's: another process stands for the rank
  int32_t rank;
  int32_t has_state;
  char host[64];  // equal for ranks on one host; ends with a zero
} lockstep_member;

// Figures for the job's status and metrics. Not known: -1, or NaN. A loss may be any number, and is
// shown where it is finite.
typedef struct lockstep_progress {
  uint64_t struct_size;
  int64_t step;  // updates applied
  int64_t steps_total;
  int64_t data_epoch;
  int64_t sample_count;  // that this rank used in the step
  double loss;
  double accuracy;  // a share, from 0 to 1
  double samples_per_second;
  int32_t phase;  // a lockstep_phase
  int32_t reserved;
} lockstep_progress;

// The library's version, "0.1.0".
const char* lockstep_version(void);

// The sentence of this thread's newest error; empty before the first. Good until the thread's next
// call. Never null.
const char* lockstep_last_error(void);

// The errno that the operating system gave for this thread's newest error; 0 where it gave none.
int lockstep_last_system_error(void);

// Opens this process's session from its environment, as `lockstep run` and the operator make it,
// and starts to look for the other ranks, at the address that TF_CONFIG has for this one. `options`
// may be null. Errors: NO_JOB, ALREADY_OPEN, FORKED, INVALID_ARGUMENT, SYSTEM (the address is
// taken).
lockstep_status lockstep_open(const lockstep_options* options, lockstep_session** session);

// Waits until all ranks of the job have called it, and joins them. `has_state` and `step` say what
// this rank holds: whether it has a state, and how many steps were applied to it. The last meeting
// is over from here on. A loss on the way is no error: waits for the successor. Errors: TIMEOUT
// (names who is missing), MISMATCH (plans differ), SUPERSEDED, FINISHED, STOPPED, ABORTED.
lockstep_status lockstep_meet(lockstep_session* session,
                              int has_state,
                              int64_t step,
                              double timeout_seconds,
                              lockstep_meeting* meeting);

// Member `rank` of the newest meeting. Errors: NOT_MET, INVALID_ARGUMENT.
lockstep_status lockstep_get_member(lockstep_session* session, int rank, lockstep_member* member);

// Collectives. All ranks make the same calls in the same order, with equal counts, types and
// operations. Results are equal to the bit on all ranks. Memory is aligned as its type asks.
// Errors: LOST_PEER, TIMEOUT, MISMATCH, ABORTED: the data hold anything, the other ranks fail as
// well, and so does every later call until lockstep_meet. INVALID_ARGUMENT, NOT_MET.

// `data` [count], in place.
lockstep_status lockstep_all_reduce(lockstep_session* session,
                                    void* data,
                                    uint64_t count,
                                    int type,
                                    int op,
                                    double timeout_seconds);

// The same, begun and not waited for: `data` is the library's until lockstep_wait has returned.
// What was begun is carried out in that order, beside this thread; other collectives come after it.
// `timeout_seconds` counts from here. `handle` is written, and never 0. Errors: INVALID_ARGUMENT,
// NOT_MET, SYSTEM (4096 calls were not waited for).
lockstep_status lockstep_all_reduce_begin(lockstep_session* session,
                                          void* data,
                                          uint64_t count,
                                          int type,
                                          int op,
                                          double timeout_seconds,
                                          uint64_t* handle);

// Waits for the end of a call that was begun, and returns its status, once. A new meeting ends
// calls of the last one with ABORTED. Errors: those of the call; INVALID_ARGUMENT (no such call).
lockstep_status lockstep_wait(lockstep_session* session, uint64_t handle);

// Whether lockstep_wait would return at once. Errors: INVALID_ARGUMENT (no such call).
lockstep_status lockstep_has_ended(lockstep_session* session, uint64_t handle, int* has_ended);

// Block r of the reduced `input` [size x count] into `output` [count] of rank r.
lockstep_status lockstep_reduce_scatter(lockstep_session* session,
                                        const void* input,
                                        void* output,
                                        uint64_t count,
                                        int type,
                                        int op,
                                        double timeout_seconds);

// `input` [count] of rank r into block r of `output` [size x count] of all. `input` may be that
// block.
lockstep_status lockstep_all_gather(lockstep_session* session,
                                    const void* input,
                                    void* output,
                                    uint64_t count,
                                    int type,
                                    double timeout_seconds);

// `data` [count] of rank `root` to all others.
lockstep_status lockstep_broadcast(lockstep_session* session,
                                   void* data,
                                   uint64_t count,
                                   int type,
                                   int root,
                                   double timeout_seconds);

// Returns once all ranks have called it.
lockstep_status lockstep_barrier(lockstep_session* session, double timeout_seconds);

// Whether this rank should leave now, at the end of a step, when all ranks hold what is trained:
// LOCKSTEP_LEAVE_TOGETHER on all ranks once all were asked to stop, so that all leave after the
// same step; LOCKSTEP_LEAVE_ALONE on a rank that was asked a second ago while others were not, and
// go on with its successor; else 0. Collective, as the above. Whoever leaves before the work is
// done does not call lockstep_finish but lockstep_close, and ends with code 42.
lockstep_status lockstep_should_stop(lockstep_session* session,
                                     int* should_stop,
                                     double timeout_seconds);

// After STOPPED, or a loss while this process is asked to stop: whether this rank is to save what
// it holds, 1 or 0. 1 where no lower rank of the newest meeting that holds a state is left. Who
// holds one: whoever brought it to that meeting, the one whose state all take, and once all have
// called lockstep_should_stop in it all ranks. A lower rank may be leaving: waits until this is so,
// for as long as a loss takes to be noticed (2 s by the defaults), else 0. Not collective. Errors:
// NOT_MET.
lockstep_status lockstep_should_save(lockstep_session* session, int* should_save);

// Whether this process was asked to stop (`catch_stop`): 1 or 0, also where nothing is open.
int lockstep_stop_requested(lockstep_session* session);

// Ends the call in progress, here and on the other ranks, with ABORTED and `reason`, which may be
// null. All may meet again. Thread: any; not from a signal handler.
lockstep_status lockstep_abort(lockstep_session* session, const char* reason);

// Waits until the meeting of `epoch` is over, beside whatever other threads do. For programs whose
// ranks talk by another library: they end its calls then. Errors: LOST_PEER, ABORTED (the meeting
// is over); TIMEOUT (it stands, and `timeout_seconds` have passed). Thread: any; lockstep_close
// takes effect when the wait has ended, so wait for short times.
lockstep_status lockstep_await_loss(lockstep_session* session,
                                    int64_t epoch,
                                    double timeout_seconds);

// Shows how far this rank is, in `lockstep run`, `kubectl get tj` and metrics. Does not wait. Say
// each step: a process that is lost again without one in between gets no successor in its pod.
// Errors: INVALID_ARGUMENT (no such phase; a count below -1; a step below one that was reported
// since lockstep_meet; an accuracy that is no share, or a pace that is infinite or below 0, and
// neither is -1).
lockstep_status lockstep_report(lockstep_session* session, const lockstep_progress* progress);

// Ranks have come with different things, as the program itself has found; `sentence` says which. As
// after MISMATCH, exit code 0 of this rank is no success from here on, until a meeting is joined.
// Does not wait. Errors: INVALID_ARGUMENT (`sentence` is null).
lockstep_status lockstep_report_mismatch(lockstep_session* session, const char* sentence);

// All work is done: waits until all ranks have called it. Nobody meets after that. Collective.
// Write before it what must last: where a signal ends the process later, it counts as ended with 0.
// Without it, exit code 0 of a rank that has reported steps_total is no success. Errors: as
// collectives; those that LOCKSTEP_MEET_AGAIN are answered by lockstep_meet, which says FINISHED
// where the others know already.
lockstep_status lockstep_finish(lockstep_session* session, double timeout_seconds);

// Leaves the job: peers that still work with this rank lose it. Tells what was reported last, so it
// comes before every end, that of a stop as well. The handle means nothing after that. Errors:
// CLOSED, FORKED, BUSY.
lockstep_status lockstep_close(lockstep_session* session);

// Checkpoints: folders as docs/reference/checkpoints.md describes them, of a program of your own.
// They need no session. A handle is good until its close. Thread: one at a time for each store, but
// lockstep_checkpoint_write beside calls that read.

// A folder of checkpoints.
typedef struct lockstep_checkpoint_store lockstep_checkpoint_store;

typedef struct lockstep_tensor {
  const char* name;
  const char* type;      // as safetensors calls it: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL
  const int64_t* shape;  // [dimensions]
  uint64_t dimensions;
  const void* data;  // [bytes], little-endian, row-major; of any alignment
  uint64_t bytes;
} lockstep_tensor;

// Hears of a checkpoint that is skipped, or of a damaged fence, in the thread of the call.
typedef void (*lockstep_checkpoint_report)(const char* sentence);

// What a checkpoint holds. Counts are not negative.
typedef struct lockstep_checkpoint {
  uint64_t struct_size;
  int64_t step;
  int64_t data_epoch;
  int64_t position;  // samples of that data epoch that were used
  int64_t samples_consumed;
  int64_t seed;
  int32_t world_size;
  int32_t is_finite;        // 0 or 1: whether all values are finite numbers
  const char* settings;     // a JSON object; null where `program` has not written it
  const char* description;  // any text, as of how tensors make up a state; likewise
  const lockstep_tensor* tensors;
  uint64_t tensor_count;
  const char* folder;  // of one that was read; not looked at in a write
} lockstep_checkpoint;

// Touches no file. `program` names what is written: settings and description are found by it.
// `keep`: complete checkpoints that stay after a write; 0: nothing is written, and no sentence says
// how a job could begin again. `report` is called with a sentence on each checkpoint that is
// skipped and on a damaged fence, in the thread of the call; it may be null. Errors:
// INVALID_ARGUMENT.
lockstep_status lockstep_checkpoint_open_store(const char* directory,
                                               const char* program,
                                               int keep,
                                               lockstep_checkpoint_report report,
                                               lockstep_checkpoint_store** store);

// Null is fine.
lockstep_status lockstep_checkpoint_close_store(lockstep_checkpoint_store* store);

// Makes the folder, and what is missing above it, to outlive a power cut. Nothing else here makes
// it: where it is gone, what should be mounted there may be missing. Errors: INVALID_ARGUMENT.
lockstep_status lockstep_checkpoint_make_directory(lockstep_checkpoint_store* store);

// Makes this process the one that writes, in this name, and removes what dead writers left half
// done. A writer of a job follows another by attempt, then incarnation, then epoch. Errors:
// SUPERSEDED (a newer writer of the job holds the folder), TAKEN_OVER (another job does), SYSTEM,
// INVALID_ARGUMENT.
lockstep_status lockstep_checkpoint_claim(lockstep_checkpoint_store* store,
                                          const char* job_uid,
                                          int64_t attempt,
                                          int64_t epoch,
                                          int64_t incarnation);

// Writes a checkpoint, from the tensors' own memory: it appears whole, on the disk, or not at all.
// What stood at its step is replaced; then old ones are removed. Precondition: claim. Errors: those
// of claim, DAMAGED (the fence).
lockstep_status lockstep_checkpoint_write(lockstep_checkpoint_store* store,
                                          const lockstep_checkpoint* checkpoint);

// Whether the checkpoint of `step` is there and complete: 0 or 1; 2 where it was also written in
// this name. Its tensors are not hashed. Errors: INVALID_ARGUMENT.
lockstep_status lockstep_checkpoint_verify(lockstep_checkpoint_store* store,
                                           int64_t step,
                                           const char* job_uid,
                                           int64_t attempt,
                                           int64_t epoch,
                                           int64_t incarnation,
                                           int* found);

// The newest checkpoint whose files verify, of a step below `below`; null where there is none. It
// is good until its close. Those that do not verify are reported and skipped. Errors: MISMATCH (a
// later release wrote it), DAMAGED (all are damaged), SYSTEM (one, or the folder, cannot be read:
// it may be whole).
lockstep_status lockstep_checkpoint_open(lockstep_checkpoint_store* store,
                                         int64_t below,
                                         const lockstep_checkpoint** checkpoint);

// Of one that lockstep_checkpoint_open gave. Null is fine.
lockstep_status lockstep_checkpoint_close(const lockstep_checkpoint* checkpoint);

#ifdef __cplusplus
}
#endif
