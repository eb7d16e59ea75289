#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"

namespace lockstep {

// Ranks in the evidence of one pod. Choice: NCCL's service answers for the whole job, and 1,024
// ranks with their groups stay far below what a status document may hold.
inline constexpr std::size_t kEvidenceRanksMax = 1024;

// Groups of one rank. Choice: programs that split their ranks in four ways make a dozen.
inline constexpr std::size_t kEvidenceGroupsMax = 32;

inline constexpr std::size_t kEvidenceTextBytesMax = 256;  // of each text when written; choice

// What one rank knows of the collectives of one process group. All ranks of the group number its
// collectives alike, from 1.
struct GroupCalls {
  std::string id;         // equal on all ranks of the group, and on no others
  std::string name;       // for people: "group default_pg"
  int64_t called = 0;     // the newest collective that the rank has called
  int64_t waits_in = 0;   // the oldest that it has called and that has not completed; 0: none
  std::string operation;  // of `waits_in`, else of `called`: "all_reduce"

  friend bool operator==(const GroupCalls&, const GroupCalls&) = default;
};

// Where one rank of a job stood whose steps have stopped.
struct RankEvidence {
  int rank = 0;
  bool is_lost = false;    // its peers' NCCL takes it for dead, or it does not answer them
  bool is_moving = false;  // between two looks it has called or completed a collective
  std::string place;       // of its main thread: "load_batch (train.py:88)"; empty: not known
  std::vector<GroupCalls> groups;

  friend bool operator==(const RankEvidence&, const RankEvidence&) = default;
};

// What is known of the same ranks after a second look: as `second` says, and whether they moved.
// Ranks that only one of the looks has are left out. By rank. Pure.
std::vector<RankEvidence> CompareLooks(const std::vector<RankEvidence>& first,
                                       const std::vector<RankEvidence>& second);

struct HangVerdict {
  std::vector<int> culprits;  // ranks, ascending; empty: the evidence does not tell
  std::string sentence;       // "rank 5 has not called all_reduce #6650 of group default_pg, ..."
};

// Which ranks the others wait for, by the evidence of all ranks that are known. Lost ones; else
// those that have not called a collective in which others of its group wait, and that wait in none
// themselves. Nobody while any rank moves: a slow job is no hung one. Pure.
HangVerdict JudgeHang(const std::vector<RankEvidence>& ranks);

// An element of a list of the status document, or what a program answers about itself, and back.
// Unknown fields are ignored; problems go to `errors`, with their path.
Json EncodeRankEvidence(const RankEvidence& evidence);
RankEvidence DecodeRankEvidence(const Json& value,
                                const std::string& path,
                                std::vector<Error>* errors);

}  // namespace lockstep
