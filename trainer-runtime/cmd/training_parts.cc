#include "trainer-runtime/cmd/training_parts.h"

#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "common/json/json.h"
#include "trainer-runtime/engine/plugin_engine.h"

namespace lockstep::runtime {
namespace {

std::string ExecutableDirectory() {
  std::error_code error;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : executable.parent_path().string();
}

Result<std::unique_ptr<Engine>> LoadEngine(const TrainingSpec& spec, const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const EnginePlugin plugin,
                            EnginePlugin::Load({path, ExecutableDirectory()}));
  return plugin.MakeEngine(DumpJson(EncodeTrainingSpec(spec)));
}

}  // namespace

Result<TrainingParts> LoadTrainingParts(const TrainingSpec& spec,
                                        const WorkerEnvironment& environment,
                                        const std::string& engine_path) {
  auto reading = std::async(std::launch::async, [&spec, &environment] {
    return LoadDataset(spec.dataset, environment.data_directory);
  });
  Result<std::unique_ptr<Engine>> engine = LoadEngine(spec, engine_path);
  Result<DatasetSplits> data = reading.get();
  if (!engine.ok()) {
    return std::move(engine).error();
  }
  if (!data.ok()) {
    return std::move(data).error();
  }
  return TrainingParts{std::move(engine).value(), std::move(data).value()};
}

}  // namespace lockstep::runtime
