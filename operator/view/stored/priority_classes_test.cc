#include "operator/view/stored/priority_classes.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

TEST(PriorityClass, IsReadAsTheServerKeepsIt) {
  const auto plain = DecodePriorityClass(
      R"({"metadata": {"name": "high", "uid": "u", "resourceVersion": "7"},
          "value": 1000, "preemptionPolicy": "PreemptLowerPriority"})");
  const auto odd = DecodePriorityClass(
      R"({"metadata": {"name": "kept", "uid": "v", "resourceVersion": "8",
                       "labels": {"lockstep.dev/preemptible": "false"}},
          "value": -5, "globalDefault": true, "preemptionPolicy": "Never"})");

  ASSERT_TRUE(plain.ok() && odd.ok());
  EXPECT_EQ(plain->key, (kube::ObjectKey{"", "high"}));
  EXPECT_EQ(*plain->object, (PriorityClass{1000, false, true, true}));
  EXPECT_EQ(*odd->object, (PriorityClass{-5, true, false, false}));
}

TEST(PriorityClass, NameGivesItsTermsAndNoneThoseOfTheDefault) {
  const std::map<std::string, PriorityClass> classes = {{"high", {1000, false, true, false}},
                                                        {"usual", {10, true, false, true}},
                                                        {"usual-too", {9, true, true, true}}};

  EXPECT_EQ(TermsOfClass(classes, "high"), (PriorityTerms{1000, true, false, ""}));
  EXPECT_EQ(TermsOfClass(classes, ""), (PriorityTerms{9, true, true, ""}));
  EXPECT_EQ(TermsOfClass({}, ""), (PriorityTerms{0, true, true, ""}));
}

TEST(PriorityClass, OneThatIsNotThereIsNamedAndEvictsNobodyAndIsNotEvicted) {
  EXPECT_EQ(TermsOfClass({}, "urgent"),
            (PriorityTerms{0, false, false, "priority class urgent does not exist"}));
}

TEST(PriorityClass, GangWithPlacesKeepsItsPriorityAndGoesAsItsClassSaysWhileThereIsOne) {
  const GrantedPriority granted{1000, false};
  const std::string missing = "priority class high does not exist";

  EXPECT_EQ(TermsOfPlaced({}, "high", granted), (PriorityTerms{1000, false, false, missing}));
  EXPECT_EQ(TermsOfPlaced({}, "high", GrantedPriority{7, true}),
            (PriorityTerms{7, false, true, missing}));
  EXPECT_EQ(TermsOfPlaced({{"high", {5, false, true, true}}}, "high", granted),
            (PriorityTerms{1000, true, true, ""}));
  EXPECT_EQ(TermsOfPlaced({}, "high", std::nullopt), TermsOfClass({}, "high"));
  EXPECT_EQ(TermsOfPlaced({}, "", granted), (PriorityTerms{1000, true, false, ""}))
      << "its default class is gone";
}

}  // namespace
}  // namespace lockstep::control
