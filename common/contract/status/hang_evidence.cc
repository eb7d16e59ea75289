#include "common/contract/status/hang_evidence.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "common/base/plural.h"
#include "common/base/printable.h"
#include "common/contract/text/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kPlacesToldMax = 4;  // choice: a sentence's worth
constexpr std::size_t kRanksToldMax = 8;

// One group's collective in which ranks wait.
struct Wait {
  std::string name;
  std::string operation;
  int64_t number = std::numeric_limits<int64_t>::max();  // the oldest that any rank waits in
  int64_t waiting = 0;                                   // ranks
  std::vector<int> behind;                               // ranks that have not called it, ascending
};

// "rank 5", "ranks 5 and 7", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more".
std::string RankList(const std::vector<int>& ranks) {
  const std::size_t told = std::min(ranks.size(), kRanksToldMax);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < told; ++i) {
    const bool is_end = i + 1 == ranks.size();
    text += (i == 0 ? "" : is_end ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return told == ranks.size() ? text
                              : text + " and " + std::to_string(ranks.size() - told) + " more";
}

std::map<std::string, Wait> WaitsOf(const std::vector<RankEvidence>& ranks) {
  std::map<std::string, Wait> waits;
  for (const RankEvidence& rank : ranks) {
    for (const GroupCalls& calls : rank.groups) {
      if (calls.waits_in == 0) {
        continue;
      }
      Wait& wait = waits[calls.id];
      ++wait.waiting;
      if (calls.waits_in < wait.number) {
        wait.number = calls.waits_in;
        wait.name = calls.name;
        wait.operation = calls.operation;
      }
    }
  }
  return waits;
}

bool WaitsForOthers(const RankEvidence& rank) {
  return std::any_of(rank.groups.begin(), rank.groups.end(), [](const GroupCalls& calls) {
    return calls.waits_in != 0;
  });
}

std::string Places(const std::vector<RankEvidence>& ranks, const std::vector<int>& culprits) {
  std::string text;
  std::size_t told = 0;
  for (const RankEvidence& rank : ranks) {
    const bool is_one = std::binary_search(culprits.begin(), culprits.end(), rank.rank);
    if (is_one && !rank.place.empty() && told < kPlacesToldMax) {
      text += "; rank " + std::to_string(rank.rank) + " is in " + rank.place;
      ++told;
    }
  }
  return text;
}

HangVerdict JudgeBehind(const std::vector<RankEvidence>& ranks) {
  std::map<std::string, Wait> waits = WaitsOf(ranks);
  std::set<int> culprits;
  for (const RankEvidence& rank : ranks) {
    if (WaitsForOthers(rank)) {
      continue;  // whoever it waits for is behind in that group
    }
    for (const GroupCalls& calls : rank.groups) {
      const auto wait = waits.find(calls.id);
      if (wait != waits.end() && calls.called < wait->second.number) {
        wait->second.behind.push_back(rank.rank);
        culprits.insert(rank.rank);
      }
    }
  }
  HangVerdict verdict;
  verdict.culprits.assign(culprits.begin(), culprits.end());
  std::set<int> told;
  for (const auto& [id, wait] : waits) {
    if (std::includes(told.begin(), told.end(), wait.behind.begin(), wait.behind.end())) {
      continue;
    }
    told.insert(wait.behind.begin(), wait.behind.end());
    verdict.sentence += (verdict.sentence.empty() ? "" : "; ") + RankList(wait.behind) +
                        (wait.behind.size() == 1 ? " has" : " have") + " not called " +
                        wait.operation + " #" + std::to_string(wait.number) + " of " + wait.name +
                        ", in which " + Plural(wait.waiting, "rank") +
                        (wait.waiting == 1 ? " waits" : " wait");
  }
  verdict.sentence += Places(ranks, verdict.culprits);
  return verdict;
}

// Each rank once, by number, with all that is known of it: the program and NCCL tell of the same
// ranks, and so do several pods.
std::vector<RankEvidence> Merged(const std::vector<RankEvidence>& ranks) {
  std::map<int, RankEvidence> merged;
  for (const RankEvidence& rank : ranks) {
    const auto [found, is_new] = merged.emplace(rank.rank, rank);
    if (is_new) {
      continue;
    }
    RankEvidence& known = found->second;
    known.is_lost = known.is_lost || rank.is_lost;
    known.is_moving = known.is_moving || rank.is_moving;
    known.place = known.place.empty() ? rank.place : known.place;
    for (const GroupCalls& calls : rank.groups) {
      const bool is_known =
          std::any_of(known.groups.begin(), known.groups.end(), [&calls](const GroupCalls& one) {
            return one.id == calls.id;
          });
      if (!is_known) {
        known.groups.push_back(calls);
      }
    }
  }
  std::vector<RankEvidence> list;
  for (auto& [number, rank] : merged) {
    list.push_back(std::move(rank));
  }
  return list;
}

// A program's own words, which are told on terminals.
std::string ReadWords(ObjectReader& reader, std::string_view key) {
  return Printable(CutText(reader.String(key).value_or(""), kEvidenceTextBytesMax));
}

GroupCalls DecodeGroupCalls(const Json& value,
                            const std::string& path,
                            std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  GroupCalls calls;
  calls.id = ReadWords(reader, "id");
  calls.name = ReadWords(reader, "name");
  calls.called = reader.RequireInt("called", 0);
  calls.waits_in = reader.Int("waitsIn", 0).value_or(0);
  calls.operation = ReadWords(reader, "operation");
  return calls;
}

}  // namespace

std::vector<RankEvidence> CompareLooks(const std::vector<RankEvidence>& first,
                                       const std::vector<RankEvidence>& second) {
  std::map<int, RankEvidence> before;
  for (RankEvidence& rank : Merged(first)) {
    before[rank.rank] = std::move(rank);
  }
  std::vector<RankEvidence> compared;
  for (RankEvidence& rank : Merged(second)) {
    const auto found = before.find(rank.rank);
    if (found == before.end()) {
      continue;
    }
    rank.is_moving = rank.groups != found->second.groups;
    rank.is_lost = rank.is_lost && found->second.is_lost;
    compared.push_back(std::move(rank));
  }
  return compared;
}

HangVerdict JudgeHang(const std::vector<RankEvidence>& evidence) {
  const std::vector<RankEvidence> ranks = Merged(evidence);
  const bool is_any_moving = std::any_of(
      ranks.begin(), ranks.end(), [](const RankEvidence& rank) { return rank.is_moving; });
  if (is_any_moving) {
    return {};
  }
  HangVerdict lost;
  for (const RankEvidence& rank : ranks) {
    if (rank.is_lost) {
      lost.culprits.push_back(rank.rank);
    }
  }
  if (lost.culprits.empty()) {
    return JudgeBehind(ranks);
  }
  lost.sentence = RankList(lost.culprits) + (lost.culprits.size() == 1 ? " does" : " do") +
                  " not answer the other ranks in NCCL";
  return lost;
}

Json EncodeRankEvidence(const RankEvidence& evidence) {
  Json json = Json::object();
  json["rank"] = evidence.rank;
  if (evidence.is_lost) {
    json["lost"] = true;
  }
  if (evidence.is_moving) {
    json["moving"] = true;
  }
  json["place"] = CutText(evidence.place, kEvidenceTextBytesMax);
  Json groups = Json::array();
  for (std::size_t i = 0; i < std::min(evidence.groups.size(), kEvidenceGroupsMax); ++i) {
    const GroupCalls& calls = evidence.groups[i];
    groups.push_back({{"id", CutText(calls.id, kEvidenceTextBytesMax)},
                      {"name", CutText(calls.name, kEvidenceTextBytesMax)},
                      {"called", calls.called},
                      {"waitsIn", calls.waits_in},
                      {"operation", CutText(calls.operation, kEvidenceTextBytesMax)}});
  }
  json["groups"] = std::move(groups);
  return json;
}

RankEvidence DecodeRankEvidence(const Json& value,
                                const std::string& path,
                                std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  RankEvidence evidence;
  evidence.rank = static_cast<int>(reader.RequireInt("rank", 0, std::numeric_limits<int>::max()));
  evidence.is_lost = reader.Bool("lost").value_or(false);
  evidence.is_moving = reader.Bool("moving").value_or(false);
  evidence.place = ReadWords(reader, "place");
  const std::vector<const Json*> groups = reader.List("groups");
  if (groups.size() > kEvidenceGroupsMax) {
    reader.Fail("groups",
                std::to_string(groups.size()) + " elements found, expected at most " +
                    std::to_string(kEvidenceGroupsMax));
    return evidence;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    evidence.groups.push_back(DecodeGroupCalls(*groups[i], reader.PathOf("groups", i), errors));
  }
  return evidence;
}

}  // namespace lockstep
