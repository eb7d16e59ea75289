#include "trainer-runtime/capi/library_environment.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "common/contract/environment/topology.h"

namespace lockstep::runtime {
namespace {

// Two workers of two processes each.
JobTopology Topology() {
  JobTopology topology;
  topology.job = "own";
  topology.namespace_name = "default";
  topology.roles = {{Role::kWorker, 2, 2}};
  topology.addressing = DnsAddressing{};
  return topology;
}

// What process `local_rank` of worker 1's second pod sees.
EnvironmentMap Variables(int local_rank) {
  const PodIdentity identity{{Role::kWorker, 1}, {Attempt(0), Incarnation(1)}, Epoch(3), "uid"};
  const auto pod = MakeWorkerEnvironment(Topology(), identity).value();
  return RenderEnvironmentForProcess(pod, local_rank).value();
}

TEST(LibraryEnvironment, IsThatOfThePodsFirstProcessWithoutASupervisor) {
  const auto read = ReadLibraryEnvironment(Variables(0));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->worker.rank, 2);
  EXPECT_EQ(read->worker.incarnation, Incarnation(1000));
  EXPECT_EQ(read->channel_fd, -1);
  EXPECT_EQ(read->closed_fd, -1);
  EXPECT_EQ(read->job_key, "");
}

TEST(LibraryEnvironment, ASupervisedProcessHasARankAndAnIncarnationOfItsOwn) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  EnvironmentMap variables = Variables(1);
  variables.merge(RenderSupervisedPlace({1, 4, ours.get()}));
  const auto read = ReadLibraryEnvironment(std::move(variables));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->worker.rank, 3);
  EXPECT_EQ(read->worker.incarnation, Incarnation(1004));
  EXPECT_EQ(read->channel_fd, ours.get());
  EXPECT_EQ(read->closed_fd, -1);
}

// A launcher between the supervisor and the program may close what it did not open.
TEST(LibraryEnvironment, ADescriptorThatIsNoChannelIsLeftAlone) {
  EnvironmentMap variables = Variables(0);
  variables.merge(RenderSupervisedPlace({0, 0, 2}));
  const auto read = ReadLibraryEnvironment(std::move(variables));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->channel_fd, -1);
  EXPECT_EQ(read->closed_fd, 2);
}

TEST(LibraryEnvironment, OutsideAJobSaysWhoWouldMakeOne) {
  const auto read = ReadLibraryEnvironment({{"PATH", "/usr/bin"}});
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(read.error().message().find("lockstep run"), std::string::npos);
}

TEST(LibraryEnvironment, RolesWithoutRanksAreRefused) {
  EnvironmentMap variables = Variables(0);
  variables.erase(env::kRank);
  const auto read = ReadLibraryEnvironment(std::move(variables));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), ErrorCode::kNotFound);
}

TEST(LibraryEnvironment, AWrongNumberOfRanksIsNamed) {
  EnvironmentMap variables = Variables(1);
  variables.merge(RenderSupervisedPlace({1, 0, 2}));
  variables[env::kWorldSize] = "6";
  const auto read = ReadLibraryEnvironment(std::move(variables));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), ErrorCode::kMismatch);
  EXPECT_EQ(read.error().message(),
            "4 addresses of chief and workers found, expected LOCKSTEP_WORLD_SIZE = 6");
}

TEST(LibraryEnvironment, AMissingKeyFileIsNamed) {
  EnvironmentMap variables = Variables(0);
  variables[env::kJobKeyFile] = "/nonexistent/key";
  const auto read = ReadLibraryEnvironment(std::move(variables));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().field(), env::kJobKeyFile);
}

}  // namespace
}  // namespace lockstep::runtime
