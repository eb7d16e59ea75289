#include "common/contract/lost_peer.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(LostPeer, IsReadBackFromWhereverItIsSaid) {
  EXPECT_EQ(DescribeLostPeer(1, "closed"), "rank 1 is lost: closed");
  EXPECT_EQ(ParseLostPeer(DescribeLostPeer(17, "silent")), 17);
  EXPECT_EQ(ParseLostPeer("lockstep: rank 1 is lost: closed"), 1);
  EXPECT_EQ(ParseLostPeer("rank 0: rank 3 is lost: closed"), 3);
}

TEST(LostPeer, OtherTextSaysItOfNone) {
  for (const char* text : {"",
                           "rank ",
                           "rank 1",
                           "rank 1 is lost",
                           "rank -1 is lost: closed",
                           "rank 99999999999 is lost: closed",
                           "rank one is lost: closed",
                           "ValueError: rank 1 is wrong"}) {
    EXPECT_EQ(ParseLostPeer(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep
