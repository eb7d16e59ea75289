#include "trainer-runtime/ps/shard_frames.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");

constexpr uint64_t kAbsent = std::numeric_limits<uint64_t>::max();

// Writes fields, each type its own way. Read() below is its mirror, field by field.
class FrameWriter {
 public:
  void Number(int64_t value) { Raw(&value, sizeof(value)); }

  void Kind(std::size_t index) { bytes_.push_back(static_cast<char>(index)); }

  template <typename Tag>
  void Id(StrongId<Tag> id) {
    Number(id.value());
  }

  void Floats(const std::vector<float>& values) {
    Number(static_cast<int64_t>(values.size()));
    Raw(values.data(), values.size() * sizeof(float));
  }

  void Values(const SharedValues& values) {
    if (values == nullptr) {
      Number(static_cast<int64_t>(kAbsent));
    } else {
      Floats(*values);
    }
  }

  void Process(const WorkerProcess& process) {
    Number(process.worker);
    Id(process.incarnation);
  }

  void View(const ShardView& view) {
    Id(view.term);
    Id(view.incarnations[0]);
    Id(view.incarnations[1]);
  }

  template <typename Variant>
  void OneOf(const Variant& body) {
    Kind(body.index());
    std::visit([this](const auto& one) { Write(one); }, body);
  }

  void Write(const WorkerRequest& request) {
    View(request.view);
    Process(request.process);
    Number(request.number);
    Number(request.sequence);
    OneOf(request.body);
  }

  void Write(const WorkerReply& reply) {
    View(reply.view);
    Process(reply.process);
    Number(reply.number);
    OneOf(reply.body);
  }

  void Write(const CopyMessage& message) {
    View(message.view);
    OneOf(message.body);
  }

  void Write(const request::Pull& pull) { Kind(pull.with_slots ? 1 : 0); }

  void Write(const request::Push& push) { Values(push.gradient); }

  void Write(const request::Seed& seed) {
    Values(seed.parameters);
    Values(seed.slots);
    Number(seed.update_count);
  }

  void Write(const request::Leave& /*leave*/) {}

  void Write(const reply::Pulled& pulled) {
    Number(pulled.update_count);
    Values(pulled.parameters);
    Values(pulled.slots);
  }

  void Write(const reply::Done& /*done*/) {}

  void Write(const reply::Unseeded& /*unseeded*/) {}

  void Write(const reply::NotServing& /*not_serving*/) {}

  void Write(const reply::Outdated& /*outdated*/) {}

  void Write(const reply::Lost& /*lost*/) {}

  void Write(const copying::Append& append) {
    Number(append.index);
    OneOf(append.entry);
  }

  void Write(const copying::Confirm& confirm) { Number(confirm.index); }

  void Write(const copying::FillRequest& /*fill_request*/) {}

  void Write(const copying::Notice& /*notice*/) {}

  void Write(const copying::Fill& fill) {
    const ShardContent& content = *fill.content;
    Number(content.entry_count);
    Kind(content.is_seeded ? 1 : 0);
    Number(content.update_count);
    Floats(content.parameters);
    Floats(content.slots);
    Number(static_cast<int64_t>(content.workers.size()));
    for (const auto& [worker, standing] : content.workers) {
      Number(worker);
      Id(standing.incarnation);
      Kind(standing.is_present ? 1 : 0);
      Number(standing.sequence);
      Number(standing.clock);
    }
  }

  void Write(const entry::Seed& seed) {
    Values(seed.parameters);
    Values(seed.slots);
    Number(seed.update_count);
  }

  void Write(const entry::Admit& admit) { Process(admit.process); }

  void Write(const entry::Push& push) {
    Process(push.process);
    Number(push.sequence);
    Values(push.gradient);
  }

  void Write(const entry::Retire& retire) {
    Number(retire.worker);
    Id(retire.below);
  }

  std::string Take() && { return std::move(bytes_); }

 private:
  void Raw(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
  }

  std::string bytes_;
};

// Reads fields; after the first failure everything reads as empty and ok() is false.
class FrameReader {
 public:
  explicit FrameReader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return is_ok_; }

  bool is_at_end() const { return bytes_.empty(); }

  // In [0, max].
  uint64_t Count(uint64_t max) {
    const uint64_t value = Unsigned();
    is_ok_ = is_ok_ && value <= max;
    return is_ok_ ? value : 0;
  }

  int64_t Number() { return static_cast<int64_t>(Count(std::numeric_limits<int64_t>::max())); }

  int Int() { return static_cast<int>(Count(std::numeric_limits<int>::max())); }

  template <typename Id>
  Id Identifier() {
    return Id(Number());
  }

  // Below `count`.
  std::size_t Kind(std::size_t count) {
    if (bytes_.empty() || static_cast<unsigned char>(bytes_.front()) >= count) {
      Fail();
      return 0;
    }
    const auto index = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return index;
  }

  bool Flag() { return Kind(2) == 1; }

  std::vector<float> Floats() { return FloatsOf(Unsigned()); }

  SharedValues Values() {
    const uint64_t count = Unsigned();
    if (!is_ok_ || count == kAbsent) {
      return nullptr;
    }
    return std::make_shared<const std::vector<float>>(FloatsOf(count));
  }

  WorkerProcess Process() {
    const int worker = Int();
    return {worker, Identifier<Incarnation>()};
  }

  ShardView View() {
    ShardView view;
    view.term = Identifier<Term>();
    view.incarnations[0] = Identifier<Incarnation>();
    view.incarnations[1] = Identifier<Incarnation>();
    return view;
  }

  // The alternative whose number comes next.
  template <typename Variant, std::size_t... kIndex>
  void OneOf(Variant* body, std::index_sequence<kIndex...> /*indices*/) {
    const std::size_t kind = Kind(sizeof...(kIndex));
    ((kind == kIndex ? Read(&body->template emplace<kIndex>()) : void()), ...);
  }

  template <typename Variant>
  void OneOf(Variant* body) {
    OneOf(body, std::make_index_sequence<std::variant_size_v<Variant>>());
  }

  void Read(WorkerRequest* request) {
    request->view = View();
    request->process = Process();
    request->number = Number();
    request->sequence = Number();
    OneOf(&request->body);
  }

  void Read(WorkerReply* reply) {
    reply->view = View();
    reply->process = Process();
    reply->number = Number();
    OneOf(&reply->body);
  }

  void Read(CopyMessage* message) {
    message->view = View();
    OneOf(&message->body);
  }

  void Read(request::Pull* pull) { pull->with_slots = Flag(); }

  void Read(request::Push* push) { push->gradient = Values(); }

  void Read(request::Seed* seed) {
    seed->parameters = Values();
    seed->slots = Values();
    seed->update_count = Number();
  }

  void Read(request::Leave* /*leave*/) {}

  void Read(reply::Pulled* pulled) {
    pulled->update_count = Number();
    pulled->parameters = Present();
    pulled->slots = Values();
  }

  void Read(reply::Done* /*done*/) {}

  void Read(reply::Unseeded* /*unseeded*/) {}

  void Read(reply::NotServing* /*not_serving*/) {}

  void Read(reply::Outdated* /*outdated*/) {}

  void Read(reply::Lost* /*lost*/) {}

  void Read(copying::Append* append) {
    append->index = Number();
    OneOf(&append->entry);
  }

  void Read(copying::Confirm* confirm) { confirm->index = Number(); }

  void Read(copying::FillRequest* /*fill_request*/) {}

  void Read(copying::Notice* /*notice*/) {}

  void Read(copying::Fill* fill) {
    auto content = std::make_shared<ShardContent>();
    content->entry_count = Number();
    content->is_seeded = Flag();
    content->update_count = Number();
    content->parameters = Floats();
    content->slots = Floats();
    const uint64_t workers = Count(kFrameWorkersMax);
    for (uint64_t i = 0; i < workers && is_ok_; ++i) {
      WorkerStanding& standing = content->workers[Int()];
      standing.incarnation = Identifier<Incarnation>();
      standing.is_present = Flag();
      standing.sequence = Number();
      standing.clock = Number();
    }
    fill->content = std::move(content);
  }

  void Read(entry::Seed* seed) {
    seed->parameters = Present();
    seed->slots = Present();
    seed->update_count = Number();
  }

  void Read(entry::Admit* admit) { admit->process = Process(); }

  void Read(entry::Push* push) {
    push->process = Process();
    push->sequence = Number();
    push->gradient = Present();
  }

  void Read(entry::Retire* retire) {
    retire->worker = Int();
    retire->below = Identifier<Incarnation>();
  }

 private:
  void Fail() {
    is_ok_ = false;
    bytes_ = {};
  }

  uint64_t Unsigned() {
    uint64_t value = 0;
    if (bytes_.size() < sizeof(value)) {
      Fail();
      return 0;
    }
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_.remove_prefix(sizeof(value));
    return value;
  }

  SharedValues Present() {
    SharedValues values = Values();
    if (values == nullptr) {
      Fail();
    }
    return values;
  }

  std::vector<float> FloatsOf(uint64_t count) {
    if (count > kFrameValuesMax || bytes_.size() < count * sizeof(float)) {
      Fail();
      return {};
    }
    std::vector<float> values(count);
    if (count > 0) {
      std::memcpy(values.data(), bytes_.data(), count * sizeof(float));
    }
    bytes_.remove_prefix(count * sizeof(float));
    return values;
  }

  std::string_view bytes_;
  bool is_ok_ = true;
};

}  // namespace

std::string EncodeShardFrame(const ShardFrame& frame) {
  FrameWriter out;
  out.Number(frame.shard);
  out.OneOf(frame.message);
  return std::move(out).Take();
}

Result<ShardFrame> DecodeShardFrame(std::string_view bytes) {
  FrameReader in(bytes);
  ShardFrame frame;
  frame.shard = in.Int();
  in.OneOf(&frame.message);
  if (!in.ok() || !in.is_at_end()) {
    return Error(ErrorCode::kCorrupt,
                 "a message of " + std::to_string(bytes.size()) + " bytes that is no shard's");
  }
  return frame;
}

}  // namespace lockstep::runtime
