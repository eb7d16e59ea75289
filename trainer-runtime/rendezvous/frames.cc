#include "trainer-runtime/rendezvous/frames.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// Tells our protocol and its version from anything else that may call on the port.
constexpr uint64_t kProtocol = 0x326873656d736cU;  // "lsmesh2", little endian

constexpr std::size_t kTextBytesMax = 255;

enum class FrameKind : uint8_t { kHello = 1, kReply, kProof, kVerdict, kState, kSuperseded };

class Writer {
 public:
  explicit Writer(FrameKind kind) { bytes_.push_back(static_cast<char>(kind)); }

  void Number(uint64_t value, int byte_count = 8) {
    for (int index = 0; index < byte_count; ++index) {
      bytes_.push_back(static_cast<char>((value >> (8 * index)) & 0xffU));
    }
  }

  void Number(int value) { Number(static_cast<uint64_t>(static_cast<int64_t>(value))); }

  template <typename Tag>
  void Id(StrongId<Tag> id) {
    Number(static_cast<uint64_t>(id.value()));
  }

  void Text(std::string_view text) {
    text = text.substr(0, kTextBytesMax);
    Number(text.size(), 2);
    bytes_.append(text);
  }

  void Identity(const Hello& hello) {
    Text(hello.identity.job_uid);
    Id(hello.identity.attempt);
    Number(hello.identity.rank);
    Number(hello.identity.world_size);
    Id(hello.identity.incarnation);
    Text(hello.host_id);
    Number(hello.seat.pid_namespace);
    Number(static_cast<uint64_t>(hello.seat.thread));
    Number(static_cast<uint64_t>(hello.seat.cpu_milli));
  }

  std::string Take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads fields; after the first failure everything reads as empty and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Number(std::size_t byte_count = 8) {
    if (bytes_.size() < byte_count) {
      is_ok_ = false;
      bytes_ = {};
      return 0;
    }
    uint64_t value = 0;
    for (std::size_t index = 0; index < byte_count; ++index) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[index])) << (8 * index);
    }
    bytes_.remove_prefix(byte_count);
    return value;
  }

  // A number in [0, max].
  uint64_t Below(uint64_t max, std::size_t byte_count = 8) {
    const uint64_t value = Number(byte_count);
    is_ok_ = is_ok_ && value <= max;
    return is_ok_ ? value : 0;
  }

  int Int() { return static_cast<int>(Below(std::numeric_limits<int>::max())); }

  // A rank, or -1 for none.
  int RankOrNone() {
    const auto value = static_cast<int64_t>(Number());
    is_ok_ = is_ok_ && value >= -1 && value <= std::numeric_limits<int>::max();
    return is_ok_ ? static_cast<int>(value) : -1;
  }

  template <typename Id>
  Id Identifier() {
    return Id(static_cast<int64_t>(Below(std::numeric_limits<int64_t>::max())));
  }

  bool Flag() { return Below(1, 1) == 1; }

  template <typename Enum>
  Enum Choice(Enum last) {
    return static_cast<Enum>(Below(static_cast<uint64_t>(last), 1));
  }

  std::string Text() {
    const std::size_t size = Below(kTextBytesMax, 2);
    if (bytes_.size() < size) {
      is_ok_ = false;
      return {};
    }
    const std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }

  Hello Identity() {
    Hello hello;
    hello.identity.job_uid = Text();
    hello.identity.attempt = Identifier<Attempt>();
    hello.identity.rank = Int();
    hello.identity.world_size = Int();
    hello.identity.incarnation = Identifier<Incarnation>();
    hello.host_id = Text();
    hello.seat.pid_namespace = Number();
    hello.seat.thread = Int();
    hello.seat.cpu_milli = Int();
    return hello;
  }

  bool ok() const { return is_ok_; }

  bool is_at_end() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool is_ok_ = true;
};

std::string Encode(const HelloFrame& frame) {
  Writer out(FrameKind::kHello);
  out.Number(kProtocol);
  out.Number(static_cast<uint64_t>(frame.kind), 1);
  out.Identity(frame.hello);
  out.Number(frame.target_rank);
  out.Id(frame.epoch);
  out.Text(frame.nonce);
  return std::move(out).Take();
}

std::string Encode(const ReplyFrame& frame) {
  Writer out(FrameKind::kReply);
  out.Identity(frame.hello);
  out.Text(frame.nonce);
  out.Text(frame.proof);
  return std::move(out).Take();
}

std::string Encode(const ProofFrame& frame) {
  Writer out(FrameKind::kProof);
  out.Text(frame.proof);
  return std::move(out).Take();
}

std::string Encode(const VerdictFrame& frame) {
  Writer out(FrameKind::kVerdict);
  out.Number(frame.is_accepted ? 1 : 0, 1);
  out.Number(static_cast<uint64_t>(frame.reason), 1);
  out.Id(frame.epoch);
  out.Text(frame.detail);
  return std::move(out).Take();
}

std::string Encode(const MemberState& state) {
  Writer out(FrameKind::kState);
  out.Id(state.epoch);
  out.Number(state.joined ? 1 : 0, 1);
  out.Number(state.finished ? 1 : 0, 1);
  out.Number(state.agreement);
  out.Number(state.facts.has_state ? 1 : 0, 1);
  out.Id(state.facts.last_applied);
  out.Number(state.facts.plan_hash);
  out.Id(state.culprit.ended);
  out.Number(state.culprit.rank);
  out.Id(state.culprit.incarnation);
  out.Number(static_cast<uint64_t>(state.culprit.reason), 1);
  out.Number(state.is_strained ? 1 : 0, 1);
  out.Number(state.silent.size(), 1);
  for (const Testimony& testimony : state.silent) {
    out.Number(testimony.rank);
    out.Number(static_cast<uint64_t>(testimony.sight), 1);
  }
  return std::move(out).Take();
}

std::string Encode(const SupersededFrame& /*frame*/) {
  return Writer(FrameKind::kSuperseded).Take();
}

Frame DecodeHello(Reader& in) {
  HelloFrame frame;
  (void)in.Below(kProtocol);
  frame.kind = in.Choice(LinkKind::kData);
  frame.hello = in.Identity();
  frame.target_rank = in.Int();
  frame.epoch = in.Identifier<Epoch>();
  frame.nonce = in.Text();
  return frame;
}

Frame DecodeReply(Reader& in) {
  ReplyFrame frame;
  frame.hello = in.Identity();
  frame.nonce = in.Text();
  frame.proof = in.Text();
  return frame;
}

Frame DecodeVerdict(Reader& in) {
  VerdictFrame frame;
  frame.is_accepted = in.Flag();
  frame.reason = in.Choice(Refusal::kWrongJob);
  frame.epoch = in.Identifier<Epoch>();
  frame.detail = in.Text();
  return frame;
}

Frame DecodeState(Reader& in) {
  MemberState state;
  state.epoch = in.Identifier<Epoch>();
  state.joined = in.Flag();
  state.finished = in.Flag();
  state.agreement = in.Number();
  state.facts.has_state = in.Flag();
  state.facts.last_applied = in.Identifier<Step>();
  state.facts.plan_hash = in.Number();
  state.culprit.ended = in.Identifier<Epoch>();
  state.culprit.rank = in.RankOrNone();
  state.culprit.incarnation = in.Identifier<Incarnation>();
  state.culprit.reason = in.Choice(LossReason::kMovedOn);
  state.is_strained = in.Flag();
  const uint64_t count = in.Below(kTestimoniesMax, 1);
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    Testimony& testimony = state.silent.emplace_back();
    testimony.rank = in.Int();
    testimony.sight = in.Choice(Sight::kStopped);
  }
  return state;
}

std::optional<Frame> DecodeKind(FrameKind kind, Reader& in) {
  switch (kind) {
    case FrameKind::kHello:
      return DecodeHello(in);
    case FrameKind::kReply:
      return DecodeReply(in);
    case FrameKind::kProof:
      return ProofFrame{in.Text()};
    case FrameKind::kVerdict:
      return DecodeVerdict(in);
    case FrameKind::kState:
      return DecodeState(in);
    case FrameKind::kSuperseded:
      return SupersededFrame{};
  }
  return std::nullopt;
}

}  // namespace

std::string EncodeFrame(const Frame& frame) {
  std::string body = std::visit([](const auto& concrete) { return Encode(concrete); }, frame);
  LOCKSTEP_CHECK(body.size() <= kFrameBytesMax, std::to_string(body.size()));
  return body;
}

Result<Frame> DecodeFrame(std::string_view body) {
  Reader in(body);
  const auto kind = static_cast<FrameKind>(in.Number(1));
  const bool has_other_protocol =
      kind == FrameKind::kHello && Reader(body.substr(1)).Number() != kProtocol;
  if (has_other_protocol) {
    return Error(ErrorCode::kCorrupt, "the caller uses a different protocol version");
  }
  std::optional<Frame> frame = DecodeKind(kind, in);
  if (!frame.has_value() || !in.ok() || !in.is_at_end()) {
    return Error(ErrorCode::kCorrupt,
                 "malformed frame of " + std::to_string(body.size()) + " bytes");
  }
  return *std::move(frame);
}

std::string WithSize(std::string_view body) {
  std::string bytes;
  for (std::size_t index = 0; index < kFrameHeaderBytes; ++index) {
    bytes.push_back(static_cast<char>((body.size() >> (8 * index)) & 0xffU));
  }
  bytes.append(body);
  return bytes;
}

}  // namespace lockstep::runtime
