#include "hotspot_structs.h"

#include <initializer_list>

#include "exported_symbol.h"
#include "text.h"

namespace heapspy::unwind {

namespace {

// A table: where its entries are and how they are made up, as the library says itself.
class Table {
 public:
  Table(const void* library, const char* table, const char* stride) {
    const auto* at = static_cast<const char* const*>(exported_symbol(library, table));
    first_ = at ? *at : nullptr;
    stride_ = number(library, stride);
  }
  bool ok() const { return first_ && stride_ >= 16 && stride_ <= 256; }
  const char* entry(uint64_t i) const { return first_ + i * stride_; }

  static uint64_t number(const void* library, const char* name) {
    const auto* at = static_cast<const uint64_t*>(exported_symbol(library, name));
    return at ? *at : ~0ull;
  }

 private:
  const char* first_;
  uint64_t stride_;
};

template <class T>
T field(const char* entry, uint64_t offset) {
  T value;
  __builtin_memcpy(&value, entry + offset, sizeof value);
  return value;
}

struct Wanted {
  const char* type;
  const char* field;
  int32_t HotspotStructs::*offset;
};
// Of two with the same target a JVM has one or the other.
constexpr Wanted kFields[] = {
    {"GrowableArrayBase", "_len", &HotspotStructs::array_length},
    {"GenericGrowableArray", "_len", &HotspotStructs::array_length},
    {"GrowableArray<int>", "_data", &HotspotStructs::array_data},
    {"CodeHeap", "_memory", &HotspotStructs::heap_memory},
    {"CodeHeap", "_segmap", &HotspotStructs::heap_map},
    {"CodeHeap", "_log2_segment_size", &HotspotStructs::heap_log2},
    {"VirtualSpace", "_low", &HotspotStructs::space_low},
    {"VirtualSpace", "_high", &HotspotStructs::space_high},
    {"HeapBlock::Header", "_used", &HotspotStructs::block_used},
    {"CodeBlob", "_name", &HotspotStructs::blob_name},
    {"CodeBlob", "_frame_size", &HotspotStructs::blob_frame_words},
    {"nmethod", "_method", &HotspotStructs::nmethod_method},
    {"CompiledMethod", "_method", &HotspotStructs::nmethod_method},
    {"Method", "_constMethod", &HotspotStructs::const_method},
    {"ConstMethod", "_constants", &HotspotStructs::constants},
    {"ConstMethod", "_name_index", &HotspotStructs::name_index},
    {"ConstMethod", "_signature_index", &HotspotStructs::signature_index},
    {"ConstantPool", "_pool_holder", &HotspotStructs::pool_holder},
    {"ConstantPool", "_length", &HotspotStructs::pool_length},
    {"Klass", "_name", &HotspotStructs::klass_name},
    {"Klass", "_class_loader_data", &HotspotStructs::klass_loader_data},
    {"InstanceKlass", "_methods", &HotspotStructs::klass_methods},
    {"ClassLoaderData", "_class_loader", &HotspotStructs::loader},
    {"ClassLoaderData", "_has_class_mirror_holder", &HotspotStructs::loader_is_of_one_class},
    {"ClassLoaderData", "_is_unsafe_anonymous", &HotspotStructs::loader_is_of_one_class},
    {"ClassLoaderData", "_is_anonymous", &HotspotStructs::loader_is_of_one_class},
    {"Symbol", "_length", &HotspotStructs::symbol_length},
    {"Symbol", "_body", &HotspotStructs::symbol_body},
    {"Symbol", "_body[0]", &HotspotStructs::symbol_body},
    {"Array<Method*>", "_data", &HotspotStructs::methods_data},
};
// What the tables need not have: -1 then.
constexpr Wanted kOptionalFields[] = {
    {"Thread", "_osthread", &HotspotStructs::java_thread_os_thread},
    {"JavaThread", "_osthread", &HotspotStructs::java_thread_os_thread},
    {"OSThread", "_thread_id", &HotspotStructs::os_thread_id},
    {"ConstMethod", "_flags", &HotspotStructs::method_flags},
    {"ConstMethod", "_flags._flags", &HotspotStructs::method_flags},
    {"ConstMethod", "_code_size", &HotspotStructs::method_code_bytes},
    {"ConstMethod", "_constMethod_size", &HotspotStructs::method_words},
    {"nmethod", "_compile_id", &HotspotStructs::nmethod_compile_id},
    {"nmethod", "_scopes_pcs_offset", &HotspotStructs::nmethod_scope_pcs},
    {"nmethod", "_orig_pc_offset", &HotspotStructs::nmethod_original_pc},
    {"nmethod", "_dependencies_offset", &HotspotStructs::nmethod_dependencies},
    {"nmethod", "_metadata_offset", &HotspotStructs::nmethod_metadata},
    {"CompiledMethod", "_scopes_data_begin", &HotspotStructs::nmethod_scopes},
    {"CodeBlob", "_code_begin", &HotspotStructs::blob_code},
    {"CompiledMethod", "_deopt_handler_begin", &HotspotStructs::nmethod_deopt},
    {"CompiledMethod", "_deopt_mh_handler_begin", &HotspotStructs::nmethod_deopt_mh},
    {"nmethod", "_immutable_data", &HotspotStructs::nmethod_immutable},
    {"nmethod", "_immutable_data_size", &HotspotStructs::nmethod_immutable_bytes},
    {"nmethod", "_scopes_data_offset", &HotspotStructs::nmethod_scopes_offset},
    {"CodeBlob", "_mutable_data", &HotspotStructs::blob_mutable},
    {"CodeBlob", "_mutable_data_size", &HotspotStructs::blob_mutable_bytes},
    {"CodeBlob", "_relocation_size", &HotspotStructs::blob_relocation_bytes},
    {"CodeBlob", "_code_offset", &HotspotStructs::blob_code_offset},
    {"nmethod", "_deopt_handler_offset", &HotspotStructs::nmethod_deopt_offset},
    {"nmethod", "_deopt_mh_handler_offset", &HotspotStructs::nmethod_deopt_mh_offset},
    {"PcDesc", "_pc_offset", &HotspotStructs::pc_desc_pc},
    {"PcDesc", "_scope_decode_offset", &HotspotStructs::pc_desc_scope},
};
struct WantedStatic {
  const char* type;
  const char* field;
  const uint64_t* HotspotStructs::*address;
};
constexpr WantedStatic kStatics[] = {
    {"CodeCache", "_heaps", &HotspotStructs::code_heaps},
    {"CodeCache", "_low_bound", &HotspotStructs::code_low},
    {"CodeCache", "_high_bound", &HotspotStructs::code_high},
    {"StubRoutines", "_call_stub_return_address", &HotspotStructs::call_return},
    {"vmClasses", "_klasses[static_cast<int>(vmClassID::Object_klass_knum)]", &HotspotStructs::object_klass},
    {"SystemDictionary", "_well_known_klasses[SystemDictionary::Object_klass_knum]", &HotspotStructs::object_klass},
    {"SystemDictionary", "_well_known_klasses[static_cast<int>(SystemDictionary::Object_klass_knum)]",
     &HotspotStructs::object_klass},
};
struct WantedSize {
  const char* type;
  int32_t HotspotStructs::*bytes;
};
constexpr WantedSize kSizes[] = {{"ConstantPool", &HotspotStructs::pool_bytes}, {"HeapBlock", &HotspotStructs::block_bytes}};
constexpr WantedSize kOptionalSizes[] = {{"ConstMethod", &HotspotStructs::const_method_size},
                                         {"PcDesc", &HotspotStructs::pc_desc_bytes}};

constexpr uint64_t kMostEntries = 20000, kLargestOffset = 4096;

}  // namespace

const char* HotspotStructs::read(const void* library) {
  for (const Wanted& each : kFields) this->*each.offset = -1;
  for (const Wanted& each : kOptionalFields) this->*each.offset = -1;
  for (const WantedSize& each : kSizes) this->*each.bytes = -1;
  for (const WantedSize& each : kOptionalSizes) this->*each.bytes = -1;

  const Table fields(library, "gHotSpotVMStructs", "gHotSpotVMStructEntryArrayStride");
  const Table types(library, "gHotSpotVMTypes", "gHotSpotVMTypeEntryArrayStride");
  const Table numbers(library, "gHotSpotVMIntConstants", "gHotSpotVMIntConstantEntryArrayStride");
  if (!fields.ok() || !types.ok() || !numbers.ok()) return "gHotSpotVMStructs";
  const auto place = [&](const char* name) { return Table::number(library, name); };
  const uint64_t type_at = place("gHotSpotVMStructEntryTypeNameOffset"),
                 name_at = place("gHotSpotVMStructEntryFieldNameOffset"),
                 offset_at = place("gHotSpotVMStructEntryOffsetOffset"),
                 address_at = place("gHotSpotVMStructEntryAddressOffset"),
                 is_static_at = place("gHotSpotVMStructEntryIsStaticOffset"),
                 type_name_at = place("gHotSpotVMTypeEntryTypeNameOffset"),
                 type_size_at = place("gHotSpotVMTypeEntrySizeOffset"),
                 number_name_at = place("gHotSpotVMIntConstantEntryNameOffset"),
                 number_at = place("gHotSpotVMIntConstantEntryValueOffset");
  const uint64_t places[] = {type_at,      name_at,      offset_at,      address_at, is_static_at,
                             type_name_at, type_size_at, number_name_at, number_at};
  for (const uint64_t at : places)
    if (at > 256) return "gHotSpotVMStructEntryOffsetOffset";

  for (uint64_t i = 0; i < kMostEntries; i++) {
    const char* entry = fields.entry(i);
    const char* type = field<const char*>(entry, type_at);
    const char* name = field<const char*>(entry, name_at);
    if (!type || !name) break;
    if (field<int32_t>(entry, is_static_at)) {
      if (same(type, "Abstract_VM_Version") && same(name, "_vm_major_version"))
        version = field<const uint64_t*>(entry, address_at);
      for (const WantedStatic& each : kStatics)
        if (same(type, each.type) && same(name, each.field)) this->*each.address = field<const uint64_t*>(entry, address_at);
      continue;
    }
    const uint64_t offset = field<uint64_t>(entry, offset_at);
    if (offset >= kLargestOffset) continue;
    for (const Wanted& each : kFields)
      if (same(type, each.type) && same(name, each.field)) this->*each.offset = static_cast<int32_t>(offset);
    for (const Wanted& each : kOptionalFields)
      if (same(type, each.type) && same(name, each.field)) this->*each.offset = static_cast<int32_t>(offset);
  }
  for (uint64_t i = 0; i < kMostEntries; i++) {
    const char* name = field<const char*>(types.entry(i), type_name_at);
    if (!name) break;
    const uint64_t bytes = field<uint64_t>(types.entry(i), type_size_at);
    for (const WantedSize& each : kSizes)
      if (same(name, each.type) && bytes < kLargestOffset) this->*each.bytes = static_cast<int32_t>(bytes);
    for (const WantedSize& each : kOptionalSizes)
      if (same(name, each.type) && bytes < kLargestOffset) this->*each.bytes = static_cast<int32_t>(bytes);
  }
  for (uint64_t i = 0; i < kMostEntries; i++) {
    const char* name = field<const char*>(numbers.entry(i), number_name_at);
    if (!name) break;
    if (same(name, "ConstMethod::_has_linenumber_table") || same(name, "ConstMethodFlags::_misc_has_linenumber_table"))
      has_lines_flag = field<uint32_t>(numbers.entry(i), number_at);
    if (same(name, "frame::interpreter_frame_sender_sp_offset")) sender_sp_words = field<int32_t>(numbers.entry(i), number_at);
  }

  look_at_scopes();
  for (const Wanted& each : kFields)
    if (this->*each.offset < 0) return each.field;
  for (const WantedSize& each : kSizes)
    if (this->*each.bytes < 0) return each.type;
  for (const WantedStatic& each : kStatics)
    if (!(this->*each.address)) return each.field;
  if (sender_sp_words != -1) return "interpreter_frame_sender_sp_offset";
  // HotspotMethods takes a symbol's first word apart, as it is since JDK 13.
  if (symbol_length != 4 || symbol_body != 6) return "Symbol";
  return nullptr;
}

// Two layouts of an nmethod are known; of a third nothing is read.
void HotspotStructs::look_at_scopes() {
  const auto all = [&](std::initializer_list<int32_t> offsets) {
    for (const int32_t each : offsets)
      if (each < 0) return false;
    return true;
  };
  const bool until_22 =
      all({nmethod_dependencies, nmethod_metadata, nmethod_scopes, blob_code, nmethod_deopt}) && nmethod_immutable < 0;
  const bool since_23 = all({nmethod_immutable, nmethod_immutable_bytes, nmethod_scopes_offset, blob_mutable,
                             blob_mutable_bytes, blob_relocation_bytes, blob_code_offset, nmethod_deopt_offset});
  // Before JDK 9, which had no CompiledMethod, the version was one of HotSpot's own.
  const int32_t major = version ? *reinterpret_cast<const int32_t*>(version) : 0;
  lowest_byte = since_23 || (until_22 && major >= 20);
  has_scopes = (until_22 || since_23) && pc_desc_bytes == 16 &&
               all({nmethod_compile_id, nmethod_scope_pcs, nmethod_original_pc, pc_desc_pc, pc_desc_scope});
  // And of an interpreter's frame one: before JDK 9 the place in the bytecode stood elsewhere.
  if (!has_scopes || !all({method_code_bytes, method_words, const_method_size}) || !has_lines_flag || has_lines_flag > 0xffff)
    method_flags = -1;
}

bool HotspotStructs::read_of_threads(const void* library) {
  read(library);
  return java_thread_os_thread >= 0 && os_thread_id >= 0;
}

}  // namespace heapspy::unwind
