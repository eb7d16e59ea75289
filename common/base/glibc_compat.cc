// Keeps our portable programs (lockstep_portable) loadable on glibc 2.34.
//
// A binary that names a newer symbol than its host's glibc has does not start at all. GCC 12's
// archives name two: the unwinder calls _dl_find_object (glibc 2.35), std::random_device calls
// arc4random (glibc 2.36). The definitions here, found by the linker before glibc's, answer the
// same questions with what every glibc has. They are hidden, so that shared libraries loaded later
// keep using glibc's own. docs/surprises/glibc-symbols.md tells the story.

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>

#include <sys/random.h>

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

// Fills `search->found` when `object` maps the address; a non-zero answer ends the iteration.
int Match(dl_phdr_info* object, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const ElfW(Phdr)* unwind_table = nullptr;
  const ElfW(Phdr)* segment = nullptr;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) {
      unwind_table = &header;
    } else if (header.p_type == PT_LOAD && search->address >= start &&
               search->address < start + header.p_memsz) {
      segment = &header;
    }
  }
  if (segment == nullptr || unwind_table == nullptr) {
    return 0;
  }
  const uintptr_t start = object->dlpi_addr + segment->p_vaddr;
  *search->found = {};
  search->found->dlfo_map_start = reinterpret_cast<void*>(start);
  search->found->dlfo_map_end = reinterpret_cast<void*>(start + segment->p_memsz);
  search->found->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + unwind_table->p_vaddr);
  return 1;
}

}  // namespace

// As glibc's: 0 and `*result` for the object that maps `address`, else -1. Thread: any.
extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(  // NOLINT: glibc's name
    void* address,
    dl_find_object* result) noexcept {
  Search search{reinterpret_cast<uintptr_t>(address), result};
  return dl_iterate_phdr(&Match, &search) != 0 ? 0 : -1;
}

// As glibc's: 32 uniform random bits from the kernel; a kernel without a random source ends the
// process, for there is nothing safe to return. Thread: any.
extern "C" __attribute__((visibility("hidden"))) uint32_t
arc4random() noexcept {  // NOLINT: as above
  uint32_t value = 0;
  if (getrandom(&value, sizeof(value), 0) != static_cast<ssize_t>(sizeof(value))) {
    std::abort();
  }
  return value;
}
