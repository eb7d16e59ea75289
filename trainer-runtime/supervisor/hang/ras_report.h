#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/contract/status/hang_evidence.h"

namespace lockstep::runtime {

// What NCCL's RAS says of one rank of one communicator.
struct RasRank {
  int rank = 0;         // in the communicator
  std::string process;  // "HOST PID"; empty: not told
  bool is_lost = false;
  std::map<std::string, int64_t> launched;  // collectives, by name
};

struct RasCommunicator {
  std::string hash;
  int size = 0;
  std::vector<RasRank> ranks;  // by rank; the text leaves out what is as usual
};

using RasReport = std::vector<RasCommunicator>;

// Reads the answer to VERBOSE STATUS in JSON (NCCL 2.28.7 and newer). Fields that are missing count
// as nothing. Errors: kInvalidArgument. Pure.
Result<RasReport> ParseRasJson(std::string_view text);

// Reads the answer as text (NCCL 2.24 and newer): which ranks of which communicators have launched
// fewer collectives, and which are missing. Lines that it does not know say nothing. Pure.
RasReport ParseRasText(std::string_view text);

// What the report says of ranks of the job, by the communicator that has them all: there a rank has
// its number in the job, as torch makes it. Empty where there is no such communicator, or a larger
// one: then a launcher has made more ranks than the job knows, with numbers of their own. Only of
// collectives of which ranks have launched different numbers: those with more wait. Pure.
std::vector<RankEvidence> EvidenceOf(const RasReport& report, int world_size);

}  // namespace lockstep::runtime
