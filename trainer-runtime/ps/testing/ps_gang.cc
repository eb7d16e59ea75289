#include "trainer-runtime/ps/testing/ps_gang.h"

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "trainer-runtime/rendezvous/socket_address.h"

namespace lockstep::runtime::testing {

using std::chrono::milliseconds;

namespace {

std::array<int, 2> ShardsOf(int ps) {
  return {(ps + PsGang::kPsCount - 1) % PsGang::kPsCount, ps};
}

}  // namespace

PsGang::PsGang(PsGangOptions options) : options_(std::move(options)), views_(kPsCount) {
  for (int ps = 0; ps < kPsCount; ++ps) {
    listeners_.push_back(ListenOn("127.0.0.1", 0, 16).value());
    ports_.push_back(BoundPort(listeners_.back()).value());
    addresses_.push_back("127.0.0.1:" + std::to_string(ports_.back()));
  }
  for (int ps = 0; ps < kPsCount; ++ps) {
    Start(ps);
  }
}

void PsGang::Kill(int ps) {
  servers_[ps].reset();
}

void PsGang::Replace(int ps, Told told) {
  ++incarnations_[ps];
  for (const int shard : ShardsOf(ps)) {
    ShardView& view = views_[static_cast<std::size_t>(shard)];
    view.term = view.term.Next();
    view.incarnations[shard == ps ? 0 : 1] = Incarnation(incarnations_[ps]);
  }
  if (told == Told::kBeforeItsStart) {
    TellOfSuccessor(ps);
  }
  Start(ps);
  if (told == Told::kAfterItsStart) {
    std::this_thread::sleep_for(milliseconds(150));  // it has asked to be filled
    TellOfSuccessor(ps);
  }
}

void PsGang::TellOfSuccessor(int ps) {
  for (auto& [other, server] : servers_) {
    if (server == nullptr || other == ps) {
      continue;
    }
    for (const int shard : ShardsOf(ps)) {
      server->NoteView(shard, views_[static_cast<std::size_t>(shard)]);
    }
  }
}

void PsGang::TellOfItsSuccessor(int ps) {
  for (const int shard : ShardsOf(ps)) {
    ShardView view = views_[static_cast<std::size_t>(shard)];
    view.term = view.term.Next();
    view.incarnations[shard == ps ? 0 : 1] = Incarnation(incarnations_[ps] + 1);
    servers_[ps]->NoteView(shard, view);
  }
}

void PsGang::NoteWorkerGone(int worker, Incarnation below) {
  for (auto& [ps, server] : servers_) {
    if (server != nullptr) {
      server->NoteWorkerGone(worker, below);
    }
  }
}

std::unique_ptr<PsClient> PsGang::Worker(int worker, int64_t incarnation) const {
  PsClientOptions options;
  options.identity = {"uid", Attempt(), worker, options_.worker_count, Incarnation(incarnation)};
  options.addresses = addresses_;
  options.job_key = "key";
  options.element_counts = options_.element_counts;
  options.piece_bytes_min = options_.piece_bytes_min;
  options.slot_count = options_.slot_count;
  options.ask_again = milliseconds(200);
  options.logger = logger_.get();
  return PsClient::Make(std::move(options)).value();
}

bool PsGang::IsWhole() const {
  int served = 0;
  int followed = 0;
  for (const auto& [ps, server] : servers_) {
    if (server == nullptr) {
      continue;
    }
    for (const CopyStanding& copy : server->Standings()) {
      served += copy.role == CopyRole::kServing && copy.is_followed ? 1 : 0;
      followed += copy.role == CopyRole::kFollowing ? 1 : 0;
    }
  }
  return served == kPsCount && followed == kPsCount;
}

bool PsGang::AwaitWhole() const {
  const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::seconds(20));
  while (!IsWhole() && !deadline.HasPassed(SteadyNow())) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  return IsWhole();
}

void PsGang::Start(int ps) {
  PsServerOptions options;
  options.identity = {"uid",
                      Attempt(),
                      PsPlace(options_.worker_count, ps),
                      options_.worker_count,
                      Incarnation(incarnations_[ps])};
  options.addresses = addresses_;
  options.bind_address = "127.0.0.1";
  options.port = ports_[static_cast<std::size_t>(ps)];
  options.listener = std::exchange(listeners_[static_cast<std::size_t>(ps)], UniqueFd());
  options.job_key = "key";
  options.views = views_;
  options.max_staleness = options_.max_staleness;
  options.rule = options_.rule;
  options.slot_count = options_.slot_count;
  options.ask_again = milliseconds(100);
  options.logger = logger_.get();
  Result<std::unique_ptr<PsServer>> server = PsServer::Start(std::move(options));
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  servers_[ps] = std::move(server).value();
}

}  // namespace lockstep::runtime::testing
