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

  // What a JVM need not say; -1 then.
  int32_t java_thread_os_thread;                                                      // JavaThread: its OSThread*
  int32_t os_thread_id;                                                               // OSThread: the kernel's id
  int32_t method_flags, method_code_bytes, method_words, const_method_size;           // ConstMethod
  int32_t nmethod_compile_id, nmethod_scope_pcs, nmethod_original_pc;                 // nmethod
  int32_t nmethod_dependencies, nmethod_metadata, nmethod_scopes, blob_code;          // … up to JDK 22
  int32_t nmethod_deopt, nmethod_deopt_mh;                                            //
  int32_t nmethod_immutable, nmethod_immutable_bytes, nmethod_scopes_offset;          // … since JDK 23
  int32_t blob_mutable, blob_mutable_bytes, blob_relocation_bytes, blob_code_offset;  //
  int32_t nmethod_deopt_offset, nmethod_deopt_mh_offset;                              //
  int32_t pc_desc_pc, pc_desc_scope, pc_desc_bytes;                                   // PcDesc
  uint32_t has_lines_flag;                                                            // in method_flags
  const uint64_t* version;                                                            // the JDK's since 9
  uint8_t lowest_byte;                                                                // of compressed numbers
  bool has_scopes;                                                                    // what hotspot_scopes needs is there

  // From libjvm's link_map. nullptr, or what is not there.
  const char* read(const void* library);
  // The same, where only threads are of interest. False: it is no HotSpot, or does not say.
  bool read_of_threads(const void* library);

 private:
  void look_at_scopes();
};

}  // namespace heapspy::unwind
