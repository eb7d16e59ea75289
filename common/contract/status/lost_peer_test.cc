#include "common/contract/status/lost_peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LostPeer, IsReadBackFromWhereverItIsSaid) {
  EXPECT_EQ(DescribeLostPeers({1}, "closed"), "rank 1 is lost: closed");
  EXPECT_THAT(ParseLostPeers(DescribeLostPeers({17}, "silent")), ElementsAre(17));
  EXPECT_THAT(ParseLostPeers("lockstep: rank 1 is lost: closed"), ElementsAre(1));
  EXPECT_THAT(ParseLostPeers("rank 0: rank 3 is lost: closed"), ElementsAre(3));
}

TEST(LostPeer, SeveralAreReadBack) {
  const std::string text = DescribeLostPeers({1, 12}, "its connection is closed");
  EXPECT_EQ(text, "rank 1 is lost, rank 12 is lost: its connection is closed");
  EXPECT_THAT(ParseLostPeers(text), ElementsAre(1, 12));
}

// What a call says around it names other ranks, of which none is lost.
TEST(LostPeer, IsReadBackFromWhatAPeerHasReportedOfACall) {
  EXPECT_THAT(ParseLostPeers("lockstep.errors.MeetAgain: rank 0: broadcast of 8 bytes from rank 4, "
                             "epoch 1, call 2: rank 2 reported: rank 2: all_reduce sum of 10 x "
                             "float32 (40 bytes), epoch 1, call 2: rank 1 is lost: its connection "
                             "is closed, after 1 ms, after 2 ms"),
              ElementsAre(1));
}

TEST(LostPeer, OtherTextSaysItOfNone) {
  for (const char* text : {"",
                           "rank ",
                           "rank 1",
                           "rank 1 is lost",
                           "rank 1 is lost, rank 2 is lost",
                           "rank 1 is lost, rank 2 is lost, ra",
                           "rank -1 is lost: closed",
                           "rank 99999999999 is lost: closed",
                           "rank one is lost: closed",
                           "ValueError: rank 1 is wrong"}) {
    EXPECT_THAT(ParseLostPeers(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace lockstep
