#include "common/contract/environment/topology.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JobTopology Workers(int replicas) {
  return {"mnist", "default", {{Role::kWorker, replicas, 1}}, DnsAddressing{}};
}

JobTopology Full() {
  return {
      "mnist",
      "team-a",
      {{Role::kEvaluator, 1, 1}, {Role::kWorker, 2, 2}, {Role::kPs, 2, 1}, {Role::kChief, 1, 2}},
      LoopbackAddressing{"127.7.9"}};
}

std::vector<std::string> Texts(const std::vector<Error>& errors) {
  std::vector<std::string> texts;
  for (const Error& error : errors) {
    texts.push_back(error.ToString());
  }
  return texts;
}

TEST(RankOrder, ChiefComesFirstThenWorkersAndProcessesStayTogether) {
  std::vector<std::string> order;
  for (const RankPlace& place : RankOrder(Full())) {
    order.push_back(TaskName(place.task) + "/" + std::to_string(place.local_rank));
  }
  EXPECT_THAT(
      order,
      ElementsAre(
          "chief-0/0", "chief-0/1", "worker-0/0", "worker-0/1", "worker-1/0", "worker-1/1"));
}

TEST(RankOrder, AllQueriesAgreeForEverySmallTopology) {
  for (int chiefs = 0; chiefs <= 1; ++chiefs) {
    for (int workers = 0; workers <= 3; ++workers) {
      for (int processes = 1; processes <= 3; ++processes) {
        JobTopology topology = {"j", "n", {{Role::kPs, 2, 1}}, DnsAddressing{}};
        if (workers > 0) {
          topology.roles.push_back({Role::kWorker, workers, processes});
        }
        if (chiefs > 0) {
          topology.roles.push_back({Role::kChief, chiefs, processes});
        }
        const std::vector<RankPlace> order = RankOrder(topology);
        ASSERT_EQ(WorldSize(topology), static_cast<int>(order.size()));
        for (int rank = 0; rank < WorldSize(topology); ++rank) {
          const RankPlace place = PlaceOfRank(topology, rank).value();
          ASSERT_EQ(place, order[static_cast<std::size_t>(rank)]);
          ASSERT_EQ(FirstRankOf(topology, place.task).value() + place.local_rank, rank);
        }
        ASSERT_FALSE(PlaceOfRank(topology, -1).has_value());
        ASSERT_FALSE(PlaceOfRank(topology, WorldSize(topology)).has_value());
      }
    }
  }
}

TEST(RankOrder, ParameterServersEvaluatorsAndStrangersHaveNoRank) {
  EXPECT_FALSE(FirstRankOf(Full(), {Role::kPs, 0}).has_value());
  EXPECT_FALSE(FirstRankOf(Full(), {Role::kEvaluator, 0}).has_value());
  EXPECT_FALSE(FirstRankOf(Full(), {Role::kWorker, 2}).has_value());
  EXPECT_FALSE(FirstRankOf(Full(), {Role::kWorker, -1}).has_value());
  EXPECT_FALSE(FirstRankOf(Workers(2), {Role::kChief, 0}).has_value());
}

TEST(Names, HostNameIsJobRoleIndex) {
  EXPECT_EQ(HostName("mnist", {Role::kWorker, 12}), "mnist-worker-12");
}

TEST(Names, PodNameGrowsWithAttemptAndReplacement) {
  const TaskId worker{Role::kWorker, 1};
  EXPECT_EQ(PodName("mnist", worker, {}), "mnist-worker-1");
  EXPECT_EQ(PodName("mnist", worker, {Attempt(0), Incarnation(2)}), "mnist-worker-1-r2");
  EXPECT_EQ(PodName("mnist", worker, {Attempt(3), Incarnation(0)}), "mnist-worker-1-a3");
  EXPECT_EQ(PodName("mnist", worker, {Attempt(3), Incarnation(2)}), "mnist-worker-1-a3-r2");
}

TEST(Names, PodNamesNeverCollideAndCanBeReadBack) {
  // Job names chosen to look like parts of pod names.
  const std::vector<std::string> jobs = {
      "m", "m-worker-1", "m-worker-1-r1", "m-a1", "worker", "m-worker", "chief-0"};
  std::set<std::string> names;
  for (const std::string& job : jobs) {
    for (const Role role : kRoles) {
      for (int number = 0; number < 3 * 3 * 3; ++number) {
        const PodNameParts parts{
            job, {role, number % 3}, {Attempt(number / 3 % 3), Incarnation(number / 9)}};
        const std::string name = PodName(parts.job, parts.task, parts.number);
        ASSERT_TRUE(names.insert(name).second) << name << " appears twice";
        const auto read = ParsePodName(name);
        ASSERT_TRUE(read.has_value()) << name;
        ASSERT_EQ(*read, parts) << name;
      }
    }
  }
}

TEST(Names, ForeignPodNamesAreNotReadBack) {
  for (const char* name : {"",
                           "worker-0",
                           "-worker-0",
                           "mnist-worker",
                           "mnist-worker-",
                           "mnist-worker-01",
                           "mnist-worker-0-r0",
                           "mnist-worker-0-r01",
                           "mnist-worker-0-a0",
                           "mnist-worker-0-r1-a1",
                           "mnist-worker-0-r",
                           "mnist-worker-0-x1",
                           "mnist-gardener-0",
                           "mnist-worker-99999999999999999999",
                           "mnist-worker-0-r99999999999999999999",
                           "Mnist-worker-0"}) {
    EXPECT_FALSE(ParsePodName(name).has_value()) << name;
  }
}

TEST(Addresses, DnsNamesCarryTheDomainOnlyWhenGiven) {
  JobTopology topology = Workers(2);
  EXPECT_EQ(FormatHostPort(MeshAddress(topology, {{Role::kWorker, 1}, 0})),
            "mnist-worker-1.mnist.default.svc:2222");
  topology.addressing = DnsAddressing{"cluster.local"};
  EXPECT_EQ(FormatHostPort(MeshAddress(topology, {{Role::kWorker, 1}, 0})),
            "mnist-worker-1.mnist.default.svc.cluster.local:2222");
}

TEST(Addresses, LoopbackNumbersPodsInOrderOfRoles) {
  const JobTopology topology = Full();
  EXPECT_EQ(HostOf(topology, {Role::kChief, 0}), "127.7.9.1");
  EXPECT_EQ(HostOf(topology, {Role::kWorker, 1}), "127.7.9.3");
  EXPECT_EQ(HostOf(topology, {Role::kPs, 0}), "127.7.9.4");
  EXPECT_EQ(HostOf(topology, {Role::kEvaluator, 0}), "127.7.9.6");
}

TEST(Addresses, NoTwoListenersOfAJobShareAnAddress) {
  const JobTopology topology = Full();
  std::set<HostPort> addresses = {MasterAddress(topology)};
  std::size_t count = 1;
  for (const TaskId& task : AllTasks(topology)) {
    addresses.insert(HostPort{HostOf(topology, task), StatusPortOf(topology.addressing)});
    addresses.insert({HostOf(topology, task), HorovodAddress(topology).port});
    count += 2;
    for (int l = 0; l < ProcessesOf(topology, task.role); ++l, ++count) {
      addresses.insert(MeshAddress(topology, {task, l}));
    }
  }
  EXPECT_EQ(addresses.size(), count);
}

TEST(Addresses, MasterIsRankZeroOnTorchsPort) {
  EXPECT_EQ(FormatHostPort(MasterAddress(Full())), "127.7.9.1:29500");
  JobTopology topology = Workers(2);
  topology.master_port = 31000;
  EXPECT_EQ(FormatHostPort(MasterAddress(topology)), "mnist-worker-0.mnist.default.svc:31000");
}

TEST(HostPortText, RoundTrips) {
  for (const char* text :
       {"a:1", "worker-0.job.ns.svc:2222", "127.0.0.1:65535", "[::1]:80", "[fe80::1%eth0]:2222"}) {
    const Result<HostPort> address = ParseHostPort(text);
    ASSERT_TRUE(address.ok()) << address.error().ToString();
    EXPECT_EQ(FormatHostPort(*address), text);
  }
}

TEST(HostPortText, RefusesWhatIsNoAddress) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "missing port"},
      {"host", "missing port"},
      {"host:", "bad port"},
      {"host:0", "bad port"},
      {"host:65536", "bad port"},
      {"host:-1", "bad port"},
      {"host:+1", "bad port"},
      {"host:0080", "bad port"},
      {"host:80x", "bad port"},
      {"host: 80", "bad port"},
      {"host:99999999999999999999", "bad port"},
      {":80", "empty host"},
      {"[]:80", "empty host"},
      {"ho st:80", "not a host"},
      {"grpc://host:80", "bad port"},
      {"::1:80", "empty host"},
      {"[::1]", "missing port"},
      {"[::1", "no closing bracket"},
      {"[::1]x:80", "text between bracket and port"},
      {"[host]:80", "brackets are for IPv6"},
  };
  for (const auto& [text, why] : cases) {
    const Result<HostPort> address = ParseHostPort(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_THAT(address.error().message(), AllOf(HasSubstr("expected host:port"), HasSubstr(why)))
        << text;
  }
}

TEST(CheckTopology, SoundTopologiesHaveNoProblem) {
  EXPECT_THAT(Texts(CheckTopology(Workers(1))), IsEmpty());
  EXPECT_THAT(Texts(CheckTopology(Workers(kReplicasMax))), IsEmpty());
  EXPECT_THAT(Texts(CheckTopology(Full())), IsEmpty());
}

struct BadTopology {
  const char* story;
  JobTopology topology;
  std::string error;  // a part of the one error expected
};

std::vector<BadTopology> BadTopologies() {
  const std::string long_job(55, 'j');
  std::vector<BadTopology> cases = {
      {"empty name", {"", "n", {{}}}, "metadata.name: \"\" found, expected a DNS label"},
      {"upper case", {"Mnist", "n", {{}}}, "metadata.name: \"Mnist\" found"},
      {"digit first", {"1mnist", "n", {{}}}, "starting with a letter"},
      {"dash last", {"mnist-", "n", {{}}}, "metadata.name: \"mnist-\" found"},
      {"dot", {"a.b", "n", {{}}}, "metadata.name"},
      {"no namespace", {"m", "", {{}}}, "metadata.namespace: \"\" found"},
      {"no roles", {"m", "n", {}}, "spec.roles: no role that trains found"},
      {"only ps", {"m", "n", {{Role::kPs, 2, 1}}}, "expected a chief or at least one worker"},
      {"role twice",
       {"m", "n", {{Role::kWorker, 1, 1}, {Role::kWorker, 2, 1}}},
       "spec.roles[1].name: \"worker\" found, expected each role once"},
      {"two chiefs",
       {"m", "n", {{Role::kChief, 2, 1}}},
       "spec.roles[0].replicas: 2 found, expected 1: a job has at most one chief"},
      {"two evaluators",
       {"m", "n", {{}, {Role::kEvaluator, 2, 1}}},
       "spec.roles[1].replicas: 2 found, expected 1: a job has at most one evaluator"},
      {"no replicas",
       {"m", "n", {{Role::kWorker, 0, 1}}},
       "spec.roles[0].replicas: 0 found, expected a whole number from 1 to 4096"},
      {"too many replicas", {"m", "n", {{Role::kWorker, 4097, 1}}}, "replicas: 4097 found"},
      {"no processes", {"m", "n", {{Role::kWorker, 1, 0}}}, "spec.roles[0].processes: 0 found"},
      {"unequal processes",
       {"m", "n", {{Role::kChief, 1, 1}, {Role::kWorker, 2, 2}}},
       "spec.roles[1].processes: 2 found, expected 1, as in role chief"},
      {"several processes of a ps",
       {"m", "n", {{}, {Role::kPs, 1, 2}}},
       "spec.roles[1].processes: 2 found, expected 1 for this role"},
      {"host name too long",
       {long_job, "n", {{Role::kWorker, 11, 1}}},
       "gives the host name \"" + long_job +
           "-worker-10\", which has 65 characters, expected at most 63; shorten the job's name by "
           "2"},
      {"longest role counts",
       {long_job, "n", {{Role::kWorker, 1, 1}, {Role::kEvaluator, 1, 1}}},
       "-evaluator-0\", which has 67 characters"},
      {"bad domain",
       {"m", "n", {{}}, DnsAddressing{"cluster..local"}},
       "clusterDomain: \"cluster..local\" found"},
      {"bad loopback",
       {"m", "n", {{}}, LoopbackAddressing{"127.0"}},
       "loopbackPrefix: \"127.0\" found, expected \"127.x.y\""},
      {"loopback octet", {"m", "n", {{}}, LoopbackAddressing{"127.0.256"}}, "loopbackPrefix"},
      {"too many pods for one machine",
       {"m", "n", {{Role::kWorker, 255, 1}}, LoopbackAddressing{"127.0.1"}},
       "spec.roles: 255 pods found, expected at most 254 on one machine"},
      {"master port", {"m", "n", {{}}, DnsAddressing{}, 0}, "masterPort: 0 found"},
  };
  return cases;
}

TEST(CheckTopology, NamesFieldValueAndExpectationOfEachProblem) {
  for (const BadTopology& bad : BadTopologies()) {
    EXPECT_THAT(Texts(CheckTopology(bad.topology)), ElementsAre(HasSubstr(bad.error))) << bad.story;
  }
}

TEST(CheckTopology, ReportsAllProblemsAtOnce) {
  const JobTopology topology = {
      "M", "N", {{Role::kChief, 2, 1}, {Role::kPs, 0, 1}}, LoopbackAddressing{""}};
  EXPECT_THAT(Texts(CheckTopology(topology)),
              ElementsAre(HasSubstr("metadata.name"),
                          HasSubstr("metadata.namespace"),
                          HasSubstr("spec.roles[0].replicas"),
                          HasSubstr("spec.roles[1].replicas"),
                          HasSubstr("loopbackPrefix")));
}

TEST(CheckTopology, WholeDnsNameIsBounded) {
  JobTopology topology = {std::string(54, 'j'), std::string(63, 'n'), {{}}};
  EXPECT_THAT(Texts(CheckTopology(topology)), IsEmpty());
  topology.addressing = DnsAddressing{std::string(40, 'd') + "." + std::string(40, 'e')};
  EXPECT_THAT(Texts(CheckTopology(topology)),
              ElementsAre(AllOf(HasSubstr("clusterDomain"), HasSubstr("at most 253"))));
}

// TensorFlow's server and torch's store listen on all addresses of the machine.
TEST(Ports, AllListenersOfAMachineHavePortsOfTheirOwn) {
  JobTopology topology = Full();
  topology.roles = {{Role::kChief, 1, 2}, {Role::kWorker, 2, 2}, {Role::kPs, 1, 1}};
  topology.addressing = LoopbackAddressing{"127.1.2", 10000};

  std::set<int> ports = {MasterAddress(topology).port};
  std::size_t count = 1;
  for (const TaskId& task : AllTasks(topology)) {
    for (int l = 0; l < ProcessesOf(topology, task.role); ++l, ++count) {
      ports.insert(MeshAddress(topology, {task, l}).port);
    }
  }
  ports.insert(StatusPortOf(topology.addressing));
  ++count;

  EXPECT_EQ(ports.size(), count);
  EXPECT_GE(*ports.begin(), 10000);
  EXPECT_LT(*ports.rbegin(), 10000 + static_cast<int>(count) + 1);
}

}  // namespace
}  // namespace lockstep
