#include "trainer-runtime/ps/shard_frames.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

const ShardView kView{Term(3), {Incarnation(2), Incarnation(1)}};
constexpr WorkerProcess kWorker{5, Incarnation(4)};

SharedValues Values(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

ShardContent Content() {
  ShardContent content;
  content.entry_count = 12;
  content.is_seeded = true;
  content.update_count = 7;
  content.parameters = {1.5F, -2};
  content.slots = {3, 4, 5, 6};
  content.gate = 60;
  content.note = "note";
  content.sample_count = 12;
  content.sums[3] = {3, 1.5, 6, 12};
  content.workers[0] = {Incarnation(1), true, 3, 9};
  content.workers[5] = {Incarnation(2), false, 0, 0};
  return content;
}

std::shared_ptr<const ShardFacts> Facts() {
  return std::make_shared<const ShardFacts>(
      ShardFacts{"note", {{0, 4}, {5, 3}}, 12, {{3, {3, 1.5, 6, 12}}}});
}

// One of each kind.
std::vector<ShardFrame> Frames() {
  std::vector<ShardFrame> frames;
  const auto ask = [&](decltype(WorkerRequest::body) body) {
    frames.push_back({2, WorkerRequest{kView, kWorker, 8, 6, std::move(body)}});
  };
  ask(request::Pull{true, false, 5, 0});
  ask(request::Pull{false, true, 0, 9});
  ask(request::Push{Values({1, 2, 3}), {2, -0.5, 3, 4}});
  ask(request::Push{nullptr, {2, -0.5, 3, 4}});
  ask(request::Seed{Values({1}), Values({}), 44, 60, "note"});
  ask(request::Open{70});
  ask(request::Leave{});
  const auto answer = [&](decltype(WorkerReply::body) body) {
    frames.push_back({0, WorkerReply{kView, kWorker, 8, std::move(body)}});
  };
  answer(reply::Pulled{9, Values({1, 2}), nullptr, 4, 60, nullptr});
  answer(reply::Pulled{9, Values({1, 2}), Values({}), 4, 60, Facts()});
  answer(reply::Done{});
  answer(reply::Unseeded{});
  answer(reply::NotServing{});
  answer(reply::Outdated{});
  answer(reply::Lost{});
  answer(reply::Misfit{});
  const auto tell = [&](decltype(CopyMessage::body) body) {
    frames.push_back({1, CopyMessage{kView, std::move(body)}});
  };
  tell(copying::Append{4, entry::Seed{Values({1}), Values({2, 3}), 5, 60, "note"}});
  tell(copying::Append{5, entry::Admit{kWorker}});
  tell(copying::Append{6, entry::Push{kWorker, 2, Values({0.25F}), {1, 2.5, 3, 4}}});
  tell(copying::Append{7, entry::Retire{3, Incarnation(9)}});
  tell(copying::Append{8, entry::Open{70}});
  tell(copying::Confirm{7});
  tell(copying::FillRequest{});
  tell(copying::Fill{std::make_shared<const ShardContent>(Content())});
  tell(copying::Notice{});
  return frames;
}

TEST(ShardFrames, EveryKindComesBackAsItWas) {
  for (const ShardFrame& frame : Frames()) {
    const std::string bytes = EncodeShardFrame(frame);
    const Result<ShardFrame> back = DecodeShardFrame(bytes);
    ASSERT_TRUE(back.ok()) << back.error().ToString();
    EXPECT_EQ(back->shard, frame.shard);
    EXPECT_EQ(back->message.index(), frame.message.index());
    EXPECT_EQ(EncodeShardFrame(*back), bytes);
  }
}

TEST(ShardFrames, ContentOfAShardComesBackWhole) {
  const ShardFrame frame{
      0, CopyMessage{kView, copying::Fill{std::make_shared<const ShardContent>(Content())}}};

  const Result<ShardFrame> back = DecodeShardFrame(EncodeShardFrame(frame));

  const auto& message = std::get<CopyMessage>(back->message);
  EXPECT_EQ(message.view, kView);
  EXPECT_EQ(*std::get<copying::Fill>(message.body).content, Content());
}

TEST(ShardFrames, EveryCutAndEveryExtraByteIsRefused) {
  for (const ShardFrame& frame : Frames()) {
    const std::string bytes = EncodeShardFrame(frame);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(DecodeShardFrame(std::string_view(bytes).substr(0, size)).ok());
    }
    EXPECT_FALSE(DecodeShardFrame(bytes + "x").ok());
  }
}

TEST(ShardFrames, CountAboveWhatIsThereAsksForNoMemory) {
  std::string bytes = EncodeShardFrame(
      {0, WorkerRequest{kView, kWorker, 8, 6, request::Push{Values({1}), {2, -0.5, 3, 4}}}});
  bytes[bytes.size() - 4 * sizeof(int64_t) - sizeof(float) - 2] = 0x7f;  // high in the count

  EXPECT_EQ(DecodeShardFrame(bytes).error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace lockstep::runtime
