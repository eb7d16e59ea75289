#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "trainer-runtime/collectives/nccl/shared_object.h"

namespace lockstep::runtime {

// NVIDIA's driver, which every machine with a GPU has and no other.
inline constexpr const char* kCudaLibrary = "libcuda.so.1";

using CudaAddress = unsigned long long;  // CUdeviceptr
using CudaStreamHandle = void*;          // CUstream
using CudaEventHandle = void*;           // CUevent

// The driver's functions that are used, as its documentation has them. NCCL stands on the same
// driver and shares its primary contexts, streams and memory, so nothing else of CUDA is needed.
// Source: CUDA Driver API, whose symbols keep their meaning (a changed one has another suffix).
struct CudaFunctions {
  int (*init)(unsigned int) = nullptr;
  int (*error_string)(int, const char**) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int*, int ordinal) = nullptr;
  int (*device_uuid)(unsigned char* bytes, int device) = nullptr;
  int (*device_name)(char*, int size, int device) = nullptr;
  int (*context_retain)(void**, int device) = nullptr;
  int (*context_release)(int device) = nullptr;
  int (*context_set)(void*) = nullptr;
  int (*context_get)(void**) = nullptr;
  int (*memory_allocate)(CudaAddress*, std::size_t) = nullptr;
  int (*memory_free)(CudaAddress) = nullptr;
  int (*memory_fill)(CudaAddress, unsigned int, std::size_t, CudaStreamHandle) = nullptr;
  int (*host_allocate)(void**, std::size_t, unsigned int) = nullptr;
  int (*host_free)(void*) = nullptr;
  int (*stream_create)(CudaStreamHandle*, unsigned int) = nullptr;
  int (*stream_destroy)(CudaStreamHandle) = nullptr;
  int (*stream_query)(CudaStreamHandle) = nullptr;
  int (*stream_wait)(CudaStreamHandle, CudaEventHandle, unsigned int) = nullptr;
  int (*event_create)(CudaEventHandle*, unsigned int) = nullptr;
  int (*event_destroy)(CudaEventHandle) = nullptr;
  int (*event_query)(CudaEventHandle) = nullptr;
  int (*event_record)(CudaEventHandle, CudaStreamHandle) = nullptr;
  int (*copy_to_device)(CudaAddress, const void*, std::size_t, CudaStreamHandle) = nullptr;
  int (*copy_to_host)(void*, CudaAddress, std::size_t, CudaStreamHandle) = nullptr;
};

// One of the GPUs that this process may use, with its primary context: which ones those are, and in
// which order, is said by CUDA_VISIBLE_DEVICES. Thread: any; what allocates or copies wants
// MakeCurrent() on its thread.
class CudaDevice {
 public:
  // `number` is CUDA's, from 0. Errors: kNotFound (no driver, no GPU, or not so many: the sentence
  // says which), kUnavailable (the driver refuses: its own words).
  static Result<std::shared_ptr<const CudaDevice>> Open(int number,
                                                        const std::string& library = kCudaLibrary);

  static Result<std::shared_ptr<const CudaDevice>> OpenFirst(
      const std::string& library = kCudaLibrary) {
    return Open(0, library);
  }

  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice();

  // CUDA's, of this process.
  int number() const { return number_; }

  // "GPU-8f0c...", of a slice "MIG-a65a...", as NVML and the device plugin name it.
  const std::string& uuid() const { return uuid_; }

  // Of this process.
  int visible_count() const { return visible_count_; }

  // Makes this device the calling thread's. Errors: kUnavailable.
  Status MakeCurrent() const;

  const CudaFunctions& functions() const { return functions_; }

  // Whether an event of this device is yet to come; not where something before it has failed.
  bool IsAhead(CudaEventHandle event) const;

  // OkStatus for 0, else kUnavailable: "CUDA cannot WHAT: its words".
  Status Check(int code, const std::string& what) const;

 private:
  CudaDevice(SharedObject object, int number) : object_(std::move(object)), number_(number) {}

  Status FindFunctions();
  Status OpenDevice();

  SharedObject object_;
  CudaFunctions functions_;
  int number_;
  int device_ = 0;
  void* context_ = nullptr;
  std::string uuid_;
  int visible_count_ = 0;
};

// Gives the calling thread back, at its end, the device that it had: a thread of an engine's goes
// on computing on its own. Thread: that of its making.
class CudaDeviceKeeper {
 public:
  explicit CudaDeviceKeeper(const CudaDevice& any);

  CudaDeviceKeeper(const CudaDeviceKeeper&) = delete;
  CudaDeviceKeeper& operator=(const CudaDeviceKeeper&) = delete;
  ~CudaDeviceKeeper();

 private:
  const CudaFunctions& functions_;
  void* context_ = nullptr;  // null: it had none
};

// A stream of its own, and memory on both sides: a place where buckets are laid out for the device.
//
//   host memory (pinned)  --copy-->  device memory  --NCCL-->  device memory  --copy-->  host
//   memory
//
// The host's half is pinned: a copy from or to other memory may keep the calling thread until the
// stream comes to it, which would be a wait without a deadline.
// Its end frees everything, and may wait for what still runs on the device.
class CudaStage {
 public:
  // With as much memory on both sides. Errors: kUnavailable, kResourceExhausted (memory).
  static Result<std::unique_ptr<CudaStage>> Make(std::shared_ptr<const CudaDevice> device,
                                                 std::size_t byte_count) {
    return Make(std::move(device), byte_count, byte_count);
  }

  static Result<std::unique_ptr<CudaStage>> Make(std::shared_ptr<const CudaDevice> device,
                                                 std::size_t host_byte_count,
                                                 std::size_t device_byte_count);

  CudaStage(const CudaStage&) = delete;
  CudaStage& operator=(const CudaStage&) = delete;
  ~CudaStage();

  // Shapes: [host_byte_count] of Make.
  std::byte* host() { return static_cast<std::byte*>(host_); }

  // The same place on the device.
  void* device_address(std::size_t offset) const {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(device_memory_ + offset));
  }

  CudaStreamHandle stream() const { return stream_; }

  const CudaDevice& device() const { return *device_; }

  // Put a copy of the range into the stream. Errors: kUnavailable.
  Status CopyToDevice(std::size_t offset, std::size_t size);
  Status CopyToHost(std::size_t offset, std::size_t size);

  // Makes the first `count` floats of the device's half ones. Errors: kUnavailable.
  Status PutOnes(std::size_t count);

  // Puts a copy of the device's float `index` to the host's `place` into the stream. Errors:
  // kUnavailable.
  Status FetchFloat(std::size_t index, std::size_t place);

  // Puts a wait for what `other` has been given so far into the stream. Errors: kUnavailable.
  Status WaitFor(CudaStreamHandle other);

  // Puts a wait for the event, as it is recorded now, into the stream. Errors: kUnavailable.
  Status WaitForEvent(CudaEventHandle event);

  // Makes `other` wait for what the stream has been given so far. Errors: kUnavailable.
  Status MakeWait(CudaStreamHandle other);

  // Whether everything in the stream is done. Errors: kUnavailable: something in it has failed.
  Result<bool> IsIdle() const;

 private:
  explicit CudaStage(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}

  // shared: memory and stream are nothing without the context.
  std::shared_ptr<const CudaDevice> device_;
  void* host_ = nullptr;
  CudaAddress device_memory_ = 0;
  CudaStreamHandle stream_ = nullptr;
  CudaEventHandle event_ = nullptr;
};

}  // namespace lockstep::runtime
