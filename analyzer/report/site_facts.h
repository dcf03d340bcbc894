// What verdicts are told about call stacks: the few sites that they may name.
#pragma once
#include <initializer_list>
#include <vector>

#include "analyzer/findings/facts.h"
#include "analyzer/model/heap_model.h"
#include "analyzer/report/site_book.h"
#include "analyzer/report/suppressions.h"

namespace heapspy::report {

// Sites that verdicts about these moments (some may be nullptr) may name; to be wanted of the book.
std::vector<trace::SiteId> sites_of_facts(const model::Figures&, std::initializer_list<const model::Moment*>);
// Fills facts.sites and the sites of plugs. The book has looked up sites_of_facts().
void add_sites(findings::Facts&, const Report&, const model::Figures&, const model::Moment&, const SiteBook&,
               const Suppressions&, const trace::Reader&);

}  // namespace heapspy::report
