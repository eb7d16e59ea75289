// LeaseDriver against a server that keeps one Lease, over every transport.

#include "operator/kubeclient/api_client/lease_driver.h"

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/json/json.h"
#include "operator/kubeclient/transport/testing/transport_test.h"

namespace lockstep::control {
namespace {

using kube::LeaseRole;
using std::chrono::milliseconds;

// One lease, as an API server keeps it.
class LeaseStore {
 public:
  void Serve(const TestRequest& request, TestPeer& peer) {
    if (is_silent_) {
      peer.AwaitClose();
      return;
    }
    if (is_closed_) {
      peer.Reply(403, R"({"kind":"Status","code":403,"message":"leases is forbidden"})");
      return;
    }
    std::unique_lock lock(mutex_);
    if (request.method == "GET") {
      const Json lease = lease_;
      lock.unlock();
      peer.Reply(lease.is_null() ? 404 : 200, lease.is_null() ? "{}" : DumpJson(lease));
      return;
    }
    Json written = ParseJson(request.body).value();
    const bool is_current = lease_.is_null() || written["metadata"]["resourceVersion"] ==
                                                    lease_["metadata"]["resourceVersion"];
    if (is_current) {
      written["metadata"]["resourceVersion"] = std::to_string(++version_);
      lease_ = written;
    }
    lock.unlock();
    peer.Reply(is_current ? 200 : 409, DumpJson(written));
  }

  // From now on requests hang.
  void FallSilent() { is_silent_ = true; }

  // Whether requests are forbidden.
  void SetClosed(bool is_closed) { is_closed_ = is_closed; }

  void SpeakAgain() { is_silent_ = false; }

  // Null: there is no lease.
  Json Holder() const {
    const std::lock_guard lock(mutex_);
    return lease_.is_null() ? lease_ : lease_["spec"]["holderIdentity"];
  }

 private:
  std::atomic<bool> is_silent_{false};
  std::atomic<bool> is_closed_{false};
  mutable std::mutex mutex_;
  Json lease_;
  int version_ = 0;
};

// Keeps the messages with their fields.
class NotingLogger final : public Logger {
 public:
  void Log(LogLevel /*level*/, std::string_view message, LogFields fields) override {
    const std::lock_guard lock(mutex_);
    messages_ += std::string(message);
    for (const LogField& field : fields) {
      messages_ += " " + std::string(field.key) + "=" + field.value;
    }
    messages_ += "\n";
    changed_.notify_all();
  }

  std::string messages() const {
    const std::lock_guard lock(mutex_);
    return messages_;
  }

  bool Await(const std::string& message, Duration patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(
        lock, patience, [&] { return messages_.find(message) != std::string::npos; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string messages_;
};

class LeaseDriverTest : public TransportTest {
 protected:
  void ServeLease() {
    Serve([this](const TestRequest& request, TestPeer& peer) {
      if (request.target.find("/leases") != std::string::npos) {
        store_.Serve(request, peer);
      } else {
        peer.AwaitClose();
      }
    });
  }

  std::unique_ptr<LeaseDriver> MakeDriver(kube::LeaseOptions lease = {}) {
    LeaseDriverOptions options;
    options.transport = transport();
    options.clock = &clock_;
    options.logger = &log_;
    options.lease = std::move(lease);
    options.lease.namespace_name = "lockstep-system";
    options.lease.identity = "me";
    options.on_role = [this](LeaseRole role) {
      const std::lock_guard lock(mutex_);
      roles_.push_back(role);
      changed_.notify_all();
    };
    return std::make_unique<LeaseDriver>(std::move(options));
  }

  bool AwaitRole(LeaseRole role) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(
        lock, kPatience, [&] { return !roles_.empty() && roles_.back() == role; });
  }

  SystemClock clock_;
  LeaseStore store_;
  NotingLogger log_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LeaseRole> roles_;
};

TEST_P(LeaseDriverTest, FreeLeaseIsTaken) {
  ServeLease();
  const auto driver = MakeDriver();
  EXPECT_TRUE(AwaitRole(LeaseRole::kLeader));
  EXPECT_EQ(driver->role(), LeaseRole::kLeader);
  EXPECT_EQ(driver->holder(), "me");
  EXPECT_GT(driver->leads_until(), clock_.Now());
  EXPECT_EQ(store_.Holder(), "me");
}

TEST_P(LeaseDriverTest, ReleaseLetsAnotherLeadAtOnce) {
  ServeLease();
  const auto driver = MakeDriver();
  ASSERT_TRUE(AwaitRole(LeaseRole::kLeader));
  driver->Release(Deadline::After(clock_.Now(), kPatience));
  EXPECT_LT(driver->leads_until(), clock_.Now());
  EXPECT_EQ(store_.Holder(), "");
}

TEST_P(LeaseDriverTest, EndWithoutReleaseKeepsTheLease) {
  ServeLease();
  auto driver = MakeDriver();
  ASSERT_TRUE(AwaitRole(LeaseRole::kLeader));
  driver = nullptr;
  EXPECT_EQ(store_.Holder(), "me");
}

TEST_P(LeaseDriverTest, RefusalIsKnownAndToldOnceUntilItEnds) {
  store_.SetClosed(true);
  std::atomic<int> refused{0};
  const ServerEnd end(this);
  Serve([&](const TestRequest& request, TestPeer& peer) {
    ++refused;
    store_.Serve(request, peer);
  });
  kube::LeaseOptions lease;
  lease.retry_period = milliseconds(700);  // calls have half as much again: enough when busy
  const auto driver = MakeDriver(lease);
  const Deadline deadline = Deadline::After(clock_.Now(), kPatience);
  while (refused < 4 && clock_.Now() < deadline.when()) {
    log_.Await("never said", milliseconds(20));
  }
  EXPECT_NE(driver->refusal().find("leases is forbidden"), std::string::npos);
  EXPECT_EQ(log_.messages(), "the lease was not renewed fault=refused error=leases is forbidden\n");

  store_.SetClosed(false);
  EXPECT_TRUE(log_.Await("answers calls for the lease again", kPatience));
  EXPECT_EQ(driver->refusal(), "");
}

// The clock decides, not an answer: none comes.
TEST_P(LeaseDriverTest, SilentServerEndsLeadershipUntilItSpeaksAgain) {
  ServeLease();
  kube::LeaseOptions lease;
  lease.lease_duration = milliseconds(5000);
  lease.renew_deadline = milliseconds(2000);
  lease.retry_period = milliseconds(500);
  const auto driver = MakeDriver(lease);
  ASSERT_TRUE(AwaitRole(LeaseRole::kLeader));
  store_.FallSilent();
  EXPECT_TRUE(AwaitRole(LeaseRole::kLost));
  EXPECT_LE(driver->leads_until(), clock_.Now());

  store_.SpeakAgain();
  driver->Rejoin();
  EXPECT_TRUE(AwaitRole(LeaseRole::kLeader));
  EXPECT_GT(driver->leads_until(), clock_.Now());
}

TEST_P(LeaseDriverTest, RenewalDoesNotQueueBehindOtherCalls) {
  ServeLease();
  std::vector<std::future<void>> ended;
  for (int i = 0; i < 2 * kConnectionsMax; ++i) {
    auto end = std::make_shared<std::promise<void>>();
    ended.push_back(end->get_future());
    transport()->StartCall(
        RequestFor("GET", "/hangs"), {}, [end](const kube::CallResult&) { end->set_value(); });
  }
  auto driver = MakeDriver();
  EXPECT_TRUE(AwaitRole(LeaseRole::kLeader));
  driver = nullptr;
  CloseTransport();
  for (auto& end : ended) {
    end.get();
  }
}

TEST_P(LeaseDriverTest, ReleaseGivesUpWithItsDeadline) {
  ServeLease();
  const auto driver = MakeDriver();
  ASSERT_TRUE(AwaitRole(LeaseRole::kLeader));
  store_.FallSilent();
  driver->Release(Deadline::After(clock_.Now(), milliseconds(50)));
  EXPECT_LT(driver->leads_until(), clock_.Now());
}

LOCKSTEP_FOR_ALL_TRANSPORTS(LeaseDriverTest);

}  // namespace
}  // namespace lockstep::control
