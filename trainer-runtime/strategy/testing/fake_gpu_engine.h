#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/engine/testing/fake_device_engine.h"

namespace lockstep::runtime {

// `inner`, which computes in the host's memory, as though it computed on GPU `device` of this
// process, by the double of NVIDIA's driver: its gradients are in memory of that driver's, made by
// a stream of its own some time after backward has said that they are ready, and an update takes
// what is there. What the host has is an image, and `telling`, as of MakeFakeDeviceEngine.
// `driver`: the double's file. Errors: kNotFound (no driver), kUnavailable (it refuses).
Result<std::unique_ptr<Engine>> MakeFakeGpuEngine(
    std::unique_ptr<Engine> inner,
    int device,
    const std::string& driver = "libcuda.so.1",
    FakeTelling telling = FakeTelling::kAsTheyAreMade);

}  // namespace lockstep::runtime
