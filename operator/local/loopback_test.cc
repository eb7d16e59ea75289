#include "operator/local/loopback.h"

#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace lockstep::control {
namespace {

const std::vector<uint16_t> kPorts{2222, 2223};

TEST(LoopbackBlock, AddressesCountFromOneInOneBlock) {
  Prng prng(1);
  const auto block = LoopbackBlock::Reserve(3, kPorts, &prng);
  ASSERT_TRUE(block.ok()) << block.error().ToString();
  const std::string first = block->Address(0);
  EXPECT_TRUE(first.starts_with("127."));
  EXPECT_TRUE(first.ends_with(".1"));
  EXPECT_EQ(block->Address(2), first.substr(0, first.size() - 1) + "3");
}

TEST(LoopbackBlock, TwoRunsWithTheSameLuckGetDifferentBlocks) {
  Prng first_prng(2);
  Prng second_prng(2);
  const auto first = LoopbackBlock::Reserve(1, kPorts, &first_prng);
  const auto second = LoopbackBlock::Reserve(1, kPorts, &second_prng);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->Address(0), second->Address(0));
}

TEST(LoopbackBlock, BlockWithATakenPortIsPassedOver) {
  std::string taken;
  {
    Prng prng(3);
    taken = LoopbackBlock::Reserve(2, kPorts, &prng).value().Address(1);
  }
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int reuse = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(2223);
  ::inet_pton(AF_INET, taken.c_str(), &where.sin_addr);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);

  Prng prng(3);
  const auto block = LoopbackBlock::Reserve(2, kPorts, &prng);
  ASSERT_TRUE(block.ok());
  EXPECT_NE(block->Address(1), taken);
}

TEST(LoopbackBlock, TooManyPodsAreRefusedWithTheNumbers) {
  Prng prng(4);
  const auto block = LoopbackBlock::Reserve(255, kPorts, &prng);
  ASSERT_FALSE(block.ok());
  EXPECT_EQ(block.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(block.error().message(), "a local run has at most 254 pods, this job needs 255");
}

}  // namespace
}  // namespace lockstep::control
