#include "analyzer/exports/gzip.h"

#include <zlib.h>

#include <stdexcept>

namespace heapspy::exports {

std::string gzip(const std::string& data) {
  constexpr int kGzipWindow = 15 + 16;  // zlib.h: 16 more asks for a gzip header
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib: no memory");
  std::string packed(deflateBound(&stream, static_cast<uLong>(data.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int done = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (done != Z_STREAM_END) throw std::runtime_error("zlib: the profile is larger than 4 GiB");
  return packed;
}

}  // namespace heapspy::exports
