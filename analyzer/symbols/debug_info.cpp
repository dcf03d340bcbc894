#include "analyzer/symbols/debug_info.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "analyzer/symbols/demangle.h"

namespace heapspy::symbols {

namespace {

constexpr std::size_t kMostLocations = 64;  // of functions inlined into each other; more is damage
constexpr int kDeepestScope = 200;

// What our callback needs to know; libdw keeps a pointer to it per module.
struct Search {
  const std::string* debug_file = nullptr;
  bool asked = false;
};

// For the debug information of the module itself: the file found by build-id. Else as libdw does: by debug link, and what
// dwz moved elsewhere. libdw asks debuginfod where $DEBUGINFOD_URLS is set.
int find_debug_file(Dwfl_Module* module, void** user, const char* name, Dwarf_Addr base, const char* file, const char* link,
                    GElf_Word crc, char** found) {
  auto* search = static_cast<Search*>(*user);
  if (search && !search->asked && !search->debug_file->empty()) {
    search->asked = true;
    const int fd = ::open(search->debug_file->c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      *found = ::strdup(search->debug_file->c_str());
      return fd;
    }
  }
  return dwfl_standard_find_debuginfo(module, user, name, base, file, link, crc, found);
}

int find_no_elf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) { return -1; }

class Reading {
 public:
  Reading(const FoundModule& module, const SearchPaths& search, std::span<const std::uint64_t> addresses)
      : addresses_(addresses) {
    if (!search.debuginfod) ::unsetenv("DEBUGINFOD_URLS");
    debug_path_ = ":.debug";
    for (const std::string& folder : debug_folders(search)) debug_path_ += ":" + folder;
    debug_path_pointer_ = debug_path_.data();
    callbacks_ = {find_no_elf, find_debug_file, dwfl_offline_section_address, &debug_path_pointer_};
    debug_file_ = module.debug == module.binary ? std::string() : module.debug;
    search_ = {&debug_file_, false};
    dwfl_.reset(dwfl_begin(&callbacks_));
    if (!dwfl_) return;
    module_ = dwfl_report_elf(dwfl_.get(), "module", module.binary.c_str(), -1, 0, true);
    dwfl_report_end(dwfl_.get(), nullptr, nullptr);
    GElf_Addr bias = 0;
    if (!module_ || !dwfl_module_getelf(module_, &bias)) {
      module_ = nullptr;
      return;
    }
    bias_ = bias;
    void** user = nullptr;
    dwfl_module_info(module_, &user, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    *user = &search_;
  }

  ModuleLocations locations() {
    ModuleLocations result;
    result.at.resize(addresses_.size());
    if (!module_) return result;
    read_debug_info(result);
    read_symbols(result);
    return result;
  }

 private:
  using Indices = std::vector<std::uint32_t>;  // into addresses_, ascending

  struct Unit {
    Dwarf_Die die, split;  // `split`: where functions are described
    Indices wanted;
  };
  struct Symbol {
    std::uint64_t begin = 0, end = 0;
    const char* name = nullptr;
    bool global = false;
  };

  // Calls visit(index) for the indices in `among` whose address lies in the ranges of `die`.
  template <typename Visit>
  void for_each_in(Dwarf_Die* die, const Indices& among, Visit visit) {
    Dwarf_Addr base = 0, begin = 0, end = 0;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &begin, &end)) > 0;) {
      auto first = std::lower_bound(among.begin(), among.end(), begin,
                                    [&](std::uint32_t i, Dwarf_Addr address) { return in_dwarf(i) < address; });
      for (; first != among.end() && in_dwarf(*first) < end; ++first) visit(*first);
    }
  }
  std::uint64_t in_dwarf(std::uint32_t i) const { return addresses_[i] + bias_ - dwarf_bias_; }

  void read_debug_info(ModuleLocations& result) {
    Dwarf_Addr bias = 0;
    Dwarf* dwarf = dwfl_module_getdwarf(module_, &bias);
    if (!dwarf) return;
    dwarf_bias_ = bias;
    result.debug_info = true;
    Indices all(addresses_.size());
    for (std::uint32_t i = 0; i < all.size(); i++) all[i] = i;
    std::vector<bool> taken(all.size());
    Dwarf_CU* cu = nullptr;
    Unit unit{};
    std::uint8_t kind = 0;
    std::size_t left = all.size();
    while (left && dwarf_get_units(dwarf, cu, &cu, nullptr, &kind, &unit.die, &unit.split) == 0) {
      if (kind != DW_UT_compile && kind != DW_UT_skeleton) continue;
      unit.wanted.clear();
      for_each_in(&unit.die, all, [&](std::uint32_t i) {
        if (taken[i]) return;
        taken[i] = true;
        left--;
        unit.wanted.push_back(i);
      });
      if (unit.wanted.empty()) continue;
      std::sort(unit.wanted.begin(), unit.wanted.end());
      read_unit(unit, result);
    }
  }

  void read_unit(Unit& unit, ModuleLocations& result) {
    Dwarf_Die* scopes = unit.split.addr ? &unit.split : &unit.die;
    chains_.clear();
    chains_.resize(unit.wanted.size());
    unit_ = &unit;
    rust_ = dwarf_srclang(scopes) == DW_LANG_Rust;
    find_scopes(scopes, unit.wanted, 0);
    find_namespaces(scopes);
    Dwarf_Files* files = nullptr;
    std::size_t file_count = 0;
    if (dwarf_getsrcfiles(&unit.die, &files, &file_count) != 0) files = nullptr;
    for (std::size_t k = 0; k < unit.wanted.size(); k++) {
      const std::uint32_t i = unit.wanted[k];
      Location at = line_of(unit, in_dwarf(i));
      Locations& to = result.at[i];
      std::vector<Dwarf_Die>& chain = chains_[k];
      for (; !chain.empty(); chain.pop_back()) {
        at.function = name_of(&chain.back());
        to.push_back(std::move(at));
        at = call_of(&chain.back(), files, file_count);
      }
      if (to.empty() && at.line) to.push_back(std::move(at));
    }
  }

  // The functions around the wanted addresses, each below those it was inlined into.
  void find_scopes(Dwarf_Die* parent, const Indices& wanted, int depth) {
    Dwarf_Die child;
    if (depth > kDeepestScope || dwarf_child(parent, &child) != 0) return;
    std::size_t left = wanted.size();
    do {
      const int tag = dwarf_tag(&child);
      switch (tag) {
        case DW_TAG_subprogram:
        case DW_TAG_inlined_subroutine:
        case DW_TAG_lexical_block:
        case DW_TAG_try_block:
        case DW_TAG_catch_block: {
          Indices inside;
          for_each_in(&child, wanted, [&](std::uint32_t i) { inside.push_back(i); });
          if (inside.empty()) break;
          std::sort(inside.begin(), inside.end());
          if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
            for (const std::uint32_t i : inside)
              if (auto& chain = chain_of(i); chain.size() < kMostLocations) chain.push_back(child);
          find_scopes(&child, inside, depth + 1);
          left -= std::min(left, inside.size());
          break;
        }
        case DW_TAG_namespace:
        case DW_TAG_module: find_scopes(&child, wanted, depth + 1); break;
        case DW_TAG_structure_type:
        case DW_TAG_enumeration_type:
        case DW_TAG_union_type:
          if (rust_) find_scopes(&child, wanted, depth + 1);  // its methods are described where the type is
          break;
        default: break;
      }
    } while (left && dwarf_siblingof(&child, &child) == 0);
  }

  std::vector<Dwarf_Die>& chain_of(std::uint32_t i) {
    const auto at = std::lower_bound(unit_->wanted.begin(), unit_->wanted.end(), i);
    return chains_[static_cast<std::size_t>(at - unit_->wanted.begin())];
  }

  static const char* linkage_name(Dwarf_Die* die) {
    Dwarf_Attribute attribute;
    for (const unsigned kind : {unsigned{DW_AT_linkage_name}, unsigned{DW_AT_MIPS_linkage_name}})
      if (dwarf_attr_integrate(die, kind, &attribute))
        if (const char* name = dwarf_formstring(&attribute)) return name;
    return nullptr;
  }

  std::string name_of(Dwarf_Die* die) {
    if (const char* linkage = linkage_name(die)) return demangle(linkage);
    const char* name = dwarf_diename(die);
    if (!name) return {};
    const auto scope = namespaces_.find(declaration_of(*die));
    return scope == namespaces_.end() ? name : scope->second + name;
  }

  // Where the function is declared: in the class or namespace that it belongs to.
  static Dwarf_Off declaration_of(Dwarf_Die die) {
    Dwarf_Attribute attribute;
    for (int steps = 0; steps < 4; steps++) {
      if (!dwarf_attr(&die, DW_AT_abstract_origin, &attribute) && !dwarf_attr(&die, DW_AT_specification, &attribute)) break;
      Dwarf_Die next;
      if (!dwarf_formref_die(&attribute, &next)) break;
      die = next;
    }
    return dwarf_dieoffset(&die);
  }

  // What stands before the names of functions that no other unit sees: they have no name in symbol tables that would say it.
  void find_namespaces(Dwarf_Die* scopes) {
    namespaces_.clear();
    const int language = dwarf_srclang(scopes);
    if (language == DW_LANG_C99 || language == DW_LANG_C11 || language == DW_LANG_C89) return;
    for (std::vector<Dwarf_Die>& chain : chains_)
      for (Dwarf_Die& die : chain)
        if (!linkage_name(&die)) namespaces_.try_emplace(declaration_of(die));
    if (!namespaces_.empty()) name_scopes(scopes, "", 0);
    std::erase_if(namespaces_, [](const auto& each) { return each.second.empty(); });
  }
  void name_scopes(Dwarf_Die* parent, const std::string& prefix, int depth) {
    Dwarf_Die child;
    if (depth > kDeepestScope || dwarf_child(parent, &child) != 0) return;
    do {
      const int tag = dwarf_tag(&child);
      if (tag == DW_TAG_subprogram)
        if (const auto wanted = namespaces_.find(dwarf_dieoffset(&child)); wanted != namespaces_.end()) wanted->second = prefix;
      if (tag != DW_TAG_namespace && tag != DW_TAG_structure_type && tag != DW_TAG_class_type && tag != DW_TAG_union_type &&
          tag != DW_TAG_subprogram)
        continue;
      const char* name = dwarf_diename(&child);
      if (!name && tag == DW_TAG_subprogram) continue;  // a body of what is declared elsewhere
      name_scopes(&child,
                  prefix +
                      (name                      ? name
                       : tag == DW_TAG_namespace ? "(anonymous namespace)"
                                                 : "{unnamed}") +
                      "::",
                  depth + 1);
    } while (dwarf_siblingof(&child, &child) == 0);
  }

  static Location line_of(Unit& unit, std::uint64_t address) {
    Location at;
    Dwarf_Line* line = dwarf_getsrc_die(&unit.die, address);
    int number = 0;
    if (!line || dwarf_lineno(line, &number) != 0 || number <= 0) return at;
    at.line = static_cast<std::uint32_t>(number);
    if (const char* file = dwarf_linesrc(line, nullptr, nullptr)) at.file = file;
    return at;
  }

  // Where an inlined function was called.
  static Location call_of(Dwarf_Die* die, Dwarf_Files* files, std::size_t file_count) {
    Location at;
    Dwarf_Attribute attribute;
    Dwarf_Word number = 0;
    if (dwarf_tag(die) != DW_TAG_inlined_subroutine) return at;
    if (dwarf_attr(die, DW_AT_call_line, &attribute) && dwarf_formudata(&attribute, &number) == 0)
      at.line = static_cast<std::uint32_t>(number);
    if (files && dwarf_attr(die, DW_AT_call_file, &attribute) && dwarf_formudata(&attribute, &number) == 0 &&
        number < file_count)
      if (const char* file = dwarf_filesrc(files, number, nullptr, nullptr)) at.file = file;
    return at;
  }

  // For addresses whose function debug information does not know.
  void read_symbols(ModuleLocations& result) {
    const auto known = [](const Locations& at) { return !at.empty() && !at.back().function.empty(); };
    const int count = dwfl_module_getsymtab(module_);
    result.symbols = count > 1;
    if (std::all_of(result.at.begin(), result.at.end(), known)) return;
    std::vector<Symbol> symbols;
    for (int i = 1; i < count; i++) {
      GElf_Sym symbol;
      GElf_Addr address = 0;
      const char* name = dwfl_module_getsym_info(module_, i, &symbol, &address, nullptr, nullptr, nullptr);
      const int type = GELF_ST_TYPE(symbol.st_info);
      if (!name || !*name || symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC)) continue;
      symbols.push_back({address, address + symbol.st_size, name, GELF_ST_BIND(symbol.st_info) == STB_GLOBAL});
    }
    std::stable_sort(symbols.begin(), symbols.end(), [](const Symbol& a, const Symbol& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.global < b.global;  // of several names the exported one
    });
    for (std::size_t i = 0; i < addresses_.size(); i++) {
      if (known(result.at[i])) continue;
      const std::uint64_t wanted = addresses_[i] + bias_;
      const auto above = std::upper_bound(symbols.begin(), symbols.end(), wanted,
                                          [](std::uint64_t address, const Symbol& symbol) { return address < symbol.begin; });
      if (above == symbols.begin()) continue;
      const Symbol& symbol = *std::prev(above);
      // Assembly has symbols without a size: they reach to the next.
      if (wanted >= symbol.end && symbol.end != symbol.begin) continue;
      if (result.at[i].empty()) result.at[i].emplace_back();
      result.at[i].back().function = demangle(symbol.name);
    }
  }

  struct EndDwfl {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };

  std::span<const std::uint64_t> addresses_;
  std::string debug_path_, debug_file_;
  char* debug_path_pointer_ = nullptr;
  Dwfl_Callbacks callbacks_{};
  Search search_;
  std::unique_ptr<Dwfl, EndDwfl> dwfl_;
  Dwfl_Module* module_ = nullptr;
  std::uint64_t bias_ = 0, dwarf_bias_ = 0;
  std::vector<std::vector<Dwarf_Die>> chains_;  // as unit_->wanted; outermost first
  std::unordered_map<Dwarf_Off, std::string> namespaces_;
  Unit* unit_ = nullptr;
  bool rust_ = false;
};

}  // namespace

ModuleLocations locate(const FoundModule& module, const SearchPaths& search, std::span<const std::uint64_t> addresses) {
  if (module.binary.empty()) return {std::vector<Locations>(addresses.size())};
  return Reading(module, search, addresses).locations();
}

}  // namespace heapspy::symbols
