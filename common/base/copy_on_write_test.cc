#include "common/base/copy_on_write.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(CopyOnWriteTest, HoldersShareOneValue) {
  const CopyOnWrite<std::string> first(std::string("one"));
  const CopyOnWrite<std::string> second = first;
  EXPECT_EQ(&*first, &*second);
}

TEST(CopyOnWriteTest, ChangeIsSeenByItsHolderAlone) {
  const CopyOnWrite<std::string> first(std::string("one"));
  CopyOnWrite<std::string> second = first;
  second.Edit() += " more";
  EXPECT_EQ(*first, "one");
  EXPECT_EQ(*second, "one more");
}

TEST(CopyOnWriteTest, OnlyHolderChangesInPlace) {
  CopyOnWrite<std::string> value(std::string("one"));
  const std::string* const before = &*value;
  value.Edit() = "two";
  EXPECT_EQ(&*value, before);
}

TEST(CopyOnWriteTest, EqualWhenTheValuesAre) {
  EXPECT_EQ(CopyOnWrite<int>(1), CopyOnWrite<int>(1));
  EXPECT_FALSE(CopyOnWrite<int>(1) == CopyOnWrite<int>(2));
}

}  // namespace
}  // namespace lockstep
