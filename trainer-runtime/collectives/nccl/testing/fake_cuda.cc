// libcuda.so.1 as tests need it: a driver whose devices are host memory and whose streams are
// threads. FAKE_CUDA_DEVICES says how many devices there are (default: 1), and
// FAKE_CUDA_UUID how the first byte of each is called, in decimal (default: every process
// has devices of its own). FAKE_CUDA_PRODUCT is the product name of each, by which a slice is told.

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace {

constexpr int kOk = 0;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNoDevice = 100;
constexpr int kInvalidHandle = 400;
constexpr int kNotReady = 600;
constexpr int kDevicesMax = 16;
constexpr std::size_t kMemoryMax = std::size_t{1} << 40U;

int NumberOf(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

int DeviceCount() {
  return NumberOf("FAKE_CUDA_DEVICES", 1);
}

// Does what it is given, one after the other, on its thread.
class FakeStream {
 public:
  explicit FakeStream(void* context) : context_(context), thread_([this] { Work(); }) {}

  // Of the device that it is on.
  void* context() const { return context_; }

  ~FakeStream() {
    Push([this] { is_over_ = true; });
    thread_.join();
  }

  void Push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    news_.notify_all();
  }

  bool IsIdle() {
    const std::lock_guard lock(mutex_);
    return work_.empty();
  }

  void AwaitIdle() {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [this] { return work_.empty(); });
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      news_.wait(lock, [this] { return !work_.empty(); });
      const std::function<void()>& work = work_.front();
      lock.unlock();
      work();
      lock.lock();
      work_.pop_front();  // only now: until then the stream is not idle
      news_.notify_all();
    }
  }

  void* const context_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> work_;
  bool is_over_ = false;  // of the stream's thread
  std::thread thread_;
};

// Tells when a stream has come to where it was recorded last. Streams that wait keep it, as the
// driver does: it may be destroyed before.
class FakeEvent : public std::enable_shared_from_this<FakeEvent> {
 public:
  explicit FakeEvent(void* context) : context_(context) {}

  void* context() const { return context_; }

  // Without a stream that is at once.
  void Record(FakeStream* stream) {
    const uint64_t record = Begin();
    if (stream == nullptr) {
      End(record);
      return;
    }
    stream->Push([self = shared_from_this(), record] { self->End(record); });
  }

  bool HasCome() {
    const std::lock_guard lock(mutex_);
    return reached_ == recorded_;
  }

  void MakeWait(FakeStream* stream) {
    const std::lock_guard lock(mutex_);
    stream->Push([self = shared_from_this(), record = recorded_] { self->Await(record); });
  }

 private:
  uint64_t Begin() {
    const std::lock_guard lock(mutex_);
    return ++recorded_;
  }

  void End(uint64_t record) {
    const std::lock_guard lock(mutex_);
    reached_ = std::max(reached_, record);
    news_.notify_all();
  }

  void Await(uint64_t record) {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return reached_ >= record; });
  }

  void* const context_;
  std::mutex mutex_;
  std::condition_variable news_;
  uint64_t recorded_ = 0;
  uint64_t reached_ = 0;
};

// Pinned memory, by its first byte.
class PinnedMemory {
 public:
  void Add(const void* begin, std::size_t size) {
    const std::lock_guard lock(mutex_);
    sizes_[static_cast<const char*>(begin)] = size;
  }

  void Remove(const void* begin) {
    const std::lock_guard lock(mutex_);
    sizes_.erase(static_cast<const char*>(begin));
  }

  bool Holds(const void* place) {
    const auto* const byte = static_cast<const char*>(place);
    const std::lock_guard lock(mutex_);
    auto after = sizes_.upper_bound(byte);
    return after != sizes_.begin() && byte < (--after)->first + after->second;
  }

 private:
  std::mutex mutex_;
  std::map<const char*, std::size_t> sizes_;
};

PinnedMemory& Pinned() {
  static PinnedMemory pinned;
  return pinned;
}

FakeStream* StreamOf(void* handle) {
  return static_cast<FakeStream*>(handle);
}

using EventHandle = std::shared_ptr<FakeEvent>;

FakeEvent* EventOf(void* handle) {
  return static_cast<EventHandle*>(handle)->get();
}

void* PointerOf(unsigned long long address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

thread_local void* current_context = nullptr;

// As the driver may: whoever copies from or to memory that is not pinned waits for the stream.
int Copy(void* to, const void* from, std::size_t size, const void* host, void* stream) {
  if (current_context == nullptr) {
    return kInvalidValue;
  }
  StreamOf(stream)->Push([=] { std::memcpy(to, from, size); });
  if (!Pinned().Holds(host)) {
    StreamOf(stream)->AwaitIdle();
  }
  return kOk;
}

}  // namespace

extern "C" {

int cuInit(unsigned int /*flags*/) {
  return DeviceCount() == 0 ? kNoDevice : kOk;
}

int cuGetErrorString(int code, const char** words) {
  *words = code == kNoDevice      ? "no CUDA-capable device is detected"
           : code == kOutOfMemory ? "out of memory"
                                  : "invalid argument";
  return kOk;
}

int cuDeviceGetCount(int* count) {
  *count = DeviceCount();
  return kOk;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < DeviceCount() ? kOk : kInvalidValue;
}

int cuDeviceGetUuid_v2(unsigned char* bytes, int device) {
  std::memset(bytes, 0, 16);
  bytes[0] = static_cast<unsigned char>(NumberOf("FAKE_CUDA_UUID", 0));
  bytes[1] = static_cast<unsigned char>(device);
  if (bytes[0] == 0) {
    const int pid = ::getpid();
    std::memcpy(bytes + 4, &pid, sizeof(pid));
  }
  return kOk;
}

int cuDeviceGetName(char* name, int size, int /*device*/) {
  const char* const product = std::getenv("FAKE_CUDA_PRODUCT");
  std::snprintf(
      name, static_cast<std::size_t>(size), "%s", product == nullptr ? "a double" : product);
  return kOk;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  static int contexts[kDevicesMax] = {};
  if (device >= kDevicesMax) {
    return kInvalidValue;
  }
  *context = &contexts[device];
  return kOk;
}

int cuDevicePrimaryCtxRelease_v2(int /*device*/) {
  return kOk;
}

int cuCtxSetCurrent(void* context) {
  current_context = context;
  return kOk;
}

int cuCtxGetCurrent(void** context) {
  *context = current_context;
  return kOk;
}

int cuStreamGetCtx(void* stream, void** context) {
  *context = StreamOf(stream)->context();
  return kOk;
}

int cuMemAlloc_v2(unsigned long long* address, std::size_t size) {
  if (current_context == nullptr) {
    return kInvalidValue;
  }
  void* const memory = size > kMemoryMax ? nullptr : std::malloc(size);
  *address = static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(memory));
  return memory == nullptr ? kOutOfMemory : kOk;
}

int cuMemFree_v2(unsigned long long address) {
  std::free(PointerOf(address));
  return kOk;
}

int cuMemsetD32Async(unsigned long long to, unsigned int word, std::size_t count, void* stream) {
  StreamOf(stream)->Push(
      [=] { std::fill_n(static_cast<unsigned int*>(PointerOf(to)), count, word); });
  return kOk;
}

int cuMemHostAlloc(void** memory, std::size_t size, unsigned int /*flags*/) {
  *memory = size > kMemoryMax ? nullptr : std::malloc(size);
  Pinned().Add(*memory, size);
  return *memory == nullptr ? kOutOfMemory : kOk;
}

int cuMemFreeHost(void* memory) {
  Pinned().Remove(memory);
  std::free(memory);
  return kOk;
}

int cuStreamCreate(void** stream, unsigned int /*flags*/) {
  if (current_context == nullptr) {
    return kInvalidValue;
  }
  *stream = new FakeStream(current_context);
  return kOk;
}

int cuStreamDestroy_v2(void* stream) {
  delete StreamOf(stream);
  return kOk;
}

int cuStreamQuery(void* stream) {
  return StreamOf(stream)->IsIdle() ? kOk : kNotReady;
}

int cuEventCreate(void** event, unsigned int /*flags*/) {
  if (current_context == nullptr) {
    return kInvalidValue;
  }
  *event = new EventHandle(std::make_shared<FakeEvent>(current_context));
  return kOk;
}

int cuEventDestroy_v2(void* event) {
  delete static_cast<EventHandle*>(event);
  return kOk;
}

int cuEventQuery(void* event) {
  return EventOf(event)->HasCome() ? kOk : kNotReady;
}

int cuEventRecord(void* event, void* stream) {
  if (current_context == nullptr) {
    return kInvalidValue;
  }
  // An event is recorded by streams of its own device, and of no other.
  if (stream != nullptr && StreamOf(stream)->context() != EventOf(event)->context()) {
    return kInvalidHandle;
  }
  EventOf(event)->Record(StreamOf(stream));
  return kOk;
}

int cuStreamWaitEvent(void* stream, void* event, unsigned int /*flags*/) {
  EventOf(event)->MakeWait(StreamOf(stream));
  return kOk;
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t size, void* stream) {
  return Copy(PointerOf(to), from, size, from, stream);
}

int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t size, void* stream) {
  return Copy(to, PointerOf(from), size, to, stream);
}

// The double of NCCL runs its kernels by this, in the order of the stream.
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  StreamOf(stream)->Push([=] { function(data); });
  return kOk;
}
}
