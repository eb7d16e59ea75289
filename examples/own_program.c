// A program that uses liblockstep: all ranks of a job fit a line to noisy points by gradient
// descent. If a rank is lost, Lockstep replaces it, and the other ranks keep their processes. The
// replacement gets the model from one of them, and no step is lost or taken twice.
//
//   cc -std=c99 own_program.c -llockstep -o own_program
//   lockstep run own_program.yaml
//
// Arguments: the number of steps, and the milliseconds that each step takes.

#define _POSIX_C_SOURCE 200809L

#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { kPointsPerRank = 64 };

static const double kTimeoutSeconds = 60;          // for one call
static const double kMeetingTimeoutSeconds = 600;  // for all ranks to join

// The model: all that a replacement needs.
typedef struct {
  double slope;
  double offset;
  int64_t step;  // updates applied
} model;

// The numbers that one step averages over the ranks.
typedef struct {
  double slope;
  double offset;
  double loss;
} gradient;

// A number from -1 to 1 that depends on its arguments only.
static double noise(int64_t step, int rank, int point) {
  uint64_t x = (uint64_t)step * 1000003u + (uint64_t)rank * 7919u + (uint64_t)point;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (double)(x >> 11) / 4503599627370496.0 - 1.0;
}

// The gradient and the loss for this rank's points, which lie near y = 3 x + 1.
static gradient own_gradient(const model* now, int rank) {
  gradient sum = {0, 0, 0};
  for (int point = 0; point < kPointsPerRank; ++point) {
    const double x = noise(now->step, rank, 2 * point);
    const double y = 3 * x + 1 + 0.1 * noise(now->step, rank, 2 * point + 1);
    const double error = now->slope * x + now->offset - y;
    sum.slope += 2 * error * x / kPointsPerRank;
    sum.offset += 2 * error / kPointsPerRank;
    sum.loss += error * error / kPointsPerRank;
  }
  return sum;
}

static void report(lockstep_session* session, const model* now, int64_t steps, double loss) {
  const lockstep_progress progress = {.struct_size = sizeof progress,
                                      .step = now->step,
                                      .steps_total = steps,
                                      .data_epoch = -1,
                                      .sample_count = kPointsPerRank,
                                      .loss = loss,
                                      .accuracy = NAN,
                                      .samples_per_second = -1};
  lockstep_report(session, &progress);
}

// Trains to the end of all steps, or to the first error. The model changes in one place: when the
// mean of a step has arrived.
static lockstep_status train(lockstep_session* session,
                             const lockstep_meeting* meeting,
                             model* now,
                             int64_t steps,
                             long pause_ms) {
  lockstep_status status = LOCKSTEP_OK;
  if (meeting->state_source >= 0) {
    status = lockstep_broadcast(
        session, now, sizeof *now, LOCKSTEP_UINT8, meeting->state_source, kTimeoutSeconds);
  }
  int is_stopped = 0;
  while (status == LOCKSTEP_OK && now->step < steps && !is_stopped) {
    const struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
    gradient mean = own_gradient(now, meeting->rank);
    status =
        lockstep_all_reduce(session, &mean, 3, LOCKSTEP_FLOAT64, LOCKSTEP_MEAN, kTimeoutSeconds);
    if (status == LOCKSTEP_OK) {
      now->slope -= 0.1 * mean.slope;
      now->offset -= 0.1 * mean.offset;
      now->step += 1;
      report(session, now, steps, mean.loss);
      status = lockstep_should_stop(session, &is_stopped, kTimeoutSeconds);
    }
  }
  if (status == LOCKSTEP_OK && now->step < steps) {
    return LOCKSTEP_ERROR_STOPPED;
  }
  return status == LOCKSTEP_OK ? lockstep_finish(session, kTimeoutSeconds) : status;
}

// Joins a rendezvous and trains; after each loss it does so again. If the rendezvous itself fails,
// it does not retry, because the missing ranks will not come.
static lockstep_status run(lockstep_session* session, model* now, int64_t steps, long pause_ms) {
  for (;;) {
    lockstep_meeting meeting = {.struct_size = sizeof meeting};
    lockstep_status status =
        lockstep_meet(session, now->step > 0, now->step, kMeetingTimeoutSeconds, &meeting);
    if (status != LOCKSTEP_OK) {
      return status;
    }
    printf("process %d is rank %d of %d at epoch %lld, step %lld\n",
           (int)getpid(),
           meeting.rank,
           meeting.size,
           (long long)meeting.epoch,
           (long long)now->step);
    fflush(stdout);
    status = train(session, &meeting, now, steps, pause_ms);
    if (!LOCKSTEP_MEET_AGAIN(status)) {
      return status;
    }
    fprintf(stderr, "joining a new rendezvous: %s\n", lockstep_last_error());
  }
}

// Prints how the training ended, and returns the exit code of the process.
static int exit_code_of(lockstep_status status, const model* now) {
  switch (status) {
    case LOCKSTEP_OK:
    case LOCKSTEP_ERROR_FINISHED:
      printf(
          "after %lld steps: y = %.17g x + %.17g\n", (long long)now->step, now->slope, now->offset);
      return 0;
    case LOCKSTEP_ERROR_STOPPED:
      printf("asked to stop after %lld steps\n", (long long)now->step);
      return 42;
    case LOCKSTEP_ERROR_SUPERSEDED:
      return 76;
    default:
      fprintf(stderr, "own_program: %s\n", lockstep_last_error());
      return LOCKSTEP_MEET_AGAIN(status) ? 75 : 1;  // 75: worth another try
  }
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? atoll(argv[1]) : 200;
  const long pause_ms = argc > 2 ? atol(argv[2]) : 10;
  const lockstep_options options = {.struct_size = sizeof options, .catch_stop = 1};
  lockstep_session* session = NULL;
  if (lockstep_open(&options, &session) != LOCKSTEP_OK) {
    fprintf(stderr, "own_program: %s\n", lockstep_last_error());
    return 1;
  }
  model now = {0, 0, 0};
  const int exit_code = exit_code_of(run(session, &now, steps, pause_ms), &now);
  lockstep_close(session);  // also reports the last step
  return exit_code;
}
