#include "analyzer/symbols/symbol_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "heapspy/format/layout.h"

namespace heapspy::symbols {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "HSPYSYM1";
constexpr const char* kSuffix = ".symbols";

class Writer {
 public:
  template <typename Number>
  void number(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& text) {
    number(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Gives zeros and empty texts past the end, and says so.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  template <typename Number>
  Number number() {
    Number value{};
    if (left_.size() < sizeof value) return fail(), value;
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const auto length = number<std::uint32_t>();
    if (left_.size() < length) return fail(), std::string();
    std::string text(left_.substr(0, length));
    left_.remove_prefix(length);
    return text;
  }
  bool ok() const { return ok_; }

 private:
  void fail() {
    ok_ = false;
    left_ = {};
  }
  std::string_view left_;
  bool ok_ = true;
};

std::optional<RememberedModule> decoded(std::string_view file, const std::string& source) {
  if (!file.starts_with(kMagic)) return std::nullopt;
  Reader head(file.substr(kMagic.size()));
  const auto checksum = head.number<std::uint64_t>();
  if (!head.ok()) return std::nullopt;
  const std::string_view rest = file.substr(kMagic.size() + sizeof checksum);
  if (format::checksum(rest.data(), rest.size()) != checksum) return std::nullopt;
  Reader reader(rest);
  if (reader.text() != source) return std::nullopt;
  RememberedModule module;
  module.symbols = reader.number<std::uint8_t>() != 0;
  std::vector<std::string> texts;
  for (auto count = reader.number<std::uint32_t>(); count && reader.ok(); count--) texts.push_back(reader.text());
  const auto text_at = [&](std::uint32_t index) { return index < texts.size() ? texts[index] : std::string(); };
  for (auto count = reader.number<std::uint32_t>(); count && reader.ok(); count--) {
    Locations& at = module.at[reader.number<std::uint64_t>()];
    for (auto inlined = reader.number<std::uint32_t>(); inlined && reader.ok(); inlined--) {
      Location& location = at.emplace_back();
      location.function = text_at(reader.number<std::uint32_t>());
      location.file = text_at(reader.number<std::uint32_t>());
      location.line = reader.number<std::uint32_t>();
    }
  }
  if (!reader.ok()) return std::nullopt;
  return module;
}

std::string encoded(const RememberedModule& module, const std::string& source) {
  std::vector<const std::string*> texts;
  std::unordered_map<std::string_view, std::uint32_t> number_of;
  Writer addresses;
  const auto add_text = [&](const std::string& text) {
    const auto [known, fresh] = number_of.try_emplace(text, static_cast<std::uint32_t>(texts.size()));
    if (fresh) texts.push_back(&text);
    addresses.number(known->second);
  };
  addresses.number(static_cast<std::uint32_t>(module.at.size()));
  for (const auto& [address, locations] : module.at) {
    addresses.number(address);
    addresses.number(static_cast<std::uint32_t>(locations.size()));
    for (const Location& location : locations) {
      add_text(location.function);
      add_text(location.file);
      addresses.number(location.line);
    }
  }
  Writer rest;
  rest.text(source);
  rest.number(static_cast<std::uint8_t>(module.symbols));
  rest.number(static_cast<std::uint32_t>(texts.size()));
  for (const std::string* text : texts) rest.text(*text);
  std::string file(kMagic);
  std::string payload = rest.bytes() + addresses.bytes();
  payload.resize((payload.size() + 7) / 8 * 8);  // the checksum is of whole words
  const std::uint64_t checksum = format::checksum(payload.data(), payload.size());
  file.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  return file + payload;
}

// "path size mtime"
std::string identity(const std::string& path) {
  struct stat about {};
  if (path.empty() || ::stat(path.c_str(), &about) != 0) return "-";
  return fmt::format("{} {} {}.{:09}", path, about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
}

bool write_whole(const std::string& path, const std::string& data) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  std::size_t done = 0;
  while (done < data.size()) {
    const ssize_t wrote = ::write(fd, data.data() + done, data.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  return ::close(fd) == 0 && done == data.size();
}

}  // namespace

std::string SymbolCache::path_of(const std::string& build_id) const {
  return folder_ + "/" + build_id_text(build_id) + kSuffix;
}

std::optional<RememberedModule> SymbolCache::read(const std::string& build_id, const std::string& source) const {
  if (folder_.empty() || build_id.empty()) return std::nullopt;
  const int fd = ::open(path_of(build_id).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat about {};
  std::string file;
  if (::fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && static_cast<std::uint64_t>(about.st_size) <= kMostFileBytes) {
    file.resize(static_cast<std::size_t>(about.st_size));
    std::size_t done = 0;
    for (ssize_t count = 1; count > 0 && done < file.size(); done += static_cast<std::size_t>(std::max<ssize_t>(count, 0)))
      count = ::read(fd, file.data() + done, file.size() - done);
    file.resize(done);
    ::futimens(fd, nullptr);  // it was used
  }
  ::close(fd);
  return decoded(file, source);
}

void SymbolCache::write(const std::string& build_id, const std::string& source, const RememberedModule& module) const {
  if (folder_.empty() || build_id.empty()) return;
  const std::string file = encoded(module, source);
  if (file.size() > kMostFileBytes) return;
  std::error_code error;
  if (!fs::is_directory(folder_, error)) {
    fs::create_directories(folder_, error);
    if (error) return;
    fs::permissions(folder_, fs::perms::owner_all, error);  // it tells which files there are
  }
  const std::string path = path_of(build_id), fresh = fmt::format("{}.{}", path, ::getpid());
  if (write_whole(fresh, file) && ::rename(fresh.c_str(), path.c_str()) == 0) return make_room();
  ::unlink(fresh.c_str());
}

void SymbolCache::make_room() const {
  struct Entry {
    fs::file_time_type used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uint64_t sum = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const Entry entry{at->last_write_time(gone), at->file_size(gone), at->path()};
    if (gone || entry.path.filename().string().find(kSuffix) == std::string::npos) continue;
    sum += entry.bytes;
    entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (sum <= most_bytes_) break;
    if (fs::remove(entry.path, error)) sum -= entry.bytes;
  }
}

ModuleLocations locate_remembering(const Module& module, const FoundModule& found, const SearchPaths& search,
                                   std::span<const std::uint64_t> addresses) {
  if (search.cache.empty() || module.build_id.empty() || found.binary.empty()) return locate(found, search, addresses);
  const SymbolCache cache(search.cache);
  const std::string source = identity(found.binary) + "\n" + identity(found.debug);
  RememberedModule known = cache.read(module.build_id, source).value_or(RememberedModule());
  std::vector<std::uint64_t> unknown;
  for (const std::uint64_t address : addresses)
    if (!known.at.contains(address)) unknown.push_back(address);
  ModuleLocations result;
  result.debug_info = !known.at.empty();  // nothing else is remembered
  result.symbols = known.symbols;
  if (!unknown.empty()) {
    ModuleLocations fresh = locate(found, search, unknown);
    result.debug_info = fresh.debug_info;
    result.symbols = known.symbols = fresh.symbols;
    for (std::size_t i = 0; i < unknown.size(); i++) known.at[unknown[i]] = std::move(fresh.at[i]);
    // Without debug information it is quick, and some may be installed later where only libdw looks.
    if (fresh.debug_info) cache.write(module.build_id, source, known);
  }
  for (const std::uint64_t address : addresses) result.at.push_back(known.at[address]);
  return result;
}

}  // namespace heapspy::symbols
