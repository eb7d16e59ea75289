#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace lockstep::runtime {

// A job's checkpoint directory is of one of two kinds:
//
//   DIR/step-00000100/          one model for all ranks
//   DIR/rank-2/step-00000100/   a model for each rank, in a folder that is a checkpoint store

inline constexpr std::string_view kModelPrefix = "rank-";
inline constexpr std::string_view kStepPrefix = "step-";

// Where rank `rank` keeps the checkpoints of a model of its own.
std::string FolderOfModel(const std::string& directory, int rank);

// Whether nothing in `directory` is of the other kind than a job has that trains `several` models,
// or one: it would silently start afresh beside it. Errors: kInvalidArgument (names what was found,
// and what would go on with it), kIo and its kin when the directory is there and cannot be read.
Status CheckDirectoryKind(const std::string& directory, bool several);

}  // namespace lockstep::runtime
