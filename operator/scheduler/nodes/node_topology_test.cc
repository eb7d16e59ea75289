#include "operator/scheduler/nodes/node_topology.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

TEST(DomainTree, RacksOfOneNameInTwoBlocksAreTwo) {
  DomainTree tree({"block", "rack"});
  const DomainIndex a = tree.Join({{"block", "b1"}, {"rack", "r1"}});
  const DomainIndex b = tree.Join({{"block", "b2"}, {"rack", "r1"}});
  EXPECT_NE(a, b);
  EXPECT_EQ(tree.PathOf(a), "b1/r1");
  EXPECT_EQ(tree.PathOf(tree.ParentOf(b)), "b2");
  EXPECT_EQ(tree.ParentOf(tree.ParentOf(b)), kWholeCluster);
  EXPECT_EQ(tree.AncestorAt(a, 0), tree.ParentOf(a));
  EXPECT_EQ(tree.AncestorAt(a, 1), a);
  EXPECT_EQ(tree.Join({{"block", "b1"}, {"rack", "r1"}}), a);
}

TEST(DomainTree, NodeWithoutALabelIsInNoDomainOfThatLevelNorBelow) {
  DomainTree tree({"block", "rack"});
  EXPECT_EQ(tree.Join({{"rack", "r1"}}), kWholeCluster);
  const DomainIndex block = tree.Join({{"block", "b1"}});
  EXPECT_EQ(tree.PathOf(block), "b1");
  EXPECT_EQ(tree.AncestorAt(block, 1), std::nullopt);
  EXPECT_EQ(tree.AncestorAt(kWholeCluster, 0), std::nullopt);
  EXPECT_TRUE(tree.At(1).empty());
}

TEST(DomainTree, DomainIsGoneWithItsLastNode) {
  DomainTree tree({"rack"});
  const DomainIndex rack = tree.Join({{"rack", "r1"}});
  tree.Join({{"rack", "r1"}});
  tree.Leave(rack);
  EXPECT_EQ(tree.At(0).size(), 1U);
  tree.Leave(rack);
  EXPECT_TRUE(tree.At(0).empty());
  EXPECT_TRUE(tree.ChildrenOf(kWholeCluster).empty());
  EXPECT_EQ(tree.Join({{"rack", "r2"}}), rack) << "its number is given again";
  EXPECT_EQ(tree.PathOf(rack), "r2");
}

TEST(DomainTree, LabelsOfOtherKeysMakeNoDifference) {
  const DomainTree tree({"block", "rack"});
  EXPECT_TRUE(tree.IsSame({{"block", "b"}, {"x", "1"}}, {{"block", "b"}, {"x", "2"}}));
  EXPECT_FALSE(tree.IsSame({{"block", "b"}}, {{"block", "c"}}));
  EXPECT_FALSE(tree.IsSame({{"block", "b"}}, {{"block", "b"}, {"rack", "r"}}));
}

}  // namespace
}  // namespace lockstep::control
