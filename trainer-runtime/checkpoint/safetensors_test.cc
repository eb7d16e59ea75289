#include "trainer-runtime/checkpoint/safetensors.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/io/file.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;  // NOLINT: literals with zero bytes

// 1.0f and -2.0f as they lie in memory.
const std::string kFloats = "\x00\x00\x80\x3f\x00\x00\x00\xc0"s;

std::vector<TensorSlice> SampleSlices() {
  return {{"w", TensorType::kFloat32, {2, 1}, kFloats},
          {"empty", TensorType::kFloat32, {0}, ""},
          {"bytes", TensorType::kUInt8, {3}, "abc"}};
}

// The file as the format's description spells it, put together by hand.
std::string FileOf(const std::string& header, const std::string& data) {
  return std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + data;
}

TEST(Safetensors, BytesAreThoseOfTheDescription) {
  const std::vector<TensorSlice> tensors = {{"w", TensorType::kFloat32, {2, 1}, kFloats},
                                            {"b", TensorType::kUInt8, {3}, "abc"}};
  const std::string header = R"({"__metadata__":{"k":"v"},)"
                             R"("w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(EncodeSafetensors(tensors, {{"k", "v"}}), FileOf(header + padding, kFloats + "abc"));
}

TEST(Safetensors, DecodesWhatItEncodes) {
  const std::string file = EncodeSafetensors(SampleSlices(), {});
  const Result<std::vector<TensorSlice>> tensors = DecodeSafetensors(file);
  ASSERT_TRUE(tensors.ok()) << tensors.error().ToString();
  const std::vector<TensorSlice> expected = SampleSlices();
  ASSERT_EQ(tensors->size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ((*tensors)[i].name, expected[i].name);
    EXPECT_EQ((*tensors)[i].type, expected[i].type);
    EXPECT_EQ((*tensors)[i].shape, expected[i].shape);
    EXPECT_EQ((*tensors)[i].bytes, expected[i].bytes);
  }
}

TEST(Safetensors, EveryTypeKeepsItsNameAndSize) {
  const std::vector<std::pair<const char*, std::size_t>> types = {{"F64", 8},
                                                                  {"F32", 4},
                                                                  {"F16", 2},
                                                                  {"BF16", 2},
                                                                  {"I64", 8},
                                                                  {"I32", 4},
                                                                  {"I16", 2},
                                                                  {"I8", 1},
                                                                  {"U8", 1},
                                                                  {"BOOL", 1}};
  const std::string bytes(16, 'x');
  for (const auto& [name, size] : types) {
    const TensorSlice tensor{
        "w", *TensorTypeOf(name), {2}, std::string_view(bytes).substr(0, 2 * size)};
    const std::string file = EncodeSafetensors(std::vector{tensor}, {});
    EXPECT_THAT(file, HasSubstr("\"dtype\":\"" + std::string(name) + "\""));
    EXPECT_EQ(DecodeSafetensors(file)->at(0).type, tensor.type);
  }
  EXPECT_EQ(TensorTypeOf("C64"), std::nullopt);
}

TEST(Safetensors, NamesBeyondAsciiAndTextsComeBack) {
  const std::vector<TensorSlice> tensors = {{"gr\u00f6\u00dfe", TensorType::kUInt8, {1}, "a"}};
  const std::string file = EncodeSafetensors(tensors, {{"k", "\u00e9\n"}});
  EXPECT_THAT(file, HasSubstr("\"gr\\u00f6\\u00dfe\""));
  SafetensorsMetadata metadata;
  EXPECT_EQ(DecodeSafetensors(file, &metadata)->at(0).name, tensors[0].name);
  EXPECT_EQ(metadata, (SafetensorsMetadata{{"k", "\u00e9\n"}}));
}

// A large model with the slots of its optimizer has more tensors than any manifest has keys.
TEST(Safetensors, TwentyThousandTensorsAreRead) {
  std::vector<TensorSlice> tensors;
  for (int i = 0; i < 20'000; ++i) {
    tensors.push_back({std::to_string(i), TensorType::kUInt8, {1}, "a"});
  }
  const std::string file = EncodeSafetensors(tensors, {});
  const auto read = DecodeSafetensors(file);
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->size(), tensors.size());
}

TEST(Safetensors, WhatCannotStandInOneFileIsNamed) {
  const TensorSlice tensor{"w", TensorType::kFloat32, {2, 1}, kFloats};
  EXPECT_TRUE(CheckTensors(std::vector{tensor}).ok());
  EXPECT_THAT(CheckTensors(std::vector{tensor, tensor}).error().ToString(),
              HasSubstr("two tensors have the name w"));
  EXPECT_FALSE(CheckTensors(std::vector<TensorSlice>{{"__metadata__", {}, {0}, ""}}).ok());
  EXPECT_THAT(CheckTensors(std::vector<TensorSlice>{{"w", TensorType::kFloat32, {3}, kFloats}})
                  .error()
                  .ToString(),
              HasSubstr("w has 8 bytes, expected the 12 bytes of its shape"));
  EXPECT_FALSE(CheckTensors(std::vector<TensorSlice>{{"w", {}, {-1}, ""}}).ok());
}

TEST(Safetensors, EveryCutIsRefused) {
  const std::string file = EncodeSafetensors(SampleSlices(), {});
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(DecodeSafetensors(std::string_view(file).substr(0, length)).ok()) << length;
  }
}

TEST(Safetensors, EachDefectIsRefused) {
  const std::vector<std::string> files = {
      FileOf("{}", "x"),
      FileOf("[]", ""),
      FileOf("{\"w\":1}", ""),
      FileOf(R"({"w":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", "12345678"),
      FileOf(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678"),
      FileOf(R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "12345678"),
      FileOf(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "12345678"),
      FileOf(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", "123456789abc"),
      FileOf(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}})", "12345678"),
      FileOf(R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""),
      FileOf(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "12345678"),
      FileOf(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "12345678"),
      std::string(8, '\xff'),
  };
  for (const std::string& file : files) {
    const Result<std::vector<TensorSlice>> tensors = DecodeSafetensors(file);
    ASSERT_FALSE(tensors.ok()) << file;
    EXPECT_EQ(tensors.error().code(), ErrorCode::kCorrupt) << file;
  }
}

bool HasPythonSafetensors() {
  return std::system("python3 -c 'import safetensors.numpy' >/dev/null 2>&1") == 0;
}

TEST(Safetensors, PythonLibraryReadsTheFile) {
  if (!HasPythonSafetensors()) {
    GTEST_SKIP() << "needs: python3 with safetensors and numpy";
  }
  const std::string path = testing::TempDir() + "lockstep-python.safetensors";
  ASSERT_TRUE(WriteFileAtomically(path, EncodeSafetensors(SampleSlices(), {{"format", "x"}})).ok());
  const std::string command =
      "python3 -c 'import sys, safetensors.numpy as s; t = s.load_file(sys.argv[1]); "
      "assert t[\"w\"].tolist() == [[1.0], [-2.0]], t; "
      "assert t[\"bytes\"].tobytes() == b\"abc\", t; assert t[\"empty\"].shape == (0,), t' " +
      path;
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace lockstep::runtime
