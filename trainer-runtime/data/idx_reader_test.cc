#include "trainer-runtime/data/idx_reader.h"

#include <filesystem>
#include <string>
#include <unistd.h>
#include <zlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/io/file.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

// Header for `lengths` of unsigned bytes, then `payload`.
std::string Idx(const std::vector<uint32_t>& lengths, const std::string& payload) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(lengths.size())};
  for (const uint32_t length : lengths) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) {
      bytes.push_back(static_cast<char>(length >> shift & 0xffU));
    }
  }
  return bytes + payload;
}

std::string Gzip(const std::string& plain) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, plain.size()) + 64, '\0');
  std::string input = plain;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST(DecodeIdx, ReadsPlainAndGzipAlike) {
  const std::string plain = Idx({2, 3}, "abcdef");
  for (const std::string& bytes : {plain, Gzip(plain)}) {
    const Result<IdxTensor> tensor = DecodeIdx(bytes, "x");
    ASSERT_TRUE(tensor.ok()) << tensor.error().ToString();
    EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(tensor->values, (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  }
}

// As of gzip files that were put together, or were packed by several threads.
TEST(DecodeIdx, GzipMayHaveSeveralMembers) {
  const std::string plain = Idx({2, 3}, "abcdef");
  const std::string bytes = Gzip(plain.substr(0, 5)) + Gzip("") + Gzip(plain.substr(5));
  const Result<IdxTensor> tensor = DecodeIdx(bytes, "x");
  ASSERT_TRUE(tensor.ok()) << tensor.error().ToString();
  EXPECT_EQ(tensor->values, (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
}

TEST(DecodeIdx, EmptySetIsFine) {
  const Result<IdxTensor> tensor = DecodeIdx(Idx({0, 28, 28}, ""), "x");
  ASSERT_TRUE(tensor.ok());
  EXPECT_TRUE(tensor->values.empty());
}

struct BadFile {
  const char* what;
  std::string bytes;
  ErrorCode code;
  std::vector<std::string> says;  // all of these stand in the message
};

TEST(DecodeIdx, EachDefectIsNamed) {
  const std::string good = Idx({2, 3}, "abcdef");
  std::string bad_sum = Gzip(good);
  bad_sum[bad_sum.size() - 8] ^= 1;
  const std::vector<BadFile> files = {
      {"empty", "", ErrorCode::kCorrupt, {"0 bytes, expected an IDX header"}},
      {"wrong magic", "\x89PNG....", ErrorCode::kCorrupt, {"magic 0x89504e47", "0x000008"}},
      {"float elements",
       std::string("\0\0\x0d\x01\0\0\0\0", 8),
       ErrorCode::kCorrupt,
       {"element type 0x0d", "0x08"}},
      {"no dimension", std::string("\0\0\x08\0", 4), ErrorCode::kCorrupt, {"0 dimensions", "1 to"}},
      {"nine dimensions", std::string("\0\0\x08\x09", 4), ErrorCode::kCorrupt, {"9 dimensions"}},
      {"cut header",
       good.substr(0, 9),
       ErrorCode::kCorrupt,
       {"header ends early", "2 dimension sizes"}},
      {"cut payload",
       good.substr(0, good.size() - 1),
       ErrorCode::kCorrupt,
       {"5 bytes of values", "expected 6", "[2, 3]", "truncated"}},
      {"trailing bytes", good + "x", ErrorCode::kCorrupt, {"7 bytes", "expected 6", "trailing"}},
      {"cut gzip",
       Gzip(good).substr(0, Gzip(good).size() - 9),
       ErrorCode::kCorrupt,
       {"gzip data ends after", "before the end of its stream: the file is cut off"}},
      {"gzip checksum", bad_sum, ErrorCode::kCorrupt, {"gzip data is damaged", "data check"}},
      {"after gzip", Gzip(good) + "xy", ErrorCode::kCorrupt, {"2 bytes after the gzip stream"}},
      {"after the last of two members",
       Gzip(good.substr(0, 9)) + Gzip(good.substr(9)) + "xyz",
       ErrorCode::kCorrupt,
       {"3 bytes after the gzip stream"}},
      {"more than the limit in two members",
       Gzip(std::string(3000, 'a')) + Gzip(std::string(3000, 'a')),
       ErrorCode::kInvalidArgument,
       {"decompresses to more than the limit"}},
      {"cut payload in gzip", Gzip(good.substr(0, 15)), ErrorCode::kCorrupt, {"expected 6"}},
      {"more than the limit",
       Idx({1000, 1000}, ""),
       ErrorCode::kInvalidArgument,
       {"[1000, 1000]", "at most 4096 bytes"}},
      {"lengths whose product wraps",
       Idx({65536, 65536, 65536, 65536}, ""),
       ErrorCode::kInvalidArgument,
       {"at most 4096 bytes"}},
      {"gzip bomb",
       Gzip(std::string(100'000, 'a')),
       ErrorCode::kInvalidArgument,
       {"decompresses to more than the limit"}},
  };
  for (const BadFile& file : files) {
    SCOPED_TRACE(file.what);
    const Result<IdxTensor> tensor = DecodeIdx(file.bytes, "digits.gz", 4096);
    ASSERT_FALSE(tensor.ok());
    EXPECT_EQ(tensor.error().code(), file.code);
    EXPECT_THAT(tensor.error().message(), HasSubstr("digits.gz"));
    for (const std::string& part : file.says) {
      EXPECT_THAT(tensor.error().message(), HasSubstr(part));
    }
  }
}

TEST(DecodeIdx, EveryCutOfAFileIsRefused) {
  const std::string plain = Idx({4, 3}, "abcdefghijkl");
  const std::string members = Gzip(plain.substr(0, 14)) + Gzip(plain.substr(14));
  for (const std::string& bytes : {plain, Gzip(plain), members}) {
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(DecodeIdx(bytes.substr(0, length), "x").ok()) << "cut at " << length;
    }
  }
}

TEST(ReadIdxFile, MissingFileIsNotFoundByName) {
  const Result<IdxTensor> tensor = ReadIdxFile("no/such/file");
  ASSERT_FALSE(tensor.ok());
  EXPECT_EQ(tensor.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(tensor.error().ToString(), HasSubstr("no/such/file"));
}

TEST(ReadIdxFile, PipeIsRefusedAndNotWaitedFor) {
  const std::string pipe = testing::TempDir() + "idx-pipe-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Result<IdxTensor> tensor = ReadIdxFile(pipe);
  ASSERT_FALSE(tensor.ok());
  EXPECT_THAT(tensor.error().message(), HasSubstr("is a pipe, expected a file"));
  ::unlink(pipe.c_str());
}

TEST(ReadIdxFile, FolderIsAnError) {
  EXPECT_FALSE(ReadIdxFile(testing::TempDir()).ok());
}

}  // namespace
}  // namespace lockstep::runtime
