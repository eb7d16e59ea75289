#include "operator/controller/errand_runner.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

class Recorder final : public kube::CallStarter {
 public:
  void StartCalls(kube::CallTicket ticket,
                  const std::string& /*lane*/,
                  std::vector<kube::Request> /*requests*/) override {
    tickets.push_back(ticket);
  }

  void AbandonCalls() override {}

  std::vector<kube::CallTicket> tickets;
};

// Creates pods whose manifests have so many bytes each.
class Creations final : public Errand {
 public:
  Creations(int count, std::size_t bytes) : count_(count), bytes_(bytes) {}

  std::vector<ErrandCall> Next() override {
    std::vector<ErrandCall> calls;
    for (; count_ > 0; --count_) {
      calls.push_back(
          {[this] { return kube::Create(kube::kPods, "default", std::string(bytes_, 'x')); },
           [](const kube::CallResult&) {}});
    }
    return calls;
  }

  std::vector<Status> TakeAnswers() override { return {}; }

 private:
  int count_;
  const std::size_t bytes_;
};

TEST(ErrandRunner, LargeBodiesAreSentAFewAtATime) {
  Recorder api;
  ErrandRunner runner(&api, 32);
  runner.Begin({"default", "mnist"}, std::make_unique<Creations>(4, 300'000));
  ASSERT_EQ(api.tickets.size(), 2U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(runner.TakeFinished().empty());
    ASSERT_GT(api.tickets.size(), i);
    runner.Accept({api.tickets[i], {kube::Reply{201, "{}", {}}}});
  }
  EXPECT_EQ(api.tickets.size(), 4U);
  EXPECT_EQ(runner.TakeFinished().size(), 1U);
}

TEST(ErrandRunner, SmallBodiesAreSentAsManyAsMayBe) {
  Recorder api;
  ErrandRunner runner(&api, 32);
  runner.Begin({"default", "mnist"}, std::make_unique<Creations>(40, 3'000));
  EXPECT_EQ(api.tickets.size(), 32U);
}

}  // namespace
}  // namespace lockstep::control
