#include "trainer-runtime/strategy/parameter_server/shard_client.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {

void ShardClient::Begin(Body body, int64_t sequence) {
  LOCKSTEP_CHECK(!under_way_.has_value(), "a request is under way");
  outcome_.reset();
  under_way_ = UnderWay{++number_, sequence, std::move(body)};
  has_turned_ = false;
  Ask();
}

void ShardClient::Push(request::Push push, int64_t sequence) {
  if (sequence > sequence_) {
    Begin(std::move(push), sequence);
  } else {
    LOCKSTEP_CHECK(!under_way_.has_value(), "a request is under way");
    outcome_ = RequestOutcome::kDone;
  }
}

void ShardClient::Ask() {
  requests_.push_back(
      {place_,
       WorkerRequest{view_, process_, under_way_->number, under_way_->sequence, under_way_->body}});
}

void ShardClient::End(RequestOutcome outcome) {
  under_way_.reset();
  outcome_ = outcome;
}

void ShardClient::OnView(const ShardView& view) {
  if (view.term <= view_.term) {
    return;
  }
  const bool is_home_new = view.at(ShardPlace::kHome) > view_.at(ShardPlace::kHome);
  const bool is_buddy_new = view.at(ShardPlace::kBuddy) > view_.at(ShardPlace::kBuddy);
  view_ = view;
  // Where both are new, either may have been filled: Resend finds out.
  const ShardPlace serving = is_home_new ? ShardPlace::kBuddy : ShardPlace::kHome;
  if (is_home_new != is_buddy_new && place_ != serving) {
    place_ = serving;
    if (under_way_.has_value()) {
      Ask();
    }
  }
}

void ShardClient::Resend() {
  if (!under_way_.has_value()) {
    return;
  }
  has_turned_ = false;
  if (has_buddy_) {
    place_ = OtherPlace(place_);
  }
  Ask();
}

void ShardClient::OnReply(const WorkerReply& reply) {
  OnView(reply.view);
  const bool is_old = reply.view.term < view_.term;
  if (is_old || !(reply.process == process_) || !under_way_.has_value() ||
      reply.number != under_way_->number) {
    return;
  }
  std::visit([&](const auto& body) { On(body); }, reply.body);
}

void ShardClient::On(const reply::Pulled& pulled) {
  values_ = pulled;
  sequence_ = std::max(sequence_, pulled.sequence);
  End(RequestOutcome::kPulled);
}

void ShardClient::On(const reply::Done& /*done*/) {
  sequence_ = std::max(sequence_, under_way_->sequence);
  End(RequestOutcome::kDone);
}

void ShardClient::On(const reply::Unseeded& /*unseeded*/) {
  End(RequestOutcome::kUnseeded);
}

void ShardClient::On(const reply::NotServing& /*not_serving*/) {
  if (!has_turned_ && has_buddy_) {
    has_turned_ = true;
    place_ = OtherPlace(place_);
    Ask();
  }
}

void ShardClient::On(const reply::Outdated& /*outdated*/) {
  End(RequestOutcome::kOutdated);
}

void ShardClient::On(const reply::Lost& /*lost*/) {
  End(RequestOutcome::kLost);
}

void ShardClient::On(const reply::Misfit& /*misfit*/) {
  End(RequestOutcome::kMisfit);
}

}  // namespace lockstep::runtime
