#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trainer-runtime/ps/shard_frame_writer.h"
#include "trainer-runtime/ps/shard_frames.h"

namespace lockstep::runtime {

static_assert(std::endian::native == std::endian::little,
              "numbers are sent in the byte order of memory");

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
    if (!is_ok_ || count == kAbsentValues) {
      return nullptr;
    }
    return std::make_shared<const std::vector<float>>(FloatsOf(count));
  }

  std::string Text() {
    const uint64_t size = Unsigned();
    if (size > bytes_.size()) {
      Fail();
      return {};
    }
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }

  StepSums Sums() {
    StepSums sums;
    sums.data_epoch = Number();
    sums.loss_sum = std::bit_cast<double>(Unsigned());
    sums.correct_count = Number();
    sums.sample_count = Number();
    return sums;
  }

  std::map<int64_t, StepSums> AllSums() {
    std::map<int64_t, StepSums> all;
    const uint64_t count = Count(kSummedDataEpochs);
    for (uint64_t i = 0; i < count && is_ok_; ++i) {
      const StepSums sums = Sums();
      all[sums.data_epoch] = sums;
    }
    return all;
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

  void Read(request::Pull* pull) {
    pull->with_slots = Flag();
    pull->with_facts = Flag();
    pull->step = Number();
    pull->updates_min = Number();
  }

  void Read(request::Push* push) {
    push->gradient = Values();
    push->sums = Sums();
  }

  void Read(request::Open* open) { open->gate = Number(); }

  void Read(request::Seed* seed) {
    seed->parameters = Values();
    seed->slots = Values();
    seed->update_count = Number();
    seed->gate = Number();
    seed->note = Text();
  }

  void Read(request::Leave* /*leave*/) {}

  void Read(reply::Pulled* pulled) {
    pulled->update_count = Number();
    pulled->parameters = Present();
    pulled->slots = Values();
    pulled->sequence = Number();
    pulled->gate = Number();
    if (Flag()) {
      ShardFacts facts;
      Read(&facts);
      pulled->facts = std::make_shared<const ShardFacts>(std::move(facts));
    }
  }

  void Read(ShardFacts* facts) {
    facts->note = Text();
    const uint64_t workers = Count(kFrameWorkersMax);
    for (uint64_t i = 0; i < workers && is_ok_; ++i) {
      const int worker = Int();
      facts->sequences[worker] = Number();
    }
    facts->sample_count = Number();
    facts->sums = AllSums();
  }

  void Read(reply::Done* /*done*/) {}

  void Read(reply::Unseeded* /*unseeded*/) {}

  void Read(reply::NotServing* /*not_serving*/) {}

  void Read(reply::Outdated* /*outdated*/) {}

  void Read(reply::Lost* /*lost*/) {}

  void Read(reply::Misfit* /*misfit*/) {}

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
    content->gate = Number();
    content->note = Text();
    content->sample_count = Number();
    content->sums = AllSums();
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
    seed->gate = Number();
    seed->note = Text();
  }

  void Read(entry::Open* open) { open->gate = Number(); }

  void Read(entry::Admit* admit) { admit->process = Process(); }

  void Read(entry::Push* push) {
    push->process = Process();
    push->sequence = Number();
    push->gradient = Present();
    push->sums = Sums();
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

}  // namespace lockstep::runtime
