#include "operator/cmd/served_schema.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/definitions.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json SchemaIn(std::string_view definition) {
  return ReadYaml(definition)
      .documents.at(0)
      .value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
}

// What a server answers that has our definitions, changed by `change`.
kube::Reply Served(const std::function<void(Json* jobs, Json* queues)>& change) {
  Json jobs = SchemaIn(JobDefinitionText());
  Json queues = SchemaIn(QueueDefinitionText());
  change(&jobs, &queues);
  const auto name = [](const char* kind) {
    return Json{{{"group", "lockstep.dev"}, {"kind", kind}, {"version", "v1"}}};
  };
  jobs["x-kubernetes-group-version-kind"] = name("TrainingJob");
  queues["x-kubernetes-group-version-kind"] = name("TrainingQueue");
  const Json document = {{"components",
                          {{"schemas",
                            {{"dev.lockstep.v1.TrainingJob", jobs},
                             {"dev.lockstep.v1.TrainingQueue", queues},
                             {"io.k8s.ObjectMeta", {{"type", "object"}}}}}}}};
  return {200, DumpJson(document), {}};
}

std::vector<ServedKind> JudgeServed(const std::function<void(Json* jobs, Json* queues)>& change) {
  const Result<std::vector<ServedKind>> judged = ServedSchema().Judge(Served(change));
  EXPECT_TRUE(judged.ok()) << (judged.ok() ? "" : judged.error().ToString());
  return judged.ok() ? *judged : std::vector<ServedKind>();
}

TEST(ServedSchema, SameDefinitionsLackNothing) {
  const auto kinds = JudgeServed([](Json*, Json*) {});
  EXPECT_THAT(kinds, ElementsAre(ServedKind{"TrainingJob", {}}, ServedKind{"TrainingQueue", {}}));
  EXPECT_EQ(DescribeMissing(kinds), "");
}

// The operator was newer than its definitions.
TEST(ServedSchema, FieldsThatAnOlderDefinitionLacksAreNamed) {
  const auto kinds = JudgeServed([](Json* jobs, Json* queues) {
    Json& properties = (*jobs)["properties"];
    properties["status"]["properties"].erase("attempt");
    properties["spec"]["properties"]["roles"]["items"]["properties"].erase("gpus");
    (*queues)["properties"]["spec"]["properties"].erase("maxRuntimeSeconds");
  });
  EXPECT_THAT(kinds,
              ElementsAre(ServedKind{"TrainingJob", {"spec.roles[].gpus", "status.attempt"}},
                          ServedKind{"TrainingQueue", {"spec.maxRuntimeSeconds"}}));
  EXPECT_THAT(DescribeMissing(kinds),
              HasSubstr("TrainingJob lacks spec.roles[].gpus, status.attempt; TrainingQueue lacks "
                        "spec.maxRuntimeSeconds; apply"));
}

TEST(ServedSchema, DefinitionThatKnowsMoreIsFine) {
  const auto kinds = JudgeServed([](Json* jobs, Json*) {
    (*jobs)["properties"]["spec"]["properties"]["later"] = {{"type", "string"}};
    (*jobs)["properties"]["status"] = {{"type", "object"},
                                       {"x-kubernetes-preserve-unknown-fields", true}};
  });
  EXPECT_EQ(DescribeMissing(kinds), "");
}

TEST(ServedSchema, WhatIsHandedOnUnreadIsKeptWhole) {
  const auto kinds = JudgeServed([](Json* jobs, Json*) {
    const std::function<void(Json*)> forget = [&](Json* schema) {
      schema->erase("x-kubernetes-preserve-unknown-fields");
      for (Json& member : *schema) {
        if (member.is_object()) {
          forget(&member);
        }
      }
    };
    forget(jobs);
  });
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_THAT(kinds[0].missing, ::testing::Contains(HasSubstr("template")));
}

TEST(ServedSchema, ManyFieldsAreCounted) {
  const auto kinds = JudgeServed([](Json* jobs, Json*) { (*jobs)["properties"].erase("status"); });
  EXPECT_THAT(DescribeMissing(kinds), HasSubstr(" more fields; apply"));
}

TEST(ServedSchema, AnswersThatTellNothingLeaveItOpen) {
  const ServedSchema schema;
  EXPECT_EQ(schema.Judge(kube::Reply{404, "", {}}).error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(schema.Judge(kube::Fault{kube::FaultKind::kTimeout, true, ""}).error().code(),
            ErrorCode::kUnavailable);
  EXPECT_EQ(schema.Judge(kube::Reply{403, "{}", {}}).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(schema.Judge(kube::Reply{200, "{}", {}}).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(schema.Judge(kube::Reply{200, R"({"components": {"schemas": {}}})", {}})->empty());
}

}  // namespace
}  // namespace lockstep::control
