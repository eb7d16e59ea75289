#include "operator/resources/node_affinity.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

const std::map<std::string, std::string> kLabels = {{"zone", "a"}, {"cores", "64"}};

bool Matches(const NodeRequirement& label) {
  return MatchesAnyTerm({{{label}, {}}}, "node-1", kLabels);
}

TEST(NodeAffinity, ComparesAsKubernetesDoes) {
  const struct {
    NodeRequirement requirement;
    bool matches;
  } cases[] = {
      {{"zone", NodeOperator::kIn, {"a", "b"}}, true},
      {{"zone", NodeOperator::kIn, {"b"}}, false},
      {{"rack", NodeOperator::kIn, {"a"}}, false},
      {{"zone", NodeOperator::kNotIn, {"a"}}, false},
      {{"zone", NodeOperator::kNotIn, {"b"}}, true},
      {{"rack", NodeOperator::kNotIn, {"b"}}, true},
      {{"zone", NodeOperator::kExists, {}}, true},
      {{"rack", NodeOperator::kExists, {}}, false},
      {{"zone", NodeOperator::kDoesNotExist, {}}, false},
      {{"rack", NodeOperator::kDoesNotExist, {}}, true},
      {{"cores", NodeOperator::kGt, {"63"}}, true},
      {{"cores", NodeOperator::kGt, {"64"}}, false},
      {{"cores", NodeOperator::kLt, {"65"}}, true},
      {{"cores", NodeOperator::kLt, {"64"}}, false},
      {{"zone", NodeOperator::kGt, {"1"}}, false},
      {{"rack", NodeOperator::kLt, {"1"}}, false},
  };

  for (const auto& one : cases) {
    EXPECT_EQ(Matches(one.requirement), one.matches) << DescribeTerms({{{one.requirement}, {}}});
  }
}

TEST(NodeAffinity, TermsAreAlternativesOfRequirementsThatHoldTogether) {
  const NodeTerm in_a{{{"zone", NodeOperator::kIn, {"a"}}}, {}};
  const NodeTerm named{{}, {{"metadata.name", NodeOperator::kIn, {"node-2"}}}};
  NodeTerm both = in_a;
  both.fields = named.fields;
  EXPECT_TRUE(MatchesAnyTerm({}, "node-1", kLabels)) << "nothing is required";
  EXPECT_FALSE(MatchesAnyTerm({{}}, "node-1", kLabels)) << "a term of nothing matches nothing";
  EXPECT_TRUE(MatchesAnyTerm({named, in_a}, "node-1", kLabels));
  EXPECT_FALSE(MatchesAnyTerm({both}, "node-1", kLabels));
  EXPECT_TRUE(MatchesAnyTerm({both}, "node-2", kLabels));
  EXPECT_EQ(DescribeTerms({both, {}}), "zone In (a) and metadata.name In (node-2), or nothing");
}

}  // namespace
}  // namespace lockstep::control
