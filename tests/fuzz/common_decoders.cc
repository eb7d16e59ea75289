#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "common/contract/environment/environment.h"
#include "common/contract/environment/tf_config.h"
#include "common/contract/environment/topology.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/status_document.h"
#include "common/contract/status/termination_message.h"
#include "common/contract/training/training_spec.h"
#include "common/json/json.h"
#include "tests/fuzz/decoder_kit.h"
#include "tests/fuzz/decoder_lists.h"
#include "tests/fuzz/http_probe.h"

namespace lockstep::fuzz {
namespace {

JobTopology SeedTopology() {
  return {
      "mnist",
      "default",
      {{Role::kChief, 1, 1}, {Role::kWorker, 2, 1}, {Role::kPs, 2, 1}, {Role::kEvaluator, 1, 1}},
      LoopbackAddressing{"127.1.2"}};
}

Finding RunJson(std::string_view bytes) {
  return RunRoundTrip(
      bytes, [](std::string_view text) { return ParseJson(text); }, DumpJson);
}

std::vector<std::string> JsonSeeds() {
  return {R"({"a":[1,-2.5e3,true,false,null,"\u20ac\n"],"b":{"c":{}}})",
          R"([[[[]]],"x",18446744073709551615,-9223372036854775808,1e308])"};
}

Finding RunHostPort(std::string_view bytes) {
  return RunRoundTrip(bytes, ParseHostPort, FormatHostPort);
}

std::vector<std::string> HostPortSeeds() {
  return {"mnist-worker-0.mnist.default.svc:2222", "[fe80::1%eth0]:65535", "127.1.2.3:1"};
}

Finding RunPodName(std::string_view bytes) {
  const std::optional<PodNameParts> parts = ParsePodName(bytes);
  if (!parts.has_value()) {
    return {};
  }
  const std::string name = PodName(parts->job, parts->task, parts->number);
  return Accepted(name == bytes ? "" : "read as the parts of another name: " + name);
}

std::vector<std::string> PodNameSeeds() {
  return {"mnist-worker-0", "a-b-worker-1-chief-0-a3-r12", "m-evaluator-0-r1"};
}

// Whether the queries hold together on a document that was accepted.
std::string CheckTfConfigQueries(const TfConfig& config) {
  const int number = TaskNumber(config).value_or(0);
  if (number < 0) {
    return "a negative id";
  }
  const Result<std::vector<HostPort>> addresses = RankAddresses(config);
  const bool is_rank = addresses.ok() && IsRank(config.task->role);
  return is_rank && static_cast<std::size_t>(number) >= addresses->size() ? "a rank without address"
                                                                          : "";
}

Finding RunTfConfig(std::string_view bytes) {
  const auto parse = [](std::string_view text) { return ParseTfConfig(text); };
  const Result<TfConfig> config = parse(bytes);
  if (!config.ok()) {
    return Refused(config.error());
  }
  if (config->is_local()) {
    return Accepted();  // written as no document at all, so its task is not kept
  }
  if (std::string broken = CheckTfConfigQueries(*config); !broken.empty()) {
    return Accepted(std::move(broken));
  }
  const Result<std::string> text = EncodeTfConfig(*config);
  if (!text.ok()) {
    const bool is_too_long = text.error().code() == ErrorCode::kResourceExhausted;
    return Accepted(is_too_long ? "" : text.error().ToString());
  }
  return CheckReadBack(*config, *text, parse);
}

std::vector<std::string> TfConfigSeeds() {
  std::vector<std::string> seeds = {
      R"({"task":{"type":"worker","index":"0"}})",
      R"({"cluster":{"worker":{"7":"a:1"},"ps":{"2":"b:1"}},"task":{"type":"worker","index":7}})"};
  for (const bool sparse : {false, true}) {
    for (const TaskId& task : AllTasks(SeedTopology())) {
      TfConfigOptions options;
      options.sparse = sparse;
      options.include_environment = true;
      seeds.push_back(
          EncodeTfConfig(MakeTfConfig(SeedTopology(), {task, 0}, options).value()).value());
    }
  }
  return seeds;
}

// An environment as the kernel passes it: NAME=value, each ended by a zero byte.
EnvironmentMap SplitEnvironment(std::string_view bytes) {
  EnvironmentMap variables;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\0'), bytes.size());
    const std::string_view entry = bytes.substr(0, end);
    const std::size_t equals = std::min(entry.find('='), entry.size());
    variables[std::string(entry.substr(0, equals))] =
        std::string(entry.substr(std::min(equals + 1, entry.size())));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  return variables;
}

std::string JoinEnvironment(const EnvironmentMap& variables) {
  std::string bytes;
  for (const auto& [name, value] : variables) {
    bytes += name + "=" + value;
    bytes += '\0';
  }
  return bytes;
}

Finding RunEnvironment(std::string_view bytes) {
  const auto parse = [](std::string_view text) { return ParseEnvironment(SplitEnvironment(text)); };
  Result<WorkerEnvironment> environment = parse(bytes);
  if (!environment.ok()) {
    return Refused(environment.error());
  }
  if (environment->tf_config.is_local()) {
    environment->tf_config.task.reset();  // not rendered where there is no cluster
  }
  const Result<EnvironmentMap> variables = RenderEnvironment(*environment);
  if (!variables.ok()) {
    const bool is_too_long = variables.error().code() == ErrorCode::kResourceExhausted;
    return Accepted(is_too_long ? "" : variables.error().ToString());
  }
  return CheckReadBack(*environment, JoinEnvironment(*variables), parse);
}

std::vector<std::string> EnvironmentSeeds() {
  std::vector<std::string> seeds;
  for (const TaskId& task : AllTasks(SeedTopology())) {
    WorkerEnvironment environment =
        MakeWorkerEnvironment(SeedTopology(), {task, {}, Epoch(1), "uid"}).value();
    environment.training = R"({"epochs":1})";
    environment.job_key_file = "key";
    seeds.push_back(JoinEnvironment(RenderEnvironment(environment).value()));
  }
  return seeds;
}

Finding RunTerminationMessage(std::string_view bytes) {
  return RunRoundTrip(bytes, DecodeTerminationMessage, EncodeTerminationMessage);
}

std::vector<std::string> TerminationMessageSeeds() {
  TerminationMessage message;
  std::vector<std::string> seeds = {EncodeTerminationMessage(message)};
  message.reason = "rank 1 is silent";
  message.last_step = Step(7);
  message.steps_total = 9;
  message.last_checkpoint_step = Step(5);
  message.culprit_rank = 1;
  message.relaunches = 1;
  message.tail = "Traceback\nValueError: x\n";
  message.samples = SampleCounts{960, 960, 0, 0};
  message.result = TestResult{0.25, 0.96875, {{0.5, 0.25, 0.96875}, {}}};
  seeds.push_back(EncodeTerminationMessage(message));
  return seeds;
}

Finding RunStatusDocument(std::string_view bytes) {
  // The encoder cuts long texts, so it is its own output that must survive.
  const Result<StatusDocument> document = DecodeStatusDocument(bytes);
  if (!document.ok()) {
    return Refused(document.error());
  }
  return RunRoundTrip(EncodeStatusDocument(*document), DecodeStatusDocument, EncodeStatusDocument);
}

std::vector<std::string> StatusDocumentSeeds() {
  StatusDocument document;
  document.job = "mnist";
  document.rank = 1;
  document.steps_total = 800;
  document.loss = 0.5;
  document.accuracy = 0.75;
  document.result = TestResult{0.5, 0.75, {{0.25, 0.5, 0.75}}};
  document.last_checkpoint_step = Step(5);
  document.peers = {{0, Incarnation(1), PeerState::kSilent, "no answer", 2.5}};
  document.timeline = {{TimelineEventKind::kPeerLost, Epoch(1), Step(2), 0, 3}};
  document.models = {{1, Incarnation(1001), Step(1), Step(2), std::nullopt}};
  return {EncodeStatusDocument(document), EncodeStatusDocument(StatusDocument{})};
}

Finding RunControlMessage(std::string_view bytes) {
  if (VerifyControlMessage("key", bytes, bytes).ok()) {
    return Accepted("a message that signs itself is accepted");
  }
  return RunRoundTrip(bytes, DecodeControlMessage, EncodeControlMessage);
}

std::vector<std::string> ControlMessageSeeds() {
  ControlMessage message;
  message.job_uid = "uid";
  message.counter = 1;
  std::vector<std::string> seeds = {EncodeControlMessage(message)};
  message.relaunch = 1;
  for (const ControlKind kind :
       {ControlKind::kPeerGone, ControlKind::kHalt, ControlKind::kRelaunch}) {
    message.kind = kind;
    seeds.push_back(EncodeControlMessage(message));
  }
  return seeds;
}

Finding RunTrainingSpec(std::string_view bytes) {
  return RunRoundTrip(bytes, ParseTrainingSpec, [](const TrainingSpec& spec) {
    return DumpJson(EncodeTrainingSpec(spec));
  });
}

std::vector<std::string> TrainingSpecSeeds() {
  return {R"({"seed":1,"epochs":8,"globalBatchSize":96,"remainder":"Keep","model":{"inputShape":)"
          R"([28,28,1],"layers":[{"type":"Conv2D","filters":32,"kernelSize":3,"strides":[1,1],)"
          R"("padding":"valid","activation":"relu"},{"type":"MaxPooling2D","poolSize":2},)"
          R"({"type":"Flatten"},{"type":"Dropout","rate":0.5},{"type":"Dense","units":10}]},)"
          R"("loss":{"type":"SparseCategoricalCrossentropy","fromLogits":true},)"
          R"("optimizer":{"type":"Adam","learningRate":0.001,"beta1":0.9,"beta2":0.999,)"
          R"("epsilon":1e-7},"dataset":{"format":"idx","images":"i.gz","labels":"l.gz",)"
          R"("scale":0.00392156862745098,"shuffle":true,"testSamples":1000},"checkpoint":)"
          R"({"directory":"checkpoints","everySteps":100,"keep":3},"communication":)"
          R"({"allReduce":"Auto","bytesPerPack":4194304,"timeoutSeconds":30}})"};
}

Finding RunHttpRequest(std::string_view bytes) {
  static const HttpProbe probe;  // one server for all inputs: its state must survive each of them
  return probe.Ask(bytes);
}

std::vector<std::string> HttpRequestSeeds() {
  return {"GET /page?verbose=1 HTTP/1.1\r\nHost: worker-0:8080\r\nAccept: */*\r\n\r\n",
          "POST /page HTTP/1.1\r\nContent-Length: 7\r\nX-Lockstep-Signature: 0a\r\n\r\n{\"a\":1}",
          "POST /page HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
          "GET /page HTTP/1.0\r\n\r\n"};
}

constexpr std::array<Decoder, 10> kCommonDecoders = {{
    {"json", RunJson, JsonSeeds},
    {"host_port", RunHostPort, HostPortSeeds},
    {"pod_name", RunPodName, PodNameSeeds},
    {"tf_config", RunTfConfig, TfConfigSeeds},
    {"environment", RunEnvironment, EnvironmentSeeds},
    {"termination_message", RunTerminationMessage, TerminationMessageSeeds},
    {"status_document", RunStatusDocument, StatusDocumentSeeds},
    {"control_message", RunControlMessage, ControlMessageSeeds},
    {"training_spec", RunTrainingSpec, TrainingSpecSeeds},
    {"http_request", RunHttpRequest, HttpRequestSeeds},
}};

}  // namespace

std::span<const Decoder> CommonDecoders() {
  return kCommonDecoders;
}

}  // namespace lockstep::fuzz
