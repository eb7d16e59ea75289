#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trainer-runtime/strategy/parameter_server/shard_messages.h"

namespace lockstep::runtime {

static_assert(std::endian::native == std::endian::little,
              "numbers are sent in the byte order of memory");

// The count of values that are absent.
inline constexpr uint64_t kAbsentValues = std::numeric_limits<uint64_t>::max();

// Writes fields, each type its own way. FrameReader is its mirror, field by
// field.
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
      Number(static_cast<int64_t>(kAbsentValues));
    } else {
      Floats(*values);
    }
  }

  void Text(const std::string& text) {
    Number(static_cast<int64_t>(text.size()));
    bytes_ += text;
  }

  void Sums(const StepSums& sums) {
    Number(sums.data_epoch);
    Raw(&sums.loss_sum, sizeof(sums.loss_sum));
    Number(sums.correct_count);
    Number(sums.sample_count);
  }

  void AllSums(const std::map<int64_t, StepSums>& all) {
    Number(static_cast<int64_t>(all.size()));
    for (const auto& [data_epoch, sums] : all) {
      Sums(sums);
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

  void Write(const request::Pull& pull) {
    Kind(pull.with_slots ? 1 : 0);
    Kind(pull.with_facts ? 1 : 0);
    Number(pull.step);
    Number(pull.updates_min);
  }

  void Write(const request::Push& push) {
    Values(push.gradient);
    Sums(push.sums);
  }

  void Write(const request::Open& open) { Number(open.gate); }

  void Write(const request::Seed& seed) {
    Values(seed.parameters);
    Values(seed.slots);
    Number(seed.update_count);
    Number(seed.gate);
    Text(seed.note);
  }

  void Write(const request::Leave& /*leave*/) {}

  void Write(const reply::Pulled& pulled) {
    Number(pulled.update_count);
    Values(pulled.parameters);
    Values(pulled.slots);
    Number(pulled.sequence);
    Number(pulled.gate);
    Kind(pulled.facts != nullptr ? 1 : 0);
    if (pulled.facts != nullptr) {
      Write(*pulled.facts);
    }
  }

  void Write(const ShardFacts& facts) {
    Text(facts.note);
    Number(static_cast<int64_t>(facts.sequences.size()));
    for (const auto& [worker, sequence] : facts.sequences) {
      Number(worker);
      Number(sequence);
    }
    Number(facts.sample_count);
    AllSums(facts.sums);
  }

  void Write(const reply::Done& /*done*/) {}

  void Write(const reply::Unseeded& /*unseeded*/) {}

  void Write(const reply::NotServing& /*not_serving*/) {}

  void Write(const reply::Outdated& /*outdated*/) {}

  void Write(const reply::Lost& /*lost*/) {}

  void Write(const reply::Misfit& /*misfit*/) {}

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
    Number(content.gate);
    Text(content.note);
    Number(content.sample_count);
    AllSums(content.sums);
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
    Number(seed.gate);
    Text(seed.note);
  }

  void Write(const entry::Open& open) { Number(open.gate); }

  void Write(const entry::Admit& admit) { Process(admit.process); }

  void Write(const entry::Push& push) {
    Process(push.process);
    Number(push.sequence);
    Values(push.gradient);
    Sums(push.sums);
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

}  // namespace lockstep::runtime
