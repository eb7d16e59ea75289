#include <cstdio>
#include <string>

#include "operator/cli/commands.h"
#include "operator/cli/job_file.h"
#include "operator/cli/render.h"
#include "operator/cli/summary/summary.h"

namespace lockstep::control {
namespace {

constexpr const char* kExampleUid = "00000000-0000-0000-0000-000000000000";
constexpr const char* kExampleBlock = "127.X.Y";  // no address, so that nobody takes it for one
constexpr int kExamplePort = 10'000;
constexpr const char* kExampleRunDirectory = "RUN";

PodSettings ExampleSettings(bool is_local, const std::string& folder) {
  PodSettings settings;
  if (is_local) {
    settings.addressing = LoopbackAddressing{kExampleBlock, kExamplePort};
    settings.job_directory = kExampleRunDirectory;
    settings.data_directory = folder;
    settings.job_key_file = std::string(kExampleRunDirectory) + "/job.key";
    settings.expands_references = true;
  }
  return settings;
}

}  // namespace

int RunRender(const RenderArguments& arguments) {
  auto single = ReadSingleJob(arguments.source);
  if (!single.ok()) {
    std::fprintf(stderr, "%s\n", single.error().message().c_str());
    return kCliUsage;
  }
  for (const std::string& line : single->skipped) {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  single->job.metadata.uid = kExampleUid;
  const auto pods = RenderPods(single->job, ExampleSettings(arguments.local, single->folder));
  if (!pods.ok()) {
    std::fprintf(stderr, "lockstep: %s\n", pods.error().ToString().c_str());
    return kCliFailed;
  }
  if (arguments.local) {
    std::fprintf(
        stderr,
        "127.X.Y and ports from %d are examples: each run takes free addresses and ports\n",
        kExamplePort);
  }
  const std::string text =
      arguments.as_json ? DumpJsonPretty(EncodePods(*pods)) + "\n" : FormatPods(*pods);
  std::fputs(text.c_str(), stdout);
  return kCliSucceeded;
}

}  // namespace lockstep::control
