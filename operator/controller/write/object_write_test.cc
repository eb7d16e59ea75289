#include "operator/controller/write/object_write.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

WriteObject Write(WriteObject::Kind kind, const std::string& name = "mnist-1") {
  return {kind, kube::kWorkloads, name, "u", "{}"};
}

kube::Reply Replied(int status, const std::string& body = "{}") {
  return {status, body, std::nullopt};
}

TEST(ObjectWrite, EachKindIsTheCallThatCarriesItOut) {
  const kube::Request create = RequestOf("team", Write(WriteObject::Kind::kCreate));
  EXPECT_EQ(create.method, "POST");
  EXPECT_EQ(create.body, "{}");
  EXPECT_EQ(RequestOf("team", Write(WriteObject::Kind::kPatch)).method, "PATCH");
  const kube::Request removal = RequestOf("team", Write(WriteObject::Kind::kDelete));
  EXPECT_EQ(removal.method, "DELETE");
  EXPECT_NE(removal.target.find("/namespaces/team/workloads/mnist-1"), std::string::npos);
  EXPECT_NE(removal.body.find(R"("uid":"u")"), std::string::npos) << "this one, and no later one";
}

TEST(ObjectWrite, WhatIsGoneOrAnotherIsNeitherChangedNorDeletedAndNothingIsLeftToDo) {
  for (const int status : {404, 409}) {
    EXPECT_TRUE(AnswerTo(Write(WriteObject::Kind::kDelete), Replied(status)).ok());
    EXPECT_TRUE(AnswerTo(Write(WriteObject::Kind::kPatch), Replied(status)).ok());
    EXPECT_FALSE(AnswerTo(Write(WriteObject::Kind::kCreate), Replied(status)).ok());
  }
  EXPECT_FALSE(AnswerTo(Write(WriteObject::Kind::kDelete), Replied(500)).ok());
  EXPECT_TRUE(AnswerTo(Write(WriteObject::Kind::kCreate), Replied(201)).ok());
}

TEST(ObjectWrite, NameThatIsTakenIsTheJobsOwnOrSomebodyElses) {
  const WriteObject create = Write(WriteObject::Kind::kCreate);
  const kube::Reply owned = Replied(200, R"({"metadata": {"ownerReferences": [
      {"kind": "TrainingJob", "apiVersion": "lockstep.dev/v1", "name": "mnist", "uid": "uid-1",
       "controller": true}]}})");
  EXPECT_TRUE(OwnedBy("uid-1", create, owned).ok());
  for (const auto& [uid, reply] : {std::pair("uid-2", owned), std::pair("uid-1", Replied(200))}) {
    const Status taken = OwnedBy(uid, create, reply);
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().code(), ErrorCode::kAlreadyExists);
    EXPECT_EQ(taken.error().message(),
              "the name mnist-1 is taken by an object that does not belong to this job");
  }
  EXPECT_FALSE(OwnedBy("uid-1", create, Replied(404)).ok());
}

TEST(ObjectWrite, RefusalsAreKeptByNameUntilItIsTakenAndNotWithoutBound) {
  ClusterNotes notes;
  const JobId job{"team", "mnist"};
  const Status refusal = Error(ErrorCode::kResourceExhausted, std::string(5000, 'x'));
  for (int i = 0; i < 100; ++i) {
    NoteWrite(job, Write(WriteObject::Kind::kCreate, std::to_string(i)), refusal, &notes);
  }
  EXPECT_EQ(notes.refused_writes.at(job).size(), ClusterNotes::kRefusedWritesMax);
  EXPECT_EQ(notes.refused_writes.at(job).at("9").size(), ClusterNotes::kRefusalBytesMax);
  NoteWrite(job, Write(WriteObject::Kind::kCreate, "9"), OkStatus(), &notes);
  EXPECT_EQ(notes.refused_writes.at(job).count("9"), 0U);
  NoteWrite(job, Write(WriteObject::Kind::kCreate, "9"), Error(ErrorCode::kNotFound, "?"), &notes);
  EXPECT_EQ(notes.refused_writes.at(job).at("9"), kKindIsUnknown)
      << "as its definition was removed";
  ClusterNotes other;
  NoteWrite(job, Write(WriteObject::Kind::kCreate), OkStatus(), &other);
  EXPECT_TRUE(other.refused_writes.empty()) << "no job has none";
}

}  // namespace
}  // namespace lockstep::control
