#include "operator/cli/schema/job_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "common/base/testing/paths.h"
#include "operator/api/definitions.h"

namespace lockstep::control {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(JobDefinitionText, IsTheFileOfCrdsByteForByte) {
  EXPECT_EQ(JobDefinitionText(),
            ReadFile(RepositoryFile("crds/lockstep.dev_trainingjobs.yaml"), 1 << 20).value());
}

TEST(JobSchema, PathMayLeaveSpecAndElementsOut) {
  const JobSchema schema;
  for (const char* text : {"spec.roles[0].replicas", "spec.roles.replicas", "roles.replicas"}) {
    FieldPath path = ParseFieldPath(text).value();
    const auto found = schema.Find(&path);
    ASSERT_TRUE(found.ok()) << text << ": " << found.error().ToString();
    EXPECT_EQ((**found)["type"], "integer") << text;
    EXPECT_EQ(path.front().name, "spec") << text;
  }
}

TEST(JobSchema, UnknownFieldIsToldItsNeighboursAndItsLikes) {
  const JobSchema schema;
  FieldPath path = ParseFieldPath("spec.training.epoch").value();
  const auto found = schema.Find(&path);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().field(), "spec.training.epoch");
  EXPECT_THAT(found.error().message(), HasSubstr("did you mean spec.training.epochs"));
  EXPECT_THAT(found.error().message(), HasSubstr("spec.training has seed, epochs, steps"));
}

TEST(JobSchema, FieldOfAnotherObjectIsFoundByItsName) {
  const JobSchema schema;
  FieldPath path = ParseFieldPath("learningRate").value();
  const auto found = schema.Find(&path);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message(),
              HasSubstr("did you mean spec.training.optimizer.learningRate"));
}

TEST(JobSchema, FieldBelowANumberIsRefused) {
  const JobSchema schema;
  FieldPath path = ParseFieldPath("spec.training.epochs.first").value();
  EXPECT_THAT(schema.Find(&path).error().message(),
              HasSubstr("spec.training.epochs has no fields, its type is integer"));
}

TEST(JobSchema, WhatKubernetesOwnsTakesAnyField) {
  const JobSchema schema;
  FieldPath path = ParseFieldPath("roles[0].template.spec.affinity.nodeAffinity").value();
  EXPECT_TRUE(schema.Find(&path).ok());
}

TEST(JobSchema, MetadataHasWhatManifestsMayHave) {
  const JobSchema schema;
  for (const char* text : {"metadata.labels.example\\.com/team",
                           "metadata.annotations.note",
                           "metadata.namespace",
                           "metadata.generateName"}) {
    FieldPath path = ParseFieldPath(text).value();
    const auto found = schema.Find(&path);
    ASSERT_TRUE(found.ok()) << text << ": " << found.error().ToString();
    EXPECT_EQ((**found)["type"], "string") << text;
  }
}

TEST(SchemaTypeText, NamesListsMapsAndWhatHasNoType) {
  const JobSchema schema;
  const auto type_of = [&schema](const char* text) {
    FieldPath path = ParseFieldPath(text).value();
    return SchemaTypeText(**schema.Find(&path));
  };
  EXPECT_EQ(type_of("spec.roles"), "[]object");
  EXPECT_EQ(type_of("training.model.inputShape"), "[]integer");
  EXPECT_EQ(type_of("training.model.layers.kernelSize"), "integer or []integer");
  EXPECT_EQ(type_of("roles.template.metadata.labels"), "map of string");
}

TEST(JobSchema, LikesAreFoundWhereverTheyStand) {
  EXPECT_THAT(JobSchema().FieldsLike("type"), Contains("spec.training.loss.type"));
  EXPECT_THAT(JobSchema().FieldsLike("layer"), Contains("spec.training.model.layers"));
  EXPECT_TRUE(JobSchema().FieldsLike("qqqqqqqqqqq").empty());
}

}  // namespace
}  // namespace lockstep::control
