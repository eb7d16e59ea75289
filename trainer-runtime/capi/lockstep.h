#pragma once

// liblockstep: the recovery of Lockstep's built-in trainer, for your own program. The processes of
// a TrainingJob join a rendezvous, then reduce and broadcast together. If a process is lost, the
// others keep running with their memory, and all join a new rendezvous. Here a rendezvous is called
// a meeting.
//
//   lockstep_open
//   again: lockstep_meet        says which rank holds the newest state
//          lockstep_broadcast   copies this state, if there is one
//          lockstep_all_reduce  and other collectives in each step; lockstep_report
//          on an error for which LOCKSTEP_MEET_AGAIN is true: forget the unfinished step, and
//          repeat; if lockstep_meet itself fails so: close, and end with code 75
//   lockstep_finish, lockstep_close
//
// docs/reference/own-programs.md explains all of it; examples/own_program.c is a first program.
//
// Rules for all functions:
// - C99, also valid as C++. Symbols are versioned and keep their meaning. New members are added
//   only at the end of a structure: set `struct_size` to the size of the structure first.
// - Memory must be the host's; memory of GPUs is refused.
// - Errors are codes; lockstep_last_error() has a sentence. No function ends the process.
// - `timeout_seconds` limits the whole call. It must be finite and above 0.
// - Thread: one at a time, else LOCKSTEP_ERROR_BUSY. Any thread may call lockstep_abort,
//   lockstep_await_loss, lockstep_stop_requested and lockstep_last_error.

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOCKSTEP_API_VERSION 1

// The session of a process in its job. Programs cannot read what it points at.
typedef struct lockstep_session lockstep_session;

typedef enum lockstep_status {
  LOCKSTEP_OK = 0,
  LOCKSTEP_ERROR_INVALID_ARGUMENT = 1,  // an argument is wrong; other ranks are not affected
  LOCKSTEP_ERROR_NO_JOB = 2,            // the environment does not describe a rank of a job
  LOCKSTEP_ERROR_ALREADY_OPEN = 3,      // use the open session, or close it first
  LOCKSTEP_ERROR_CLOSED = 4,            // the handle belongs to no open session
  LOCKSTEP_ERROR_FORKED = 5,            // the session belongs to the parent process
  LOCKSTEP_ERROR_BUSY = 6,              // another thread is in a call
  LOCKSTEP_ERROR_NOT_MET = 7,           // no meeting yet: call lockstep_meet
  LOCKSTEP_ERROR_LOST_PEER = 8,         // a rank is lost: call lockstep_meet again
  LOCKSTEP_ERROR_TIMEOUT = 9,           // the sentence names the ranks that did not come
  LOCKSTEP_ERROR_MISMATCH = 10,         // ranks made different calls; names two of them. From now
                                        // on, exit code 0 is a failure until the next meeting
  LOCKSTEP_ERROR_ABORTED = 11,          // this rank or another one called lockstep_abort
  LOCKSTEP_ERROR_SUPERSEDED = 12,       // a newer process has this rank: exit with code 76
  LOCKSTEP_ERROR_FINISHED = 13,         // the other ranks have finished; no work is left
  LOCKSTEP_ERROR_SYSTEM = 14,           // the operating system reported an error
  LOCKSTEP_ERROR_INTERNAL = 15,         // a bug in Lockstep
  LOCKSTEP_ERROR_STOPPED = 16,          // this process was asked to stop: end with code 42
  LOCKSTEP_ERROR_TAKEN_OVER = 17,       // another job has taken over this checkpoint folder
  LOCKSTEP_ERROR_DAMAGED = 18           // a file is damaged
} lockstep_status;

// Whether to call lockstep_meet after this status: recovery is then possible.
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

// The `type` of a collective together with a number of your own, such as the hash of a shape. Only
// the lowest 23 bits of the number count. If type or number differ between ranks, the call fails
// with MISMATCH.
#define LOCKSTEP_TYPE_WITH(type, word) ((type) + (int)((word)&0x7fffff) * 256)

// Sums of integers wrap around. MEAN needs floats. Sums of 16-bit floats are rounded after each
// addition.
typedef enum lockstep_op {
  LOCKSTEP_SUM = 0,
  LOCKSTEP_MIN = 1,
  LOCKSTEP_MAX = 2,
  LOCKSTEP_MEAN = 3
} lockstep_op;

typedef enum lockstep_phase {
  LOCKSTEP_PHASE_KEEP = 0,       // unchanged: `rendezvous` in lockstep_meet, then `training`
  LOCKSTEP_PHASE_RESTORING = 1,  // the program continues at `step`, and has taken no step yet
  LOCKSTEP_PHASE_TRAINING = 2,
  LOCKSTEP_PHASE_CHECKPOINTING = 3,
  LOCKSTEP_PHASE_EVALUATING = 4,
  LOCKSTEP_PHASE_STOPPING = 5
} lockstep_phase;

// How a rank that was asked to stop should leave.
typedef enum lockstep_leave {
  LOCKSTEP_LEAVE_TOGETHER = 1,  // after the same step as all others
  LOCKSTEP_LEAVE_ALONE = 2      // the others continue with its replacement
} lockstep_leave;

typedef struct lockstep_options {
  uint64_t struct_size;
  // A text that must be equal on all ranks, such as a configuration; otherwise the rendezvous
  // fails. Null: none.
  const char* plan;
  // 0 or 1. 1: until lockstep_close, SIGTERM does not end this process but becomes a request to
  // stop. The program must not have its own handler for SIGTERM.
  int32_t catch_stop;
  // 0 or 1. 1: the session only reports and receives requests to stop. It opens no port, so another
  // library may use this process's address. Other ranks do not wait for it, and it is not replaced.
  // Calls that need other ranks fail with INVALID_ARGUMENT, and so does a plan.
  int32_t report_only;
  // 0 or 1. 1: this process represents its whole pod, as a launcher does that starts the other
  // processes of the pod. The ranks are then the pods of the job. It must be equal on all ranks.
  int32_t one_per_pod;
  int32_t reserved;
} lockstep_options;

typedef struct lockstep_meeting {
  uint64_t struct_size;
  int64_t epoch;         // grows with each meeting
  int32_t rank;          // rank of this process, from 0; never changes
  int32_t size;          // number of ranks of the job
  int32_t state_source;  // the lowest rank with the newest state; -1: no rank has one
  int32_t reserved;
} lockstep_meeting;

// One rank of the newest meeting. All ranks see the same.
typedef struct lockstep_member {
  uint64_t struct_size;
  int64_t step;         // as this rank said in lockstep_meet
  int64_t incarnation;  // changes when another process takes the rank
  int32_t rank;
  int32_t has_state;
  char host[64];  // equal for ranks on one host; ends with a zero
} lockstep_member;

// Numbers for the job's status and metrics. -1 or NaN: not known. `loss` may be any number; it is
// shown if it is finite.
typedef struct lockstep_progress {
  uint64_t struct_size;
  int64_t step;  // updates applied
  int64_t steps_total;
  int64_t data_epoch;
  int64_t sample_count;  // samples that this rank used in the step
  double loss;
  double accuracy;  // a share, from 0 to 1
  double samples_per_second;
  int32_t phase;  // a lockstep_phase
  int32_t reserved;
} lockstep_progress;

// The library's version, "0.1.0".
const char* lockstep_version(void);

// The sentence of this thread's newest error; empty before the first error. Valid until the
// thread's next call. Never null.
const char* lockstep_last_error(void);

// The errno of this thread's newest error; 0 if the operating system gave none.
int lockstep_last_system_error(void);

// Opens the session of this process from the environment variables that `lockstep run` and the
// operator set. It listens at this process's address in TF_CONFIG, and starts to connect to the
// other ranks. `options` may be null. Errors: NO_JOB, ALREADY_OPEN, FORKED, INVALID_ARGUMENT,
// SYSTEM (the address is taken).
lockstep_status lockstep_open(const lockstep_options* options, lockstep_session** session);

// Joins a new meeting, and waits until all ranks of the job have called it. `has_state`: whether
// this rank has a state. `step`: how many steps were applied to it. This call ends the previous
// meeting. If a rank is lost meanwhile, it waits for the replacement. Errors: TIMEOUT (names the
// missing ranks), MISMATCH (plans differ), SUPERSEDED, FINISHED, STOPPED, ABORTED.
lockstep_status lockstep_meet(lockstep_session* session,
                              int has_state,
                              int64_t step,
                              double timeout_seconds,
                              lockstep_meeting* meeting);

// Member `rank` of the newest meeting. Errors: NOT_MET, INVALID_ARGUMENT.
lockstep_status lockstep_get_member(lockstep_session* session, int rank, lockstep_member* member);

// Collectives. All ranks make the same calls in the same order, with equal counts, types and
// operations. Results are equal bit by bit on all ranks. Memory must be aligned for its type.
// Errors: LOST_PEER, TIMEOUT, MISMATCH, ABORTED, INVALID_ARGUMENT, NOT_MET. After the first four,
// the data are undefined, the other ranks fail as well, and so does every call until lockstep_meet.

// Reduces `data` [count] over all ranks, in place.
lockstep_status lockstep_all_reduce(lockstep_session* session,
                                    void* data,
                                    uint64_t count,
                                    int type,
                                    int op,
                                    double timeout_seconds);

// Like lockstep_all_reduce, but in the background. Do not use `data` until lockstep_wait has
// returned. Calls in the background run in the order of their start, before other collectives that
// follow. `timeout_seconds` counts from this call. Writes `handle`, which is never 0. Errors:
// INVALID_ARGUMENT, NOT_MET, SYSTEM (the program has not waited for 4096 calls).
lockstep_status lockstep_all_reduce_begin(lockstep_session* session,
                                          void* data,
                                          uint64_t count,
                                          int type,
                                          int op,
                                          double timeout_seconds,
                                          uint64_t* handle);

// Waits for a call in the background, and returns its status, once. A new meeting ends the calls of
// the previous one with ABORTED. Errors: those of the call; INVALID_ARGUMENT (no such call).
lockstep_status lockstep_wait(lockstep_session* session, uint64_t handle);

// Whether lockstep_wait would return at once. Errors: INVALID_ARGUMENT (no such call).
lockstep_status lockstep_has_ended(lockstep_session* session, uint64_t handle, int* has_ended);

// Reduces `input` [size x count] over all ranks. Rank r gets block r in `output` [count].
lockstep_status lockstep_reduce_scatter(lockstep_session* session,
                                        const void* input,
                                        void* output,
                                        uint64_t count,
                                        int type,
                                        int op,
                                        double timeout_seconds);

// Copies `input` [count] of each rank r into block r of `output` [size x count] on all ranks.
// `input` may be this block.
lockstep_status lockstep_all_gather(lockstep_session* session,
                                    const void* input,
                                    void* output,
                                    uint64_t count,
                                    int type,
                                    double timeout_seconds);

// Copies `data` [count] from rank `root` to all other ranks.
lockstep_status lockstep_broadcast(lockstep_session* session,
                                   void* data,
                                   uint64_t count,
                                   int type,
                                   int root,
                                   double timeout_seconds);

// Waits until all ranks have called it.
lockstep_status lockstep_barrier(lockstep_session* session, double timeout_seconds);

// Whether this rank should leave now. Call it at the end of a step, when all ranks hold the same
// state. It writes one of these to `should_stop`:
// - LOCKSTEP_LEAVE_TOGETHER, on all ranks: all were asked to stop, and leave after the same step.
// - LOCKSTEP_LEAVE_ALONE: only this rank was asked, a second ago. The others continue with its
//   replacement.
// - 0: do not leave.
// Collective. A rank that leaves before the work is done calls lockstep_close without
// lockstep_finish, and ends with code 42.
lockstep_status lockstep_should_stop(lockstep_session* session,
                                     int* should_stop,
                                     double timeout_seconds);

// Whether this rank should save its state: 1 or 0. Ask after STOPPED, or after a loss while this
// process is asked to stop. 1: no lower rank of the newest meeting with a state is left. A rank has
// a state if it brought one to this meeting, or is the state source; after all ranks have called
// lockstep_should_stop in the meeting, all have one. Lower ranks may be leaving, so it waits for
// them as long as it takes to notice a loss (2 s by default). Not collective. Errors: NOT_MET.
lockstep_status lockstep_should_save(lockstep_session* session, int* should_save);

// Whether this process was asked to stop (`catch_stop`): 1 or 0; works without a session.
int lockstep_stop_requested(lockstep_session* session);

// Ends the current call on all ranks with ABORTED and `reason`, which may be null. All ranks may
// then call lockstep_meet. Thread: any; not from a signal handler.
lockstep_status lockstep_abort(lockstep_session* session, const char* reason);

// Waits until the meeting of `epoch` has ended, while other threads continue. Programs that
// communicate through another library use it to know when to end that library's calls. Errors:
// LOST_PEER, ABORTED (the meeting has ended); TIMEOUT (it has not ended in time). Thread: any.
// lockstep_close waits for this call, so use short timeouts.
lockstep_status lockstep_await_loss(lockstep_session* session,
                                    int64_t epoch,
                                    double timeout_seconds);

// Shows this rank's progress in `lockstep run`, `kubectl get tj` and metrics. Does not wait. Report
// each step: a process that is lost twice without a report in between is not replaced in its pod.
// Errors: INVALID_ARGUMENT (the phase does not exist; a count is below -1; the step is below one
// that was reported since lockstep_meet; `accuracy` is not from 0 to 1; `samples_per_second` is
// infinite or negative. -1 and NaN are allowed for both).
lockstep_status lockstep_report(lockstep_session* session, const lockstep_progress* progress);

// Says that the program itself has found a difference between ranks; `sentence` describes it. As
// after MISMATCH, exit code 0 of this rank is then a failure until the next meeting. Does not wait.
// Errors: INVALID_ARGUMENT (`sentence` is null).
lockstep_status lockstep_report_mismatch(lockstep_session* session, const char* sentence);

// Says that all work is done, and waits until all ranks have called it. No meeting follows.
// Collective. Save results before it: if a signal ends the process later, it counts as success.
// Without this call, exit code 0 of a rank that has reported steps_total is a failure. Errors: as
// collectives. If LOCKSTEP_MEET_AGAIN is true for the error, call lockstep_meet; it returns
// FINISHED if the other ranks have finished already.
lockstep_status lockstep_finish(lockstep_session* session, double timeout_seconds);

// Leaves the job: ranks that still work lose this rank. It sends the last report, so call it before
// every end of the program, also after a stop. The handle is invalid afterwards. Errors: CLOSED,
// FORKED, BUSY.
lockstep_status lockstep_close(lockstep_session* session);

// Checkpoints of your own program, in the format of docs/reference/checkpoints.md. They need no
// session. A handle is valid until its close. Thread: one at a time for each store, except that
// lockstep_checkpoint_write may run at the same time as calls that read.

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

// Called with a sentence about a skipped checkpoint or a damaged fence, in the thread of the call.
typedef void (*lockstep_checkpoint_report)(const char* sentence);

// The content of a checkpoint. Counts must not be negative.
typedef struct lockstep_checkpoint {
  uint64_t struct_size;
  int64_t step;
  int64_t data_epoch;
  int64_t position;  // samples of that data epoch that were used
  int64_t samples_consumed;
  int64_t seed;
  int32_t world_size;
  int32_t is_finite;        // 0 or 1: whether all values are finite numbers
  const char* settings;     // a JSON object; null if another program wrote it
  const char* description;  // any text; null if another program wrote it
  const lockstep_tensor* tensors;
  uint64_t tensor_count;
  const char* folder;  // set when a checkpoint is read; ignored in a write
} lockstep_checkpoint;

// Opens a store without touching a file. `program`: the name under which settings and description
// are stored and found. `keep`: how many complete checkpoints stay after a write. 0: the store only
// reads, and its errors do not say how a job could begin again. `report` may be null. Errors:
// INVALID_ARGUMENT.
lockstep_status lockstep_checkpoint_open_store(const char* directory,
                                               const char* program,
                                               int keep,
                                               lockstep_checkpoint_report report,
                                               lockstep_checkpoint_store** store);

// `store` may be null.
lockstep_status lockstep_checkpoint_close_store(lockstep_checkpoint_store* store);

// Makes the folder and missing parent folders, and flushes them to disk. No other call makes the
// folder: if it is missing later, a volume may not be mounted. Errors: INVALID_ARGUMENT.
lockstep_status lockstep_checkpoint_make_directory(lockstep_checkpoint_store* store);

// Makes this process the writer of the folder, with these numbers as its identity, and removes
// unfinished files of earlier writers. Among writers of a job, the newer one has the higher
// attempt, then the higher incarnation, then the higher epoch. Errors: SUPERSEDED (a newer writer
// of the job owns the folder), TAKEN_OVER (another job owns it), SYSTEM, INVALID_ARGUMENT.
lockstep_status lockstep_checkpoint_claim(lockstep_checkpoint_store* store,
                                          const char* job_uid,
                                          int64_t attempt,
                                          int64_t epoch,
                                          int64_t incarnation);

// Writes a checkpoint directly from the tensors' memory. It appears complete on the disk, or not at
// all. It replaces a checkpoint of the same step; then old checkpoints are removed. Precondition:
// lockstep_checkpoint_claim. Errors: those of lockstep_checkpoint_claim, DAMAGED (the fence).
lockstep_status lockstep_checkpoint_write(lockstep_checkpoint_store* store,
                                          const lockstep_checkpoint* checkpoint);

// Whether the checkpoint of `step` exists and is complete. 0: no. 1: yes. 2: yes, and this writer
// wrote it. It does not check the hash of the tensors. Errors: INVALID_ARGUMENT.
lockstep_status lockstep_checkpoint_verify(lockstep_checkpoint_store* store,
                                           int64_t step,
                                           const char* job_uid,
                                           int64_t attempt,
                                           int64_t epoch,
                                           int64_t incarnation,
                                           int* found);

// Opens the newest valid checkpoint of a step below `below`; null: there is none. It is valid until
// its close. Damaged checkpoints are reported and skipped. Errors: MISMATCH (a later release wrote
// it), DAMAGED (all are damaged), SYSTEM (a checkpoint or the folder cannot be read, and may be
// complete).
lockstep_status lockstep_checkpoint_open(lockstep_checkpoint_store* store,
                                         int64_t below,
                                         const lockstep_checkpoint** checkpoint);

// Closes a checkpoint from lockstep_checkpoint_open. `checkpoint` may be null.
lockstep_status lockstep_checkpoint_close(const lockstep_checkpoint* checkpoint);

#ifdef __cplusplus
}
#endif
