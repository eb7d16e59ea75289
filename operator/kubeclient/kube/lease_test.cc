#include "operator/kubeclient/kube/lease.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/json/json.h"

namespace lockstep::control::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{std::chrono::hours(1)};
constexpr WallTime kWall{milliseconds(1'700'000'000'123)};

LeaseOptions OptionsOf(const std::string& identity) {
  LeaseOptions options;
  options.namespace_name = "lockstep-system";
  options.identity = identity;
  return options;
}

// An API server that knows one lease.
class LeaseServer {
 public:
  CallResult Handle(const Request& request) {
    if (request.method == "GET") {
      return lease_ ? Reply{200, DumpJson(*lease_), {}} : Refusal(404, "NotFound");
    }
    Json sent = ParseJson(request.body).value();
    if (request.method == "POST") {
      return lease_ ? Refusal(409, "AlreadyExists") : Store(std::move(sent), 201);
    }
    if (!lease_) {
      return Refusal(404, "NotFound");
    }
    if (sent["metadata"]["resourceVersion"] != (*lease_)["metadata"]["resourceVersion"]) {
      return Refusal(409, "Conflict");
    }
    return Store(std::move(sent), 200);
  }

  void Delete() { lease_.reset(); }

  const Json& spec() const { return lease_->at("spec"); }

 private:
  static CallResult Refusal(int status, const std::string& reason) {
    return Reply{status, R"({"kind":"Status","reason":")" + reason + "\"}", {}};
  }

  CallResult Store(Json lease, int status) {
    lease["metadata"]["resourceVersion"] = std::to_string(++version_);
    lease_ = std::move(lease);
    return Reply{status, DumpJson(*lease_), {}};
  }

  std::optional<Json> lease_;
  int version_ = 0;
};

// One candidate that never fails to reach the server.
class Candidate {
 public:
  explicit Candidate(const std::string& identity, uint64_t seed = 1)
      : election(OptionsOf(identity), seed) {}

  // Does what is due at `now`; at most a few exchanges.
  void Run(LeaseServer* server, TimePoint now) {
    for (int i = 0; i < 4; ++i) {
      const LeaseElection::Next next = election.NextRequest(now, kWall);
      if (next.not_before > now) {
        return;
      }
      election.OnResult(server->Handle(next.request), now, now);
    }
  }

  LeaseElection election;
};

TEST(LeaseOptions, AreCheckedOnce) {
  EXPECT_TRUE(CheckLeaseOptions(OptionsOf("a")).ok());
  const auto broken = [](auto change) {
    LeaseOptions options = OptionsOf("a");
    change(options);
    return !CheckLeaseOptions(options).ok();
  };
  EXPECT_TRUE(broken([](LeaseOptions& o) { o.identity.clear(); }));
  EXPECT_TRUE(broken([](LeaseOptions& o) { o.namespace_name.clear(); }));
  EXPECT_TRUE(broken([](LeaseOptions& o) { o.lease_duration = o.renew_deadline; }));
  EXPECT_TRUE(broken([](LeaseOptions& o) { o.renew_deadline = milliseconds(2400); }));
  EXPECT_TRUE(broken([](LeaseOptions& o) { o.retry_period = milliseconds(0); }));
}

TEST(LeaseElection, AnnotationIsWrittenFromTheNextRequestOnUntilItIsTakenBack) {
  LeaseServer server;
  Candidate a("a");
  a.Run(&server, kStart);
  a.election.Annotate("lockstep.dev/mark", "true");
  const auto body = [&] { return a.election.NextRequest(kStart + seconds(2), kWall).request.body; };
  EXPECT_NE(body().find(R"("annotations":{"lockstep.dev/mark":"true"})"), std::string::npos);
  a.election.Annotate("lockstep.dev/mark", "");
  EXPECT_EQ(body().find("annotations"), std::string::npos);
}

TEST(LeaseElection, TheFirstTakesAMissingLeaseAtOnceAndKeepsIt) {
  LeaseServer server;
  Candidate a("a");
  EXPECT_EQ(a.election.role(kStart), LeaseRole::kStandby);
  a.Run(&server, kStart);
  EXPECT_EQ(a.election.role(kStart), LeaseRole::kLeader);
  EXPECT_EQ(a.election.leads_until(), kStart + seconds(10));
  EXPECT_EQ(DumpJson(server.spec()),
            R"({"holderIdentity":"a","leaseDurationSeconds":15,)"
            R"("renewTime":"2023-11-14T22:13:20.123000Z","leaseTransitions":0,)"
            R"("acquireTime":"2023-11-14T22:13:20.123000Z"})");
  for (int second = 1; second < 60; ++second) {
    a.Run(&server, kStart + seconds(second));
    EXPECT_EQ(a.election.role(kStart + seconds(second)), LeaseRole::kLeader);
  }
  EXPECT_EQ(a.election.leads_until(), kStart + seconds(58 + 10)) << "renewed every two seconds";
  EXPECT_EQ(server.spec()["leaseTransitions"], 0);
}

TEST(LeaseElection, AnotherTakesOverWhenTheLeaseHasNotChangedForItsDuration) {
  LeaseServer server;
  Candidate a("a");
  Candidate b("b");
  a.Run(&server, kStart);
  TimePoint taken{};
  for (int tenth = 1; tenth < 200 && taken == TimePoint(); ++tenth) {
    const TimePoint now = kStart + milliseconds(100 * tenth);
    b.Run(&server, now);
    EXPECT_EQ(b.election.holder(), b.election.role(now) == LeaseRole::kLeader ? "b" : "a");
    if (b.election.role(now) == LeaseRole::kLeader) {
      taken = now;
    }
  }
  EXPECT_GE(taken - kStart, seconds(15));
  EXPECT_LE(taken - kStart, milliseconds(16'700));
  EXPECT_EQ(a.election.role(taken), LeaseRole::kLost);
  EXPECT_EQ(server.spec()["leaseTransitions"], 1);
  a.Run(&server, taken + seconds(1));
  EXPECT_EQ(server.spec()["holderIdentity"], "b");
  EXPECT_EQ(a.election.role(taken + seconds(1)), LeaseRole::kLost);
}

// Checklist: release on stop. Take-over within two seconds.
TEST(LeaseElection, AReleasedLeaseIsTakenAtTheNextLook) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    LeaseServer server;
    Candidate a("a", seed);
    Candidate b("b", seed + 100);
    a.Run(&server, kStart);
    b.Run(&server, kStart);
    const std::optional<Request> release = a.election.Release(kWall);
    ASSERT_TRUE(release.has_value());
    EXPECT_EQ(a.election.role(kStart), LeaseRole::kLost);
    ASSERT_TRUE(RequireSuccess(server.Handle(*release)).ok());
    EXPECT_EQ(server.spec()["holderIdentity"], "");
    TimePoint now = kStart;
    while (b.election.role(now) != LeaseRole::kLeader && now < kStart + seconds(5)) {
      now += milliseconds(50);
      b.Run(&server, now);
    }
    EXPECT_LE(now - kStart, milliseconds(1600));
  }
}

// A container that died is started again in its pod: nobody else can be there.
TEST(LeaseElection, LeaseOfADeadProcessOfTheSamePodIsTakenAtOnceAndThatOfAnotherIsNot) {
  const auto candidate = [](const std::string& pod, const std::string& process) {
    LeaseOptions options = OptionsOf(pod + process);
    options.succession = pod;
    return LeaseElection(options, 1);
  };
  const auto run = [](LeaseElection* election, LeaseServer* server, TimePoint now) {
    for (int i = 0; i < 4; ++i) {
      const LeaseElection::Next next = election->NextRequest(now, kWall);
      if (next.not_before <= now) {
        election->OnResult(server->Handle(next.request), now, now);
      }
    }
    return election->role(now);
  };
  LeaseServer server;
  LeaseElection dead = candidate("pod-a_uid-1_", "1");
  EXPECT_EQ(run(&dead, &server, kStart), LeaseRole::kLeader);
  for (const char* const other : {"pod-a_uid-2_", "pod-b_uid-1_", ""}) {
    LeaseElection stranger = candidate(other, "x");
    EXPECT_EQ(run(&stranger, &server, kStart + seconds(1)), LeaseRole::kStandby) << other;
  }
  LeaseElection next = candidate("pod-a_uid-1_", "2");
  EXPECT_EQ(run(&next, &server, kStart + seconds(1)), LeaseRole::kLeader);
  EXPECT_EQ(server.spec()["holderIdentity"], "pod-a_uid-1_2");
  EXPECT_EQ(server.spec()["leaseTransitions"], 1);
}

// Checklist: API outage > renewDeadline.
TEST(LeaseElection, ALeaderThatCannotRenewStopsBeforeAnotherMayBegin) {
  LeaseServer server;
  Candidate a("a");
  a.Run(&server, kStart);
  for (int second = 1; second < 10; ++second) {
    const TimePoint now = kStart + seconds(second);
    const LeaseElection::Next next = a.election.NextRequest(now, kWall);
    if (next.not_before <= now) {
      a.election.OnResult(Fault{FaultKind::kTimeout, true, ""}, now, now);
    }
    EXPECT_EQ(a.election.role(now), LeaseRole::kLeader);
  }
  EXPECT_EQ(a.election.role(kStart + seconds(10)), LeaseRole::kLost);
  a.Run(&server, kStart + seconds(11));
  a.Run(&server, kStart + seconds(13));
  EXPECT_EQ(a.election.role(kStart + seconds(13)), LeaseRole::kLost) << "until it stands by";
}

TEST(LeaseElection, OneThatLostItsLeaseStandsByAndTakesItBackIfNobodyElseHas) {
  LeaseServer server;
  Candidate a("a");
  a.Run(&server, kStart);
  const TimePoint later = kStart + seconds(60);
  ASSERT_EQ(a.election.role(later), LeaseRole::kLost);
  a.election.Rejoin();
  EXPECT_EQ(a.election.role(later), LeaseRole::kStandby);
  a.Run(&server, later);
  EXPECT_EQ(a.election.role(later), LeaseRole::kLeader);
  EXPECT_EQ(a.election.leads_until(), later + seconds(10));
  EXPECT_EQ(server.spec()["leaseTransitions"], 0);
}

TEST(LeaseElection, OneThatLostItsLeaseAndFindsNoneWaitsForWhoeverHadIt) {
  LeaseServer server;
  Candidate a("a");
  a.Run(&server, kStart);
  const TimePoint later = kStart + seconds(60);
  server.Delete();
  a.election.Rejoin();
  a.Run(&server, later);
  a.Run(&server, later + seconds(14));
  EXPECT_EQ(a.election.role(later + seconds(14)), LeaseRole::kStandby);
  a.Run(&server, later + seconds(16));
  EXPECT_EQ(a.election.role(later + seconds(16)), LeaseRole::kLeader);
}

TEST(LeaseElection, OneThatLostItsLeaseToAnotherWaitsForThatOne) {
  LeaseServer server;
  Candidate a("a");
  Candidate b("b");
  a.Run(&server, kStart);
  b.Run(&server, kStart + seconds(1));
  const TimePoint later = kStart + seconds(60);
  b.Run(&server, later);
  ASSERT_EQ(b.election.role(later), LeaseRole::kLeader);
  a.election.Rejoin();
  a.Run(&server, later + seconds(1));
  a.Run(&server, later + seconds(9));
  EXPECT_EQ(a.election.role(later + seconds(9)), LeaseRole::kStandby);
  EXPECT_EQ(server.spec()["holderIdentity"], "b");
  a.Run(&server, later + seconds(17));
  EXPECT_EQ(a.election.role(later + seconds(17)), LeaseRole::kLeader);
}

TEST(LeaseElection, ALateAnswerDoesNotBringLeadershipBack) {
  LeaseServer server;
  Candidate a("a");
  a.Run(&server, kStart);
  const TimePoint sent = kStart + seconds(9);
  const LeaseElection::Next next = a.election.NextRequest(sent, kWall);
  a.election.OnResult(server.Handle(next.request), sent, kStart + seconds(11));
  EXPECT_EQ(a.election.role(kStart + seconds(11)), LeaseRole::kLost);
  Candidate b("b");
  const LeaseElection::Next read = b.election.NextRequest(kStart + seconds(30), kWall);
  b.election.OnResult(Reply{404, "", {}}, kStart + seconds(30), kStart + seconds(30));
  const LeaseElection::Next create = b.election.NextRequest(kStart + seconds(30), kWall);
  EXPECT_EQ(create.request.verb, Verb::kCreate);
  server.Delete();
  b.election.OnResult(server.Handle(create.request), kStart + seconds(30), kStart + seconds(41));
  EXPECT_EQ(b.election.role(kStart + seconds(41)), LeaseRole::kStandby) << "not yet, nor lost";
  b.Run(&server, kStart + seconds(41));
  EXPECT_EQ(b.election.role(kStart + seconds(41)), LeaseRole::kLeader);
}

TEST(LeaseElection, AWriteOfUnknownOutcomeIsLookedUp) {
  LeaseServer server;
  Candidate a("a");
  const LeaseElection::Next read = a.election.NextRequest(kStart, kWall);
  a.election.OnResult(server.Handle(read.request), kStart, kStart);
  const LeaseElection::Next create = a.election.NextRequest(kStart, kWall);
  server.Handle(create.request);
  a.election.OnResult(Fault{FaultKind::kReset, true, ""}, kStart, kStart);
  EXPECT_EQ(a.election.role(kStart), LeaseRole::kStandby);
  a.Run(&server, kStart + seconds(2));
  EXPECT_EQ(a.election.role(kStart + seconds(2)), LeaseRole::kLeader);
}

TEST(LeaseElection, AnswersThatMakeNoSenseChangeNothing) {
  for (const char* body : {"",
                           "<html>",
                           "[]",
                           "{}",
                           R"({"metadata":{}})",
                           R"({"metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":7}})"}) {
    Candidate a("a");
    a.election.NextRequest(kStart, kWall);
    a.election.OnResult(Reply{200, body, {}}, kStart, kStart);
    EXPECT_EQ(a.election.role(kStart), LeaseRole::kStandby) << body;
    EXPECT_EQ(a.election.NextRequest(kStart, kWall).request.method, "GET") << body;
  }
}

// Candidates that look, write, freeze, lose requests or answers, and see slow servers; somebody
// deletes the lease now and then, though not before all have seen one, nor twice while one is
// frozen.
class LeaseWorld {
 public:
  explicit LeaseWorld(uint64_t seed) : prng_(seed) {
    for (const char* identity : {"a", "b", "c"}) {
      members_.push_back({Candidate(identity, prng_.Next()), kStart, std::nullopt});
    }
  }

  void Step() {
    now_ += milliseconds(prng_.Below(300));
    Member& member = members_[prng_.Below(members_.size())];
    if (member.frozen_until <= now_) {
      Act(&member);
    }
    if (prng_.Below(60) == 0) {
      member.frozen_until = now_ + seconds(prng_.Below(40));
    }
    const bool all_know = std::all_of(members_.begin(), members_.end(), [](const Member& each) {
      return !each.candidate.election.holder().empty();
    });
    if (all_know && deleted_at_ + seconds(90) < now_ && prng_.Below(300) == 0) {
      server_.Delete();
      deleted_at_ = now_;
    }
  }

  std::vector<std::string> Leaders() const {
    std::vector<std::string> leaders;
    for (const Member& member : members_) {
      if (member.candidate.election.role(now_) == LeaseRole::kLeader) {
        leaders.push_back(member.candidate.election.holder());
      }
    }
    return leaders;
  }

 private:
  // A request under way: the server is reached at once, or just before the answer.
  struct Open {
    TimePoint sent;
    TimePoint answered;
    std::optional<CallResult> result;
    Request request;
  };

  struct Member {
    Candidate candidate;
    TimePoint frozen_until;
    std::optional<Open> open;
  };

  void Act(Member* member) {
    LeaseElection& election = member->candidate.election;
    if (!member->open && election.role(now_) == LeaseRole::kLost) {
      election.Rejoin();
    }
    if (!member->open) {
      const LeaseElection::Next next = election.NextRequest(now_, kWall);
      if (next.not_before > now_) {
        return;
      }
      const milliseconds delay(prng_.Below(10) == 0 ? prng_.Below(9000) : 20);
      member->open = Open{now_, now_ + delay, std::nullopt, next.request};
      if (prng_.Below(2) == 0) {
        member->open->result = server_.Handle(next.request);
      }
    }
    if (member->open->answered > now_) {
      return;
    }
    Open open = *std::exchange(member->open, std::nullopt);
    CallResult result = open.result ? *open.result : server_.Handle(open.request);
    if (prng_.Below(20) == 0) {
      result = Fault{FaultKind::kReset, true, ""};
    }
    election.OnResult(result, open.sent, now_);
  }

  Prng prng_;
  LeaseServer server_;
  std::vector<Member> members_;
  TimePoint now_ = kStart;
  TimePoint deleted_at_ = kStart;
};

// Sanitizers look for what one world does wrong as well as many.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kWorlds = 30;
#else
constexpr uint64_t kWorlds = 300;
#endif

// Checklist: two candidates, exactly one writer, with paused processes and lost requests.
TEST(LeaseElection, NeverHasTwoLeaders) {
  uint64_t changes = 0;
  for (uint64_t seed = 0; seed < kWorlds; ++seed) {
    LeaseWorld world(seed);
    std::string leader;
    for (int step = 0; step < 1500; ++step) {
      world.Step();
      const std::vector<std::string> leaders = world.Leaders();
      ASSERT_LE(leaders.size(), 1U) << "LeaseWorld(" << seed << "), step " << step;
      if (!leaders.empty() && leaders.front() != leader) {
        leader = leaders.front();
        ++changes;
      }
    }
  }
  EXPECT_GT(changes, 3 * kWorlds) << "the worlds are not all quiet";
}

}  // namespace
}  // namespace lockstep::control::kube
