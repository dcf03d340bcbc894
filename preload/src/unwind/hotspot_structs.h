// What HotSpot tells debuggers of its own structures: tables of names and offsets that libjvm.so exports (gHotSpotVMStructs and
// its like). Here those that lead from a return address to its code blob, and from a method to its name.
#pragma once
#include <cstdint>

namespace heapspy::unwind {

struct HotspotStructs {
  // Static variables, by address.
  const uint64_t* code_heaps;   // GrowableArray<CodeHeap*>*
  const uint64_t* code_low;     // of all code heaps
  const uint64_t* code_high;    //
  const uint64_t* call_return;  // where call_stub has called Java
  const uint64_t* object_klass;

  // Offsets; -1 where the table has none.
  int32_t array_length, array_data;                                 // GrowableArray
  int32_t heap_memory, heap_map, heap_log2, space_low, space_high;  // CodeHeap, VirtualSpace
  int32_t block_used;                                               // HeapBlock::Header
  int32_t blob_name, blob_frame_words;                              // CodeBlob
  int32_t nmethod_method;                                           //
  int32_t const_method;                                             // Method
  int32_t constants, name_index, signature_index;                   // ConstMethod
  int32_t pool_holder, pool_length;                                 // ConstantPool
  int32_t klass_name, klass_loader_data, klass_methods;             // InstanceKlass
  int32_t loader, loader_is_of_one_class;                           // ClassLoaderData
  int32_t symbol_length, symbol_body;                               // Symbol
  int32_t methods_data;                                             // Array<Method*>
  int32_t pool_bytes, block_bytes;                                  // sizes: ConstantPool, HeapBlock
  int32_t sender_sp_words;                                          // of an interpreter's frame

  // From libjvm's link_map. nullptr, or what is not there.
  const char* read(const void* library);
};

}  // namespace heapspy::unwind
