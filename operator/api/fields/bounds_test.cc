#include "operator/api/fields/bounds.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "common/json/json.h"
#include "operator/api/definitions.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

// Visits the schema and all that stands in it.
void Walk(const Json& schema, const std::function<void(const Json&)>& visit) {
  if (schema.is_object()) {
    visit(schema);
  }
  for (const Json& inner : schema.is_structured() ? schema : Json::array()) {
    Walk(inner, visit);
  }
}

void WalkDefinitions(const std::function<void(const Json&)>& visit) {
  for (const std::string_view text : {JobDefinitionText(), QueueDefinitionText()}) {
    const YamlStream stream = ReadYaml(text);
    ASSERT_EQ(stream.documents.size(), 1U);
    Walk(stream.documents.front().value["spec"]["versions"][0]["schema"], visit);
  }
}

TEST(Bounds, MapsHaveAsManyMembersAsTheDefinitionsSay) {
  int checked = 0;
  WalkDefinitions([&](const Json& schema) {
    if (schema.contains("maxProperties")) {
      const bool are_labels = schema["additionalProperties"].value("type", "") == "string";
      EXPECT_EQ(schema["maxProperties"], are_labels ? kLabelsMax : kResourceNamesMax);
      ++checked;
    }
  });
  EXPECT_GE(checked, 10);
}

TEST(Bounds, QuantitiesAreAsLongAsTheDefinitionsSay) {
  int checked = 0;
  WalkDefinitions([&](const Json& schema) {
    if (schema.contains("x-kubernetes-int-or-string")) {
      EXPECT_EQ(schema["maxLength"], kQuantityTextMax);
      ++checked;
    }
  });
  EXPECT_GE(checked, 10);
}

TEST(Bounds, QuantityIsHeldToItsLengthAndExponent) {
  const auto is_taken = [](const std::string& text) {
    return ReadQuantityText(text, QuantityUnit::kOnes).ok();
  };
  EXPECT_TRUE(is_taken(std::string(kQuantityTextMax, '0')));
  EXPECT_FALSE(is_taken(std::string(kQuantityTextMax + 1, '0')));
  EXPECT_TRUE(is_taken("1e-99"));
  EXPECT_FALSE(is_taken("1e-099"));
  EXPECT_TRUE(is_taken("9223372036854775806"));
  EXPECT_TRUE(is_taken("9223372036854775806.5")) << "a rule calls it less than 8Ei";
  EXPECT_FALSE(is_taken("9223372036854775807")) << "which Kubernetes takes 8Ei for";
}

}  // namespace
}  // namespace lockstep::control
