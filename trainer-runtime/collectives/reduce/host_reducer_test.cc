#include "trainer-runtime/collectives/reduce/host_reducer.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// Has a backend, and nothing else.
class NamedCommunicator final : public Communicator {
 public:
  explicit NamedCommunicator(const char* backend) : backend_(backend) {}

  int rank() const override { return 0; }

  int world_size() const override { return 2; }

  Status AllReduce(void*, std::size_t, DataType, ReduceOp, Deadline) override { return OkStatus(); }

  Status Broadcast(void*, std::size_t, int, Deadline) override { return OkStatus(); }

  Status Fill(void*, std::size_t, int, bool, Deadline) override { return OkStatus(); }

  Status Barrier(Deadline) override { return OkStatus(); }

  void Abort(const Error& /*reason*/) noexcept override {}

  Status CheckHealth() override { return OkStatus(); }

  const char* BackendName() const override { return backend_; }

 private:
  const char* const backend_;
};

TEST(HostReducer, SumsBesideWhereBytesCrossAWireInMoreThanOneBucket) {
  struct Case {
    const char* backend;
    std::size_t bucket_count;
    bool sums_beside;
  };

  for (const Case& c : {Case{"tcp", 2, true},
                        Case{"tcp", 1, false},
                        Case{"tcp", 0, false},
                        Case{"hierarchical", 2, true},
                        Case{"hierarchical", 1, false},
                        Case{"shared-memory", 2, false},
                        Case{"alone", 2, false}}) {
    NamedCommunicator communicator(c.backend);
    const auto reducer = MakeHostReducer(&communicator, c.bucket_count);
    EXPECT_EQ(reducer->SumsBeside(), c.sums_beside) << c.backend << ", " << c.bucket_count;
    EXPECT_STREQ(reducer->BackendName(), c.backend);
  }
}

}  // namespace
}  // namespace lockstep::runtime
