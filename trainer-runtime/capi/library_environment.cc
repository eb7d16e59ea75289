#include "trainer-runtime/capi/library_environment.h"

#include <charconv>
#include <utility>

#include <sys/socket.h>

#include "common/base/io/file.h"
#include "common/contract/environment/tf_config.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kJobKeyBytesMax = 4096;  // a key is 64 characters; anything longer is no key

// LOCKSTEP_* describe the pod, TF_CONFIG the process: the reader wants it of the pod's first one.
// What does not read is left to the reader, who says why.
void ShowPodsTfConfig(const std::string& rank_of_pod, EnvironmentMap* variables) {
  const auto found = variables->find(env::kTfConfig);
  if (found == variables->end()) {
    return;
  }
  const Result<TfConfig> config = ParseTfConfig(found->second);
  if (!config.ok() || config->is_local() || config->is_sparse) {
    return;
  }
  const auto addresses = RankAddresses(*config);
  int rank = -1;
  std::from_chars(rank_of_pod.data(), rank_of_pod.data() + rank_of_pod.size(), rank);
  if (!addresses.ok() || rank < 0 || static_cast<std::size_t>(rank) >= addresses->size()) {
    return;
  }
  Result<std::string> text = EncodeTfConfig(TfConfigOfRank(*config, rank));
  if (text.ok()) {
    found->second = std::move(text).value();
  }
}

// -1 where the descriptor is not the supervisor's: somebody in between has closed what it did not
// know.
int OpenChannel(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  const bool is_channel =
      ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
  return is_channel ? fd : -1;
}

Result<std::string> ReadJobKey(const std::string& path) {
  if (path.empty()) {
    return std::string();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::string key, ReadFile(path, kJobKeyBytesMax));
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) {
    key.pop_back();
  }
  return key;
}

}  // namespace

Result<LibraryEnvironment> ReadLibraryEnvironment(EnvironmentMap variables) {
  if (variables.count(env::kJobUid) == 0) {
    return Error(ErrorCode::kNotFound,
                 "this process belongs to no job: start it by `lockstep run` or through the "
                 "operator, which set LOCKSTEP_JOB_UID and the other LOCKSTEP_* variables");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<SupervisedPlace> place,
                            ParseSupervisedPlace(variables));
  const auto rank = variables.find(env::kRank);
  if (rank == variables.end()) {
    return Error(ErrorCode::kNotFound,
                 "processes of this role have no rank: chief and workers train, ps and evaluator "
                 "do not");
  }
  if (place.has_value() && place->local_rank > 0) {
    ShowPodsTfConfig(rank->second, &variables);
  }
  LibraryEnvironment environment;
  LOCKSTEP_ASSIGN_OR_RETURN(environment.worker, ParseEnvironment(variables));
  Result<std::string> key = ReadJobKey(environment.worker.job_key_file);
  if (!key.ok()) {
    return std::move(key).error().Wrap("read the job's key").WithField(env::kJobKeyFile);
  }
  environment.job_key = std::move(key).value();
  const SupervisedPlace here = place.value_or(SupervisedPlace());
  *environment.worker.rank += here.local_rank;
  environment.worker.incarnation = IncarnationOfProcess(environment.worker.incarnation, here.start);
  environment.channel_fd = OpenChannel(here.channel_fd);
  environment.closed_fd = environment.channel_fd < 0 ? here.channel_fd : -1;
  return environment;
}

}  // namespace lockstep::runtime
