#pragma once

#include <memory>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/contract/environment/environment.h"
#include "common/http/http_server.h"
#include "trainer-runtime/supervisor/peers/horovod_store.h"

namespace lockstep::runtime {

// Answers Horovod's requests from a store of its own:
//   PUT    /SCOPE/KEY   200; 413 value too long, 507 no room for another one
//   GET    /SCOPE/KEY   200 and the value; 404 not there yet: a rank asks again
//   DELETE /SCOPE/KEY   200: the rank of that key has finished
// 400 for other paths, 405 for other methods. Whatever is refused is logged, to a limit. Horovod
// signs nothing, so neither is anything asked for. `logger` outlives the handler.
HttpHandler MakeHorovodHandler(const HorovodStoreOptions& options, Logger* logger);

// Whether Horovod's ranks look for their rendezvous in the pod of this environment.
bool HoldsHorovodRendezvous(const WorkerEnvironment& environment);

// Serves a job's ranks, who find nothing there of an attempt before. `logger` outlives the server.
// Precondition (checked): HoldsHorovodRendezvous. Errors: as HttpServer::Start.
Result<std::unique_ptr<HttpServer>> ServeHorovod(const WorkerEnvironment& environment,
                                                 Logger* logger);

}  // namespace lockstep::runtime
