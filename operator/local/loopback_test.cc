#include "operator/local/loopback.h"

#include <string>
#include <unistd.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace lockstep::control {
namespace {

// Somebody else's server; not open when the address cannot be had.
UniqueFd ListenAt(const std::string& address, int port) {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int reuse = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<uint16_t>(port));
  ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  const bool listens =
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0 &&
      ::listen(listener.get(), 1) == 0;
  return listens ? std::move(listener) : UniqueFd();
}

LoopbackBlock Reserve(uint64_t seed, const LoopbackNeeds& needs) {
  Prng prng(seed);
  auto block = LoopbackBlock::Reserve(needs, &prng);
  EXPECT_TRUE(block.ok()) << block.error().ToString();
  return std::move(block).value();
}

TEST(LoopbackBlock, AddressesCountFromOneInOneBlock) {
  const LoopbackBlock block = Reserve(1, {3, 5});
  const std::string first = block.Address(0);
  EXPECT_TRUE(first.starts_with("127."));
  EXPECT_TRUE(first.ends_with(".1"));
  EXPECT_EQ(block.Address(2), first.substr(0, first.size() - 1) + "3");
}

TEST(LoopbackBlock, TwoRunsWithTheSameLuckShareNeitherAddressNorPort) {
  const LoopbackBlock first = Reserve(2, {1, 100});
  const LoopbackBlock second = Reserve(2, {1, 100});
  EXPECT_NE(first.Address(0), second.Address(0));
  EXPECT_GE(std::abs(first.port_base() - second.port_base()), 100);
}

TEST(LoopbackBlock, PortsStayClearOfThoseThatProgramsTakeByDefault) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const LoopbackBlock block = Reserve(seed, {1, 64 * 3});
    EXPECT_GE(block.port_base(), LoopbackBlock::kFirstPort);
    EXPECT_LE(block.port_base() + 64 * 3 - 1, LoopbackBlock::kLastPort);
  }
  EXPECT_LT(LoopbackBlock::kLastPort, 29500);
}

// A program that binds all addresses cannot have a port that somebody has at any of them.
TEST(LoopbackBlock, PortThatAnybodyListensOnIsPassedOver) {
  for (const char* const address : {"0.0.0.0", "127.0.0.1"}) {
    const int base = Reserve(3, {2, 8}).port_base();
    const UniqueFd listener = ListenAt(address, base + 7);
    ASSERT_TRUE(listener.is_open()) << address;

    EXPECT_NE(Reserve(3, {2, 8}).port_base(), base) << address;
    EXPECT_EQ(Reserve(3, {2, 7}).port_base(), base) << address << ": only the eighth is taken";
  }
}

TEST(LoopbackBlock, ReservedPortsCanBeBoundEverywhere) {
  const LoopbackBlock block = Reserve(5, {1, 4});
  for (int port = block.port_base(); port < block.port_base() + 4; ++port) {
    EXPECT_TRUE(ListenAt("0.0.0.0", port).is_open()) << port;
    EXPECT_TRUE(ListenAt(block.Address(0), port).is_open()) << port;
  }
}

TEST(LoopbackBlock, FixedPortThatIsTakenIsNamed) {
  const int port = Reserve(6, {1, 1}).port_base();
  const UniqueFd listener = ListenAt("127.0.0.1", port);
  ASSERT_TRUE(listener.is_open());
  Prng prng(7);
  const auto block = LoopbackBlock::Reserve({1, 1, port}, &prng);
  ASSERT_FALSE(block.ok());
  const std::string& message = block.error().message();
  const std::string number = std::to_string(port);
  EXPECT_THAT(message,
              testing::StartsWith("port " + number + ", set by the manifest: 127.0.0.1:" + number +
                                  " is in use by process " + std::to_string(::getpid())));
  EXPECT_THAT(
      message,
      testing::EndsWith("; set a free port, or remove the setting: a run chooses its own ports"));
}

TEST(LoopbackBlock, MovesToOtherPortsAndKeepsTheAddressesAndThePortsOfBefore) {
  LoopbackBlock block = Reserve(8, {2, 4});
  const std::string address = block.Address(1);
  const int before = block.port_base();
  Prng prng(8);
  ASSERT_TRUE(block.MovePorts(&prng).ok());
  EXPECT_NE(block.port_base(), before);
  EXPECT_EQ(block.Address(1), address);
  EXPECT_NE(Reserve(8, {2, 4}).port_base(), before) << "pods of before may still listen there";
}

TEST(LoopbackBlock, TooManyPodsOrPortsAreRefusedWithTheNumbers) {
  Prng prng(4);
  const auto pods = LoopbackBlock::Reserve({255, 1}, &prng);
  ASSERT_FALSE(pods.ok());
  EXPECT_EQ(pods.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(pods.error().message(), "a local run has at most 254 pods, this job needs 255");
  const auto ports = LoopbackBlock::Reserve({1, 20'000}, &prng);
  ASSERT_FALSE(ports.ok());
  EXPECT_EQ(ports.error().message(), "a local run has at most 19392 ports, this job needs 20000");
}

}  // namespace
}  // namespace lockstep::control
