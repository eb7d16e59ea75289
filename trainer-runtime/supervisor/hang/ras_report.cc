#include "trainer-runtime/supervisor/hang/ras_report.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

constexpr int kRasRanksMax = 1 << 17;               // choice: no job has so many
constexpr int64_t kRasCountMax = int64_t{1} << 52;  // choice: no job launches so many
constexpr std::size_t kRasCountsMax = 64;           // choice: different ones of one communicator
constexpr std::string_view kAnyCollective = "collective";  // where the text tells no name

RasRank RasRankOf(const Json& value, const std::string& path, std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  RasRank rank;
  rank.rank = static_cast<int>(reader.RequireInt("rank", 0, kRasRanksMax));
  rank.process =
      reader.String("host").value_or("") + " " + std::to_string(reader.Int("pid").value_or(0));
  if (const Json* counts = reader.Find("collective_counts"); counts && counts->is_object()) {
    ObjectReader fields(*counts, reader.PathOf("collective_counts"), errors);
    for (const auto& [name, count] : counts->items()) {
      rank.launched[name] = fields.Int(name, 0, kRasCountMax).value_or(0);
    }
  }
  if (const Json* status = reader.Find("status"); status && status->is_object()) {
    ObjectReader fields(*status, reader.PathOf("status"), errors);
    rank.is_lost = fields.Bool("unresponsive").value_or(false) ||
                   fields.Bool("considered_dead").value_or(false);
  }
  return rank;
}

// A number at the beginning of `text`, which is cut off.
std::optional<int64_t> TakeNumber(std::string_view* text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || number < 0 || number > kRasCountMax) {
    return std::nullopt;
  }
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return number;
}

bool TakeWord(std::string_view word, std::string_view* text) {
  if (!text->starts_with(word)) {
    return false;
  }
  text->remove_prefix(word.size());
  return true;
}

// " launched up to operation 60 ..." or " not launched any operations ...".
std::optional<int64_t> LaunchedOf(std::string_view text) {
  if (TakeWord(" launched up to operation ", &text)) {
    return TakeNumber(&text);
  }
  return text.starts_with(" not launched any operations") ? std::optional<int64_t>(0)
                                                          : std::nullopt;
}

// Reads the sections about communicators line by line.
class RasTextReader {
 public:
  void Take(std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.starts_with("#")) {
      Begin(line);
    } else if (report_.empty()) {
      return;
    } else if (TakeWord("Communicator ranks have different ", &line)) {
      operation_ = std::string(line.substr(0, line.find(' ')));
      counted_.reset();
    } else if (line.starts_with("The missing rank")) {
      TakeMissing(line);
    } else if (TakeWord("Rank ", &line)) {
      TakeRank(line);
    } else {
      TakeCount(line);
    }
  }

  RasReport Finish() {
    FillIn();
    return std::move(report_);
  }

 private:
  // "#0-0 (27a079b828ff1a75) MISMATCH"
  void Begin(std::string_view line) {
    FillIn();
    const std::size_t open = line.find('(');
    const std::size_t close = line.find(')');
    const bool is_told = open < close && close != std::string_view::npos;
    const std::string hash(is_told ? line.substr(open + 1, close - open - 1) : line);
    const auto known = std::ranges::find(report_, hash, &RasCommunicator::hash);
    if (known != report_.end()) {  // once more, with another trouble
      std::rotate(known, known + 1, report_.end());
    } else {
      report_.push_back({hash, 0, {}});
    }
    places_.clear();
    for (const RasRank& rank : report_.back().ranks) {
      places_.emplace(rank.rank, places_.size());
    }
    operation_ = kAnyCollective;
    counts_.clear();
    counted_.reset();
  }

  // "The missing ranks: 21, 22"
  void TakeMissing(std::string_view line) {
    line.remove_prefix(std::min(line.find(':'), line.size()));
    while (!line.empty()) {
      if (const std::optional<int64_t> number = TakeNumber(&line)) {
        RankAt(*number)->is_lost = true;
      } else {
        line.remove_prefix(1);
      }
    }
  }

  // "0 -- GPU 0 managed by ..." below a count, or "7 has launched up to operation 60 -- GPU ...".
  void TakeRank(std::string_view line) {
    const std::optional<int64_t> number = TakeNumber(&line);
    if (!number.has_value()) {
      return;
    }
    if (TakeWord(" has", &line)) {
      if (const std::optional<int64_t> launched = LaunchedOf(line)) {
        counts_[operation_][*launched] += 1;
        RankAt(*number)->launched[operation_] = *launched;
      }
    } else if (counted_.has_value()) {
      RankAt(*number)->launched[operation_] = *counted_;
    }
  }

  // "26 ranks have launched up to operation 6650"
  void TakeCount(std::string_view line) {
    const std::optional<int64_t> ranks = TakeNumber(&line);
    if (!ranks.has_value() || *ranks > kRasRanksMax || !TakeWord(" ranks have", &line)) {
      return;
    }
    counted_ = LaunchedOf(line);
    if (counted_.has_value()) {
      counts_[operation_][*counted_] += *ranks;
    }
  }

  RasRank* RankAt(int64_t number) {
    std::vector<RasRank>& ranks = report_.back().ranks;
    const int rank = static_cast<int>(std::min<int64_t>(number, kRasRanksMax));
    const auto [found, is_new] = places_.emplace(rank, ranks.size());
    if (is_new) {
      ranks.push_back({rank, "", false, {}});
    }
    return &ranks[found->second];
  }

  // The ranks that are not listed have launched what most have, where all others are listed.
  void FillIn() {
    if (report_.empty()) {
      return;
    }
    RasCommunicator& communicator = report_.back();
    for (const auto& [operation, counts] : counts_) {
      if (counts.size() > kRasCountsMax) {
        continue;
      }
      int64_t size = 0;
      std::vector<int64_t> unlisted;
      for (const auto& [launched, ranks] : counts) {
        const auto listed = std::ranges::count_if(
            communicator.ranks, [&operation = operation, launched = launched](const RasRank& one) {
              const auto found = one.launched.find(operation);
              return found != one.launched.end() && found->second == launched;
            });
        size += ranks;
        if (listed < ranks) {
          unlisted.push_back(launched);
        }
      }
      if (unlisted.size() > 1 || size > kRasRanksMax) {
        continue;
      }
      communicator.size = std::max(communicator.size, static_cast<int>(size));
      for (int rank = 0; rank < size && !unlisted.empty(); ++rank) {
        RankAt(rank)->launched.emplace(operation, unlisted.front());
      }
    }
    counts_.clear();
  }

  RasReport report_;
  std::map<int, std::size_t> places_;  // of the newest communicator's ranks
  std::string operation_;
  std::optional<int64_t> counted_;  // of the ranks that follow
  // By operation and number of collectives: how many ranks have launched so many.
  std::map<std::string, std::map<int64_t, int64_t>> counts_;
};

void AddCalls(const RasCommunicator& communicator,
              const std::string& operation,
              const std::map<int, int>& job_ranks,
              std::map<int, RankEvidence>* evidence) {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = 0;
  for (const RasRank& rank : communicator.ranks) {
    if (const auto found = rank.launched.find(operation); found != rank.launched.end()) {
      least = std::min(least, found->second);
      most = std::max(most, found->second);
    }
  }
  if (least >= most) {
    return;
  }
  const std::string name = "communicator " + communicator.hash;
  for (const RasRank& rank : communicator.ranks) {
    const auto found = rank.launched.find(operation);
    const auto job_rank = job_ranks.find(rank.rank);
    if (found != rank.launched.end() && job_rank != job_ranks.end()) {
      const int64_t waits_in = found->second > least ? least + 1 : 0;
      (*evidence)[job_rank->second].groups.push_back(
          {name + " " + operation, name, found->second, waits_in, operation});
    }
  }
}

// The number in the job of each rank of the communicator; of some of them where it has not all, and
// is told which processes they are. `world`: of each process.
std::map<int, int> JobRanks(const RasCommunicator& communicator,
                            int world_size,
                            const std::map<std::string, int>& world) {
  std::map<int, int> ranks;
  for (const RasRank& rank : communicator.ranks) {
    const auto found = rank.process.empty() ? world.end() : world.find(rank.process);
    if (communicator.size == world_size) {
      ranks[rank.rank] = rank.rank;
    } else if (found != world.end()) {
      ranks[rank.rank] = found->second;
    }
  }
  return ranks;
}

}  // namespace

Result<RasReport> ParseRasJson(std::string_view text) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  std::vector<Error> errors;
  ObjectReader root(json, "", &errors);
  RasReport report;
  const std::vector<const Json*> list = root.List("communicators");
  for (std::size_t i = 0; i < list.size(); ++i) {
    ObjectReader reader(*list[i], root.PathOf("communicators", i), &errors);
    RasCommunicator communicator;
    communicator.hash = reader.String("hash").value_or("");
    communicator.size = static_cast<int>(reader.RequireInt("size", 0, kRasRanksMax));
    for (const char* key : {"ranks", "missing_ranks"}) {
      const std::vector<const Json*> ranks = reader.List(key);
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        communicator.ranks.push_back(RasRankOf(*ranks[rank], reader.PathOf(key, rank), &errors));
      }
    }
    report.push_back(std::move(communicator));
  }
  if (!errors.empty()) {
    return errors.front();
  }
  return report;
}

RasReport ParseRasText(std::string_view text) {
  RasTextReader reader;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    reader.Take(line);
  }
  return reader.Finish();
}

std::vector<RankEvidence> EvidenceOf(const RasReport& report, int world_size) {
  const auto world = std::ranges::find(report, world_size, &RasCommunicator::size);
  std::map<int, RankEvidence> evidence;
  if (world == report.end() || std::ranges::any_of(report, [&](const RasCommunicator& one) {
        return one.size > world_size;
      })) {
    return {};
  }
  std::map<std::string, int> numbers;
  for (const RasRank& rank : world->ranks) {
    numbers.emplace(rank.process, rank.rank);
  }
  for (const RasCommunicator& communicator : report) {
    const std::map<int, int> job_ranks = JobRanks(communicator, world_size, numbers);
    std::set<std::string> operations;
    for (const RasRank& rank : communicator.ranks) {
      for (const auto& [operation, launched] : rank.launched) {
        operations.insert(operation);
      }
      if (const auto found = job_ranks.find(rank.rank); rank.is_lost && found != job_ranks.end()) {
        evidence[found->second].is_lost = true;
      }
    }
    for (const std::string& operation : operations) {
      AddCalls(communicator, operation, job_ranks, &evidence);
    }
  }
  std::vector<RankEvidence> list;
  for (auto& [rank, one] : evidence) {
    one.rank = rank;
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace lockstep::runtime
