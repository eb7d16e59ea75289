#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "trainer-runtime/strategy/parameter_server/shard_content.h"
#include "trainer-runtime/strategy/parameter_server/shard_messages.h"

namespace lockstep::runtime {

// A request of a worker, and which copy of the shard is asked.
struct AddressedRequest {
  ShardPlace place = ShardPlace::kHome;
  WorkerRequest request;
};

// What a request has come to.
enum class RequestOutcome {
  kDone,      // of Push, Seed, Open and Leave: it will not be lost
  kPulled,    // values() are there
  kUnseeded,  // of Pull: the shard has no values yet
  kOutdated,  // this worker was replaced, or has left: final
  kLost,      // the shard is gone: final
  kMisfit     // what was sent is of another size: final
};

// A worker's side of one shard: one request at a time, asked again until it is answered, of
// whichever copy serves. No input or output and no clock, as ShardCopy. Thread: one.
class ShardClient {
 public:
  ShardClient(WorkerProcess process, bool has_buddy) : process_(process), has_buddy_(has_buddy) {}

  // Begin a request. Precondition (checked): none is under way.
  void Pull(const request::Pull& pull) { Begin(pull, 0); }

  // The share of the worker's work that bears `sequence`. It is done at once where the shard is
  // known to have it, of this process or of one before.
  void Push(request::Push push, int64_t sequence);

  void Seed(request::Seed seed) { Begin(std::move(seed), 0); }

  void Open(int64_t gate) { Begin(request::Open{gate}, 0); }

  void Leave() { Begin(request::Leave{}, 0); }

  bool is_busy() const { return under_way_.has_value(); }

  void OnReply(const WorkerReply& reply);

  // The word of whoever names processes; old news is ignored. The copy whose partner is new is
  // asked from here on.
  void OnView(const ShardView& view);

  // The request under way may have been lost, or its copy does not answer: the other one is asked.
  void Resend();

  // What is to be sent.
  std::vector<AddressedRequest> TakeRequests() { return std::exchange(requests_, {}); }

  // What the last request has come to, once.
  std::optional<RequestOutcome> TakeOutcome() { return std::exchange(outcome_, std::nullopt); }

  // Of the last pull that is done.
  const reply::Pulled& values() const { return values_; }

  const ShardView& view() const { return view_; }

  // Of the last push that the shard is known to have, of this process or one before. Known once
  // something was pulled.
  int64_t sequence() const { return sequence_; }

 private:
  using Body = decltype(WorkerRequest::body);

  struct UnderWay {
    int64_t number = 0;
    int64_t sequence = 0;
    Body body;
  };

  void Begin(Body body, int64_t sequence);
  void Ask();
  void End(RequestOutcome outcome);

  void On(const reply::Pulled& pulled);
  void On(const reply::Done& done);
  void On(const reply::Unseeded& unseeded);
  void On(const reply::NotServing& not_serving);
  void On(const reply::Outdated& outdated);
  void On(const reply::Lost& lost);
  void On(const reply::Misfit& misfit);

  WorkerProcess process_;
  bool has_buddy_;
  ShardView view_;
  ShardPlace place_ = ShardPlace::kHome;  // that is asked
  int64_t number_ = 0;                    // of the last request
  int64_t sequence_ = 0;
  std::optional<UnderWay> under_way_;
  bool has_turned_ = false;  // since the last Resend: two copies that do not serve are not a loop
  std::optional<RequestOutcome> outcome_;
  reply::Pulled values_;
  std::vector<AddressedRequest> requests_;
};

}  // namespace lockstep::runtime
