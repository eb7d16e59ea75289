#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "trainer-runtime/strategy/parameter_server/shard_content.h"
#include "trainer-runtime/strategy/parameter_server/shard_messages.h"

namespace lockstep::runtime {

// What a copy of a shard is to the others.
enum class CopyRole {
  kServing,     // answers the workers, and has the other copy follow
  kFollowing,   // takes what the serving copy sends
  kEmpty,       // new, waits to be filled
  kSuperseded,  // another process has its place: final
  kLost         // new, and the only one that could have filled it is gone: final
};

// "serving", "following", "empty", "superseded", "lost".
const char* CopyRoleName(CopyRole role);

struct ShardCopyOptions {
  ShardPlace place = ShardPlace::kHome;
  Incarnation incarnation;  // of this process; 0 is the first that stands here
  // As it was when this process was born, its own incarnation included. Whoever names processes
  // must tell each newcomer of all that it has named before, or a shard may be filled by a zombie.
  ShardView view;
  bool has_partner = true;  // false where a job has one ps
  int64_t max_staleness = 0;
  int worker_count = 0;  // of the job; each stands at the first step from the seed on
  UpdateRule rule;
  std::optional<int64_t> slot_count;  // that the rule keeps for each parameter; empty: any
};

// One of the two copies of a shard: takes pushes exactly once, answers pulls, follows or leads the
// other copy. It does no input or output and has no clock: messages go in, messages come out.
//
// Local words. The *serving* copy puts every change into its log as an *entry* and sends it to the
// copy that *follows*. An entry is *confirmed* when both have it, or when there is nobody to
// follow; only then is it acknowledged to the worker that asked.
//
// Why nothing is lost: what was acknowledged is in both copies, and whoever serves alone has all.
// A view gives one place to a new process, which is empty. The other one serves from then on, if it
// is not empty itself: it followed and has all that was ever acknowledged, or it served. A newcomer
// counts as following from the moment at which it is sent the content: what comes after is not
// acknowledged without it.
// Why nobody serves beside: a serving copy that was replaced needs the other's confirmation, and
// that one refuses messages of an older term. (Where it served alone, its shard is lost with it.)
// It may still answer pulls for a while: its clocks stand, so `max_staleness` holds for them too.
// Why a push is applied once: its number goes with it into both copies.
//
// Where workers wait for each other is the *gate*: nobody begins a step beyond it, until whoever
// seeded opens it for more. Once all steps up to it are made the values stand, on all shards at the
// same step. Whoever waits there *rests*: nobody waits for it.
//
// Whoever seeds lets the first process of every worker in, unless it is known to be gone: who comes
// first waits for those that are on their way. A worker whose first process was lost is counted
// again once its successor asks, as everywhere.
//
// A pull waits while its worker is too far ahead, and until what makes it due is confirmed: a copy
// that serves next knows at least that. What it shows may hold a push that is not acknowledged yet;
// if that is lost with the serving copy, its worker pushes it again.
//
// Messages may be lost, repeated, late and out of order. Resend() mends that.
// Bounds: each worker has one request under way, so the log holds at most a few entries for each.
// Thread: one.
class ShardCopy {
 public:
  explicit ShardCopy(ShardCopyOptions options);

  // Preconditions of all: none; what does not fit is refused or dropped, whoever sent it.
  void OnRequest(const WorkerRequest& request);

  // Errors: kMismatch (the other copy is of another model or optimizer: nothing is taken of it).
  Status OnCopyMessage(const CopyMessage& message);

  // The word of whoever names processes. Old news is ignored.
  void OnView(const ShardView& view);

  // Processes of the worker below that incarnation are gone: nobody waits for them.
  void OnWorkerGone(int worker, Incarnation below);

  // What was sent to the other copy may not have arrived: a new connection stands, or time passed.
  void Resend();

  // What is to be sent, in this order: replies to their workers, messages to the other copy.
  using Duty = std::variant<WorkerReply, CopyMessage>;

  std::vector<Duty> TakeDuties();

  // Workers that have not asked for anything yet, while somebody waits; empty where nobody does, or
  // for nobody such. By the requests that this copy has heard while it served.
  std::set<int> AwaitedToBegin() const;

  CopyRole role() const { return role_; }

  const ShardView& view() const { return view_; }

  const ShardContent& content() const { return content_; }

  // Whether the other copy has all that was ever acknowledged. Meaningful where this one serves.
  bool is_followed() const { return is_followed_ && !filling_to_.has_value(); }

 private:
  // Whom an answer goes to.
  struct Asker {
    WorkerProcess process;
    int64_t number = 0;  // of the request
  };

  struct LogRecord {
    int64_t index = 0;
    ShardEntry entry;
    std::optional<Asker> asker;
  };

  struct WaitingPull {
    Asker asker;
    request::Pull pull;
    std::optional<int64_t> due_at;  // the entry that makes it due; empty: it waits
  };

  void On(const WorkerRequest& request, const request::Pull& pull);
  void On(const WorkerRequest& request, const request::Push& push);
  void On(const WorkerRequest& request, const request::Seed& seed);
  void On(const WorkerRequest& request, const request::Leave& leave);
  void On(const WorkerRequest& request, const request::Open& open);

  Status On(const copying::Append& append);
  Status On(const copying::Confirm& confirm);
  Status On(const copying::FillRequest& fill_request);
  Status On(const copying::Fill& fill);
  Status On(const copying::Notice& notice);

  bool IsOutdated(const WorkerProcess& process) const;
  bool IsUnderWay(const WorkerProcess& process) const;
  void Admit(const WorkerProcess& process);
  void AdmitFirstProcesses();
  void Append(ShardEntry entry, std::optional<Asker> asker);
  void Settle();
  void AnswerPulls();
  std::set<int> Resting() const;
  bool IsDue(int worker, const WaitingPull& waiting, const std::set<int>& resting) const;
  std::shared_ptr<const ShardFacts> Facts() const;
  void RetireGone(int worker);
  void Serve();
  void TurnAwayPulls();
  void Send(const LogRecord& record);

  template <typename Body>
  void Tell(Body body) {
    duties_.push_back(CopyMessage{view_, std::move(body)});
  }

  template <typename Body>
  void Reply(const Asker& asker, Body body) {
    duties_.push_back(WorkerReply{view_, asker.process, asker.number, std::move(body)});
  }

  static Asker AskerOf(const WorkerRequest& request) { return {request.process, request.number}; }

  ShardCopyOptions options_;
  ShardView view_;
  CopyRole role_;
  ShardContent content_;
  std::map<int, Incarnation> gone_;  // by worker: lower ones are gone
  // Of the serving copy.
  bool is_followed_ = false;  // entries wait for the other copy's confirmation
  // The entry up to which a newcomer was sent the content, until it says that it has it.
  std::optional<int64_t> filling_to_;
  int64_t confirmed_ = 0;             // entries up to this one are confirmed
  std::deque<LogRecord> log_;         // those that are not
  std::map<int, WaitingPull> pulls_;  // by worker
  std::set<int> unheard_;             // let in by the seed, and have asked for nothing yet
  std::vector<Duty> duties_;
};

}  // namespace lockstep::runtime
