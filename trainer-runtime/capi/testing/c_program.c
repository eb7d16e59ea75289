// One rank of tests of liblockstep, in plain C99: knows lockstep.h only. The first argument says
// what it does; it ends with 0 when all came out as it should, else says what did not.

#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/wait.h>

#include "lockstep.h"

static const double kPatience = 60;
static const double kShort = 1;

static int failures = 0;

static void check(int is_so, int line, const char* what) {
  if (!is_so) {
    ++failures;
    fprintf(stderr, "line %d: not so: %s (%s)\n", line, what, lockstep_last_error());
  }
}

#define CHECK(condition) check((condition), __LINE__, #condition)

// The call ends with that status, and with a sentence that holds `words`.
static void check_fails(lockstep_status found,
                        lockstep_status expected,
                        int line,
                        const char* words) {
  const char* const sentence = lockstep_last_error();
  if (found != expected || strstr(sentence, words) == NULL) {
    ++failures;
    fprintf(stderr,
            "line %d: status %d and \"%s\" found, expected %d and \"%s\"\n",
            line,
            (int)found,
            sentence,
            (int)expected,
            words);
  }
}

#define CHECK_FAILS(call, expected, words) check_fails((call), (expected), __LINE__, (words))

static void nap(double seconds) {
  const struct timespec pause = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
  nanosleep(&pause, NULL);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static lockstep_session* open_session(const char* plan) {
  const lockstep_options options = {.struct_size = sizeof options, .plan = plan};
  lockstep_session* session = NULL;
  CHECK(lockstep_open(&options, &session) == LOCKSTEP_OK);
  return session;
}

static lockstep_meeting meet(lockstep_session* session) {
  lockstep_meeting meeting = {.struct_size = sizeof meeting};
  CHECK(lockstep_meet(session, 0, 0, kPatience, &meeting) == LOCKSTEP_OK);
  return meeting;
}

static void leave(lockstep_session* session) {
  CHECK(lockstep_finish(session, kPatience) == LOCKSTEP_OK);
  CHECK(lockstep_close(session) == LOCKSTEP_OK);
}

enum { kCount = 1000 };

// Rank r holds r + i at place i. 16-bit floats hold these exactly as long as they are small.
static double value_of(int rank, int i) {
  return rank + i % 50;
}

static void store(int type, void* data, int i, double value) {
  const float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  switch (type) {
    case LOCKSTEP_UINT8:
      ((uint8_t*)data)[i] = (uint8_t)value;
      return;
    case LOCKSTEP_INT32:
      ((int32_t*)data)[i] = (int32_t)value;
      return;
    case LOCKSTEP_INT64:
      ((int64_t*)data)[i] = (int64_t)value;
      return;
    case LOCKSTEP_FLOAT32:
      ((float*)data)[i] = narrow;
      return;
    case LOCKSTEP_FLOAT64:
      ((double*)data)[i] = value;
      return;
    case LOCKSTEP_BFLOAT16:
      ((uint16_t*)data)[i] = (uint16_t)(bits >> 16);
      return;
    default:  // float16 of a small number that is 0 or at least 2^-14
      ((uint16_t*)data)[i] =
          value == 0 ? 0 : (uint16_t)(((bits >> 16 & 0x8000)) | ((bits >> 13) - (112u << 10)));
  }
}

static int is_equal(int type, const void* data, int i, double value) {
  unsigned char expected[8] = {0};
  const size_t sizes[] = {1, 4, 8, 4, 8, 2, 2};
  store(type, expected, 0, value);
  return memcmp((const unsigned char*)data + (size_t)i * sizes[type], expected, sizes[type]) == 0;
}

static double reduced(int op, int size, int i) {
  const double sum = size * (size - 1) / 2.0 + size * value_of(0, i);
  switch (op) {
    case LOCKSTEP_SUM:
      return sum;
    case LOCKSTEP_MIN:
      return value_of(0, i);
    case LOCKSTEP_MAX:
      return value_of(size - 1, i);
    default:
      return sum / size;
  }
}

static void reduce_all(lockstep_session* session, const lockstep_meeting* place, int type, int op) {
  static int64_t data[kCount];
  static int64_t blocks[8 * kCount];
  const int size = place->size;
  for (int i = 0; i < kCount; ++i) {
    store(type, data, i, value_of(place->rank, i));
  }
  CHECK(lockstep_all_reduce(session, data, kCount, type, op, kPatience) == LOCKSTEP_OK);
  for (int i = 0; i < size * kCount; ++i) {
    store(type, blocks, i, value_of(place->rank, i));
  }
  int64_t* const own = malloc(sizeof data);
  CHECK(lockstep_reduce_scatter(session, blocks, own, kCount, type, op, kPatience) == LOCKSTEP_OK);
  int right = 1;
  for (int i = 0; i < kCount; ++i) {
    right = right && is_equal(type, data, i, reduced(op, size, i));
    right = right && is_equal(type, own, i, reduced(op, size, place->rank * kCount + i));
  }
  if (!right) {
    fprintf(stderr, "type %d, operation %d\n", type, op);
  }
  CHECK(right);
  free(own);
}

static void gather(lockstep_session* session, const lockstep_meeting* place, int type) {
  static int64_t own[kCount];
  static int64_t all[8 * kCount];
  for (int i = 0; i < kCount; ++i) {
    store(type, own, i, value_of(place->rank, i));
  }
  memset(all, 0xff, sizeof all);
  CHECK(lockstep_all_gather(session, own, all, kCount, type, kPatience) == LOCKSTEP_OK);
  int right = 1;
  for (int i = 0; i < place->size * kCount; ++i) {
    right = right && is_equal(type, all, i, value_of(i / kCount, i % kCount));
  }
  CHECK(right);
}

static void collectives(void) {
  lockstep_session* const session = open_session("collectives");
  const lockstep_meeting place = meet(session);
  CHECK(place.size >= 2 && place.size <= 8 && place.rank >= 0 && place.rank < place.size);
  CHECK(place.state_source == -1);
  CHECK(place.epoch >= 0);
  for (int rank = 0; rank < place.size; ++rank) {
    lockstep_member member = {.struct_size = sizeof member};
    CHECK(lockstep_get_member(session, rank, &member) == LOCKSTEP_OK);
    CHECK(member.rank == rank && member.has_state == 0 && member.host[0] != '\0');
  }
  for (int type = LOCKSTEP_UINT8; type <= LOCKSTEP_BFLOAT16; ++type) {
    for (int op = LOCKSTEP_SUM; op <= LOCKSTEP_MEAN; ++op) {
      // A mean of two or four is exact.
      const int has_mean = type >= LOCKSTEP_FLOAT32 && place.size != 3;
      if (op != LOCKSTEP_MEAN || has_mean) {
        reduce_all(session, &place, type, op);
      }
    }
    gather(session, &place, type);
  }
  int64_t word = place.rank == 1 ? 4711 : 0;
  CHECK(lockstep_broadcast(session, &word, 1, LOCKSTEP_INT64, 1, kPatience) == LOCKSTEP_OK);
  CHECK(word == 4711);
  CHECK(lockstep_all_reduce(session, NULL, 0, LOCKSTEP_INT64, LOCKSTEP_SUM, kPatience) ==
        LOCKSTEP_OK);
  CHECK(lockstep_barrier(session, kPatience) == LOCKSTEP_OK);
  int should_stop = 7;
  CHECK(lockstep_should_stop(session, &should_stop, kPatience) == LOCKSTEP_OK);
  CHECK(should_stop == 0);
  int should_save = 7;
  CHECK(lockstep_should_save(session, &should_save) == LOCKSTEP_OK);
  CHECK(should_save == (place.rank == 0));  // all hold the same, and nobody has left
  leave(session);
}

// Many calls under way at once, and one that waits for a rank that never calls when all meet anew.
static void begun(void) {
  enum { kCalls = 100 };

  static float data[kCalls][kCount];
  uint64_t handles[kCalls];
  lockstep_session* const session = open_session(NULL);
  uint64_t none = 0;
  CHECK_FAILS(lockstep_all_reduce_begin(session, data, 1, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, 1, &none),
              LOCKSTEP_ERROR_NOT_MET,
              "lockstep_meet");
  const lockstep_meeting place = meet(session);
  for (int call = 0; call < kCalls; ++call) {
    for (int i = 0; i < kCount; ++i) {
      data[call][i] = (float)(place.rank + call + i);
    }
    CHECK(lockstep_all_reduce_begin(session,
                                    data[call],
                                    kCount,
                                    LOCKSTEP_FLOAT32,
                                    LOCKSTEP_SUM,
                                    kPatience,
                                    &handles[call]) == LOCKSTEP_OK);
  }
  CHECK(lockstep_barrier(session, kPatience) == LOCKSTEP_OK);  // after all of them
  int right = 1;
  for (int call = kCalls - 1; call >= 0; --call) {
    int has_ended = 0;
    CHECK(lockstep_has_ended(session, handles[call], &has_ended) == LOCKSTEP_OK && has_ended);
    CHECK(lockstep_wait(session, handles[call]) == LOCKSTEP_OK);
    for (int i = 0; i < kCount; ++i) {
      const int sum = place.size * (call + i) + place.size * (place.size - 1) / 2;
      right = right && data[call][i] == (float)sum;
    }
  }
  CHECK(right);
  CHECK_FAILS(lockstep_wait(session, handles[0]), LOCKSTEP_ERROR_INVALID_ARGUMENT, "handle");
  if (place.rank != 0) {
    CHECK(lockstep_all_reduce_begin(
              session, data, 1, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, kPatience, &none) == LOCKSTEP_OK);
  }
  meet(session);
  if (place.rank != 0) {
    const lockstep_status status = lockstep_wait(session, none);
    CHECK(status == LOCKSTEP_ERROR_ABORTED || status == LOCKSTEP_ERROR_LOST_PEER);
  }
  leave(session);
}

// What is wrong with a call alone is said at once, and harms nobody.
static void arguments(void) {
  lockstep_session* const session = open_session(NULL);
  lockstep_session* other = NULL;
  float data[4] = {0, 0, 0, 0};
  CHECK_FAILS(lockstep_open(NULL, &other), LOCKSTEP_ERROR_ALREADY_OPEN, "close it first");
  CHECK(other == NULL);
  CHECK_FAILS(lockstep_barrier(session, kPatience), LOCKSTEP_ERROR_NOT_MET, "lockstep_meet");
  lockstep_member member = {.struct_size = sizeof member};
  CHECK_FAILS(lockstep_get_member(session, 0, &member), LOCKSTEP_ERROR_NOT_MET, "lockstep_meet");
  lockstep_meeting small = {.struct_size = 8};
  CHECK_FAILS(lockstep_meet(session, 0, 0, kPatience, &small),
              LOCKSTEP_ERROR_INVALID_ARGUMENT,
              "struct_size");
  const lockstep_meeting place = meet(session);
  const lockstep_status invalid = LOCKSTEP_ERROR_INVALID_ARGUMENT;
  CHECK_FAILS(lockstep_all_reduce(session, data, 4, 99, LOCKSTEP_SUM, 1), invalid, "type");
  CHECK_FAILS(lockstep_all_reduce(session, data, 4, LOCKSTEP_FLOAT32, 99, 1), invalid, "op");
  CHECK_FAILS(
      lockstep_all_reduce(session, data, 4, LOCKSTEP_INT32, LOCKSTEP_MEAN, 1), invalid, "a mean");
  CHECK_FAILS(
      lockstep_all_reduce(session, NULL, 4, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, 1), invalid, "null");
  CHECK_FAILS(lockstep_all_reduce(session, (char*)data + 1, 1, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, 1),
              invalid,
              "aligned");
  CHECK_FAILS(lockstep_all_reduce(session, (void*)4096, 4, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, 1),
              invalid,
              "GPU");
  CHECK_FAILS(lockstep_all_reduce(session, data, UINT64_MAX / 2, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, 1),
              invalid,
              "count");
  CHECK_FAILS(
      lockstep_broadcast(session, data, 4, LOCKSTEP_FLOAT32, place.size, 1), invalid, "root");
  CHECK_FAILS(lockstep_barrier(session, 0), invalid, "timeout_seconds");
  CHECK_FAILS(lockstep_barrier(session, NAN), invalid, "timeout_seconds");
  CHECK_FAILS(lockstep_should_stop(session, NULL, 1), invalid, "null");
  CHECK_FAILS(lockstep_should_save(session, NULL), invalid, "null");
  CHECK_FAILS(lockstep_report(session, NULL), invalid, "struct_size");
  CHECK_FAILS(lockstep_report_mismatch(session, NULL), invalid, "null");
  lockstep_progress progress = {.struct_size = sizeof progress, .step = -4, .loss = NAN};
  progress.samples_per_second = -2;
  CHECK_FAILS(lockstep_report(session, &progress), invalid, "step: -4 found, expected 0 or more");
  progress.step = 7;
  progress.accuracy = -0.5;
  CHECK_FAILS(lockstep_report(session, &progress), invalid, "expected a number from 0 to 1, or -1");
  progress.accuracy = NAN;
  CHECK_FAILS(
      lockstep_report(session, &progress), invalid, "a finite number of at least 0, or -1 or NaN");
  progress.samples_per_second = -1;
  CHECK(lockstep_report(session, &progress) == LOCKSTEP_OK);  // a loss that has diverged is news
  CHECK_FAILS(
      lockstep_close((lockstep_session*)((char*)session + 1)), LOCKSTEP_ERROR_CLOSED, "open");
  CHECK_FAILS(lockstep_barrier(NULL, 1), LOCKSTEP_ERROR_CLOSED, "open");
  leave(session);
  CHECK_FAILS(lockstep_barrier(session, 1), LOCKSTEP_ERROR_CLOSED, "open");
  CHECK_FAILS(lockstep_close(session), LOCKSTEP_ERROR_CLOSED, "open");
  CHECK(lockstep_stop_requested(session) == 0);
}

// Ranks that call different things all hear of it, meet again, and go on.
static void mismatch(void) {
  lockstep_session* const session = open_session(NULL);
  for (int kind = 0; kind < 6; ++kind) {
    const lockstep_meeting place = meet(session);
    int64_t data[8] = {0};
    const int is_odd = place.rank == 0;
    const uint64_t count = kind == 0 && is_odd ? 3 : 4;
    const int word = kind == 4 && is_odd ? 7 : 9;
    const int type = LOCKSTEP_TYPE_WITH(
        (kind == 1 || kind == 5) && is_odd ? LOCKSTEP_INT32 : LOCKSTEP_FLOAT32, word);
    const int op = kind == 2 && is_odd ? LOCKSTEP_MEAN : LOCKSTEP_SUM;
    const lockstep_status status =
        kind == 3 && is_odd ? lockstep_barrier(session, kPatience)
        : kind == 5         ? lockstep_broadcast(session, data, count, type, 0, kPatience)
                            : lockstep_all_reduce(session, data, count, type, op, kPatience);
    CHECK_FAILS(status,
                LOCKSTEP_ERROR_MISMATCH,
                kind < 4 ? "rank 0" : "ranks disagree on the type or shape of the data: rank ");
    CHECK(lockstep_barrier(session, kPatience) == LOCKSTEP_ERROR_MISMATCH);
  }
  meet(session);
  leave(session);
}

static void plans(void) {
  char plan[2] = {getenv("RANK")[0], '\0'};
  lockstep_session* const session = open_session(plan);
  lockstep_meeting meeting = {.struct_size = sizeof meeting};
  CHECK_FAILS(lockstep_meet(session, 0, 0, kPatience, &meeting), LOCKSTEP_ERROR_MISMATCH, "plan");
  CHECK(lockstep_close(session) == LOCKSTEP_OK);
}

// Rank 0 never comes to the barrier in time.
static void silent(void) {
  lockstep_session* const session = open_session(NULL);
  const lockstep_meeting place = meet(session);
  if (place.rank == 0) {
    nap(2 * kShort);
    CHECK(lockstep_barrier(session, kPatience) == LOCKSTEP_ERROR_TIMEOUT);
  } else {
    const double begin = now();
    CHECK_FAILS(lockstep_barrier(session, kShort), LOCKSTEP_ERROR_TIMEOUT, "rank 0");
    CHECK(now() - begin < 2 * kShort);
  }
  meet(session);
  leave(session);
}

// Rank 0 never meets.
static void absent(void) {
  lockstep_session* const session = open_session(NULL);
  lockstep_meeting meeting = {.struct_size = sizeof meeting};
  if (strcmp(getenv("RANK"), "0") == 0) {
    nap(2 * kShort);
  } else {
    CHECK_FAILS(lockstep_meet(session, 0, 0, kShort, &meeting), LOCKSTEP_ERROR_TIMEOUT, "rank 0");
  }
  meet(session);
  leave(session);
}

static void fork_in_the_middle(void) {
  lockstep_session* const session = open_session(NULL);
  meet(session);
  const pid_t child = fork();
  if (child == 0) {
    float data = 0;
    lockstep_session* other = NULL;
    CHECK_FAILS(lockstep_all_reduce(session, &data, 1, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, kPatience),
                LOCKSTEP_ERROR_FORKED,
                "parent");
    CHECK_FAILS(lockstep_open(NULL, &other), LOCKSTEP_ERROR_FORKED, "parent");
    CHECK_FAILS(lockstep_close(session), LOCKSTEP_ERROR_FORKED, "parent");
    exit(failures == 0 ? 0 : 1);  // with its exit handlers: none of them waits for a thread
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(lockstep_barrier(session, kPatience) == LOCKSTEP_OK);
  leave(session);
}

static void* abort_soon(void* session) {
  nap(0.2);
  CHECK_FAILS(lockstep_barrier(session, kPatience), LOCKSTEP_ERROR_BUSY, "another thread");
  CHECK(lockstep_abort(session, "enough of it") == LOCKSTEP_OK);
  return NULL;
}

// Waits until the first meeting is over, beside the call of another thread.
static void* watch(void* session) {
  CHECK_FAILS(lockstep_await_loss(session, 0, kPatience), LOCKSTEP_ERROR_ABORTED, "enough of it");
  return NULL;
}

// Rank 1 aborts its own call from another thread; rank 0 hears of it when it comes.
static void abort_a_call(void) {
  lockstep_session* const session = open_session(NULL);
  const lockstep_meeting place = meet(session);
  CHECK(place.epoch == 0);
  CHECK_FAILS(lockstep_await_loss(session, 0, 0.01), LOCKSTEP_ERROR_TIMEOUT, "no rank was lost");
  CHECK_FAILS(lockstep_await_loss(session, 0, 0), LOCKSTEP_ERROR_INVALID_ARGUMENT, "timeout");
  pthread_t threads[2];
  if (place.rank == 1) {
    CHECK(pthread_create(&threads[0], NULL, watch, session) == 0);
    CHECK(pthread_create(&threads[1], NULL, abort_soon, session) == 0);
  } else {
    nap(0.5);
  }
  CHECK_FAILS(lockstep_barrier(session, kPatience), LOCKSTEP_ERROR_ABORTED, "enough of it");
  if (place.rank == 1) {
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
  }
  meet(session);
  leave(session);
}

// Rank 0 has a call less, and ends without a word; the others end as a program does that gives up.
static void leave_early(void) {
  lockstep_session* const session = open_session(NULL);
  const lockstep_meeting place = meet(session);
  float data = 1;
  for (int calls = place.rank == 0 ? 1 : 2; calls > 0; --calls) {
    if (lockstep_all_reduce(session, &data, 1, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, kPatience) !=
        LOCKSTEP_OK) {
      fprintf(stderr, "%s\n", lockstep_last_error());
      exit(75);
    }
  }
}

// Twice, as by one that goes on without reports and takes them up again. Nobody else is waited for.
static void report_only(void) {
  const lockstep_progress progress = {.struct_size = sizeof progress,
                                      .step = 7,
                                      .steps_total = 9,
                                      .loss = 0.25,
                                      .accuracy = -1,
                                      .data_epoch = -1,
                                      .sample_count = 4,
                                      .samples_per_second = -1};
  const lockstep_options options = {.struct_size = sizeof options, .report_only = 1};
  const lockstep_options planned = {.struct_size = sizeof planned, .plan = "a", .report_only = 1};
  const lockstep_options small = {.struct_size = 8};
  const lockstep_options odd = {.struct_size = sizeof odd, .report_only = 7};
  lockstep_session* session = NULL;
  const lockstep_status invalid = LOCKSTEP_ERROR_INVALID_ARGUMENT;
  CHECK_FAILS(lockstep_open(&planned, &session), invalid, "plan");
  CHECK_FAILS(lockstep_open(&small, &session), invalid, "options: struct_size is not");
  CHECK_FAILS(lockstep_open(&odd, &session), invalid, "report_only: 7 found, expected 0 or 1");
  for (int i = 0; i < 2; ++i) {
    CHECK(lockstep_open(&options, &session) == LOCKSTEP_OK);
    CHECK(lockstep_report(session, &progress) == LOCKSTEP_OK);
    CHECK_FAILS(lockstep_meet(session, 0, 0, kShort, NULL), invalid, "report_only");
    CHECK_FAILS(lockstep_barrier(session, kShort), invalid, "report_only");
    CHECK_FAILS(lockstep_abort(session, "no"), invalid, "report_only");
    CHECK_FAILS(lockstep_await_loss(session, 1, kShort), invalid, "report_only");
    CHECK(lockstep_stop_requested(session) == 0);
    CHECK(lockstep_close(session) == LOCKSTEP_OK);
  }
}

// Once it has told where it is.
static void report_and_die(void) {
  const lockstep_progress progress = {.struct_size = sizeof progress, .step = 7, .loss = 0.25};
  const lockstep_options options = {.struct_size = sizeof options, .report_only = 1};
  lockstep_session* session = NULL;
  CHECK(lockstep_open(&options, &session) == LOCKSTEP_OK);
  CHECK(lockstep_report(session, &progress) == LOCKSTEP_OK);
  nap(kShort);
  fprintf(stderr, "has reported\n");
  raise(SIGKILL);
}

// Without a job.
static void alone(void) {
  lockstep_session* session = NULL;
  CHECK_FAILS(lockstep_open(NULL, &session), LOCKSTEP_ERROR_NO_JOB, "lockstep run");
  CHECK_FAILS(lockstep_open(NULL, NULL), LOCKSTEP_ERROR_INVALID_ARGUMENT, "null");
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } parts[] = {{"collectives", collectives},
               {"begun", begun},
               {"arguments", arguments},
               {"mismatch", mismatch},
               {"plans", plans},
               {"silent", silent},
               {"absent", absent},
               {"fork", fork_in_the_middle},
               {"abort", abort_a_call},
               {"leave_early", leave_early},
               {"report_only", report_only},
               {"report_and_die", report_and_die},
               {"alone", alone}};

  int found = 0;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; ++i) {
    if (argc == 2 && strcmp(argv[1], parts[i].name) == 0) {
      parts[i].run();
      ++found;
    }
  }
  if (found == 0) {
    fprintf(stderr, "no such part\n");
    return 2;
  }
  printf("%s: %s\n", argv[1], failures == 0 ? "as it should" : "not as it should");
  return failures == 0 ? 0 : 1;
}
