// A reflector, its driver, a transport and a server, together.

#include "operator/kubeclient/api_client/reflector_driver.h"

#include <atomic>
#include <future>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kubeclient/kube/decode.h"
#include "operator/kubeclient/transport/testing/transport_test.h"

namespace lockstep::control {
namespace {

using kube::ObjectUpdate;
using kube::RawObject;

// {"metadata": {...}} of one object.
std::string Object(const std::string& name, int version) {
  return R"({"metadata":{"name":")" + name + R"(","namespace":"a","uid":"u-)" + name +
         R"(","resourceVersion":")" + std::to_string(version) + R"("}})";
}

std::string Event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}

class ReflectorDriverTest : public TransportTest {
 protected:
  using Message = std::variant<std::monostate, ObjectUpdate<RawObject>>;
  using Driver = ReflectorDriver<RawObject>;

  std::unique_ptr<Driver> MakeDriver() {
    WatchLoopOptions loop;
    loop.transport = transport();
    loop.clock = &clock_;
    loop.logger = logger_.get();
    kube::ReflectorOptions options;
    options.selection.resource = kube::kTrainingJobs;
    options.wants_streaming_list = false;
    return std::make_unique<Driver>(
        loop, options, &kube::DecodeRaw, /*seed=*/1, Driver::Into(&queue_));
  }

  // The next updates, one line each, until there are so many.
  std::vector<std::string> Take(std::size_t count) {
    std::vector<std::string> lines;
    const Deadline deadline = Deadline::After(clock_.Now(), kPatience);
    while (lines.size() < count && !deadline.HasPassed(clock_.Now())) {
      for (const Message& message : queue_.TakeAll(deadline)) {
        lines.push_back(Describe(std::get<ObjectUpdate<RawObject>>(message)));
      }
    }
    return lines;
  }

  static std::string Describe(const ObjectUpdate<RawObject>& update) {
    if (const auto* upserted = std::get_if<kube::Upserted<RawObject>>(&update)) {
      return "upserted " + upserted->item.key.name;
    }
    if (const auto* deleted = std::get_if<kube::Deleted<RawObject>>(&update)) {
      return "deleted " + deleted->item.key.name;
    }
    std::string text = "replaced";
    for (const auto& item : std::get<kube::Replaced<RawObject>>(update).items) {
      text += " " + item.key.name;
    }
    return text;
  }

  // What the driver tells of itself follows what it delivers, on the transport's thread.
  void Settle() {
    std::promise<void> done;
    transport()->RunAfter(Duration::zero(), [&] { done.set_value(); });
    done.get_future().wait();
  }

  SystemClock clock_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  UpdateQueue<Message> queue_{64};
};

TEST_P(ReflectorDriverTest, ListIsFollowedByItsChanges) {
  Serve([](const TestRequest& request, TestPeer& peer) {
    if (request.target.find("watch=") == std::string::npos) {
      peer.Reply(200,
                 R"({"kind":"TrainingJobList","metadata":{"resourceVersion":"7"},"items":[)" +
                     Object("x", 5) + "," + Object("y", 6) + "]}");
      return;
    }
    peer.BeginChunks();
    peer.Chunk(Event("MODIFIED", Object("x", 8)));
    peer.Chunk(Event("DELETED", Object("y", 9)));
    peer.AwaitClose();
  });
  const auto driver = MakeDriver();
  EXPECT_EQ(Take(3), (std::vector<std::string>{"replaced x y", "upserted x", "deleted y"}));
  Settle();
  EXPECT_TRUE(driver->has_synced());
  EXPECT_EQ(driver->counts().lists, 1);
  EXPECT_EQ(driver->counts().watches, 1);
}

// What was missed while nobody watched is made up for.
TEST_P(ReflectorDriverTest, WatchThatIsCutGoesOnWhereItEnded) {
  std::atomic<int> watch_count{0};
  const ServerEnd end(this);
  Serve([&](const TestRequest& request, TestPeer& peer) {
    if (request.target.find("watch=") == std::string::npos) {
      peer.Reply(200,
                 R"({"kind":"TrainingJobList","metadata":{"resourceVersion":"7"},"items":[]})");
      return;
    }
    peer.BeginChunks();
    if (watch_count++ == 0) {
      peer.Chunk(Event("ADDED", Object("x", 8)));
      peer.Send("40\r\n{\"type\":\"DEL");  // in the middle of the next event
      peer.Close();
    } else {
      peer.Chunk(Event("ADDED", Object("y", 9)));
      peer.AwaitClose();
    }
  });
  const auto driver = MakeDriver();
  EXPECT_EQ(Take(3), (std::vector<std::string>{"replaced", "upserted x", "upserted y"}));
  Settle();
  EXPECT_EQ(driver->counts().lists, 1);
  EXPECT_NE(server().requests().back().target.find("resourceVersion=8"), std::string::npos);
}

LOCKSTEP_FOR_ALL_TRANSPORTS(ReflectorDriverTest);

}  // namespace
}  // namespace lockstep::control
