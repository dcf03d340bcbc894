// An inspection as JSON, schema heapspy.inspect/1.
#pragma once
#include <nlohmann/json.hpp>

#include "analyzer/report/inspection.h"

namespace heapspy::report {

struct InspectionDetail {
  bool bins = false, chunks = false;
  std::optional<std::uint64_t> heap;  // an address in it
};

// Every key of the schema is always there; what is not known is null. `bins` and `chunks` only where asked for.
nlohmann::ordered_json inspection_json(const Inspection&, const InspectionDetail&);

}  // namespace heapspy::report
